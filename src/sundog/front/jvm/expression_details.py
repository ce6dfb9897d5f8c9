"""Details of expressions that Catalyst's JSON leaves out, or prints as text, read from JVM objects: one call per plan.

`toJSON` writes `null` for everything that is neither a tree nor a plain value. It writes constants as text: timestamps
in the zone of the calling thread's active session, strings with U+FFFD for invalid UTF-8. So constants and the fields
below are taken from the objects themselves and written into the parsed tree:

    Literal         internal      Catalyst's internal value, see `expressions/literals.py`
    InSet           hset          a list of internal values
    Cast, Average   evalMode      "ANSI", "LEGACY" or "TRY"; for Average also dataType, the result type as JSON
    Add, Sum, ...   evalContext   the same three, with dataType
    Like            escapeChar    one character

One call, whatever the size of the plan: a function made of method handles goes through the plan inside the JVM,

    plan.map(node => node.expressions.map(tree => tree.map(expression => [class, detail])))

and Jackson writes the result. Expressions stand in the order of the JSON, both in pre-order. Their classes are
compared. If they do not match, for example because a node has expressions that the JSON does not show, the details of
that node's expressions are left out, and a reader that needs them declines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sundog.front.catalyst_json import Node
from sundog.front.jvm.large_text import TextFunction
from sundog.front.jvm.method_handles import Methods, methods
from sundog.front.jvm.objects import once_per_jvm
from sundog.versions import spark_version

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_EVAL_MODE = "scala.Enumeration$Value"
_DATA_TYPE = "org.apache.spark.sql.types.DataType"
_OBJECT, _STRING = "java.lang.Object", "java.lang.String"
_TREE_NODE = "org.apache.spark.sql.catalyst.trees.TreeNode"
_WITH_EVAL_CONTEXT = ("BinaryArithmetic", "aggregate.Sum")

Details = list[list[Any]]


def read_details(jvm: Any, jplan: Any) -> Details:
    """For each node of the plan, for each of its expressions: its class, or [class, detail]."""
    nodes: list[list[list[Any]]] = json.loads(_details_function(jvm)(jplan))
    return [[entry for tree in trees for entry in tree] for trees in nodes]


def complete(root: Node, details: Details) -> None:
    """Write the details into the expressions of the plan `root`, if the two match."""
    for node, entries in zip(root.walk(), details, strict=False):
        expressions = [expression for tree in node.trees() for expression in tree.walk()]
        if [e.name for e in expressions] != [_class_of(entry) for entry in entries]:
            continue
        for expression, entry in zip(expressions, entries, strict=True):
            if isinstance(entry, list):
                _complete(expression, entry[1])


def _class_of(entry: Any) -> str:
    name: str = entry[0] if isinstance(entry, list) else entry
    return spark_version().plan_names.class_name(name.rsplit(".", 1)[-1].rstrip("$"))


def _complete(expression: Node, detail: Any) -> None:
    fields = expression.fields
    match expression.name:
        case "Literal":
            fields["internal"] = detail
        case "InSet":
            fields["hset"] = detail
        case "Cast":
            fields["evalMode"] = detail
        case "Like":
            fields["escapeChar"] = detail
        case "Average":
            fields["evalMode"], fields["dataType"] = detail[0], json.loads(detail[1])
        case _:
            fields["evalContext"], fields["dataType"] = detail[0], json.loads(detail[1])


@once_per_jvm
def _details_function(jvm: Any) -> TextFunction:
    """Plan -> the JSON of its details."""
    made = methods(jvm)
    seq = spark_version().seq_class(jvm)
    expressions = made.virtual("org.apache.spark.sql.catalyst.plans.QueryPlan", "expressions", seq)
    of_node = made.array(made.mapped(expressions, _for_each(made, seq, _of_expression(made))))
    return made.to_json(_for_each(made, seq, of_node))


def _for_each(made: Methods, seq: str, handle: Any) -> Any:
    """Handle: tree -> the list of the handle's results for its nodes."""
    function = made.function(made.by_class({}, handle), "scala.Function1")
    return made.chain(made.bind_last(made.virtual(_TREE_NODE, "map", seq, "scala.Function1"), function), made.as_list())


def _of_expression(made: Methods) -> Any:
    """Handle: expression -> its class, or [class, detail] for those that have one."""
    name = made.class_name()
    text = made.virtual(_OBJECT, "toString", _STRING)
    internal = _internal_value(made)
    average = _EXPRESSIONS + "aggregate.Average"
    details = {
        _EXPRESSIONS + "Literal": made.chain(made.virtual(_EXPRESSIONS + "Literal", "value", _OBJECT), internal),
        _EXPRESSIONS + "InSet": made.array(
            made.mapped(
                made.virtual(_EXPRESSIONS + "InSet", "hset", "scala.collection.immutable.Set"), internal, made.as_set()
            )
        ),
        _EXPRESSIONS + "Cast": made.chain(made.virtual(_EXPRESSIONS + "Cast", "evalMode", _EVAL_MODE), text),
        _EXPRESSIONS + "Like": made.virtual(_EXPRESSIONS + "Like", "escapeChar", "char"),
        average: _with_type(made, made.chain(made.virtual(average, "evalMode", _EVAL_MODE), text)),
    }
    for owner in (_EXPRESSIONS + each for each in _WITH_EVAL_CONTEXT):
        details[owner] = _with_type(made, made.chain(*_eval_mode(made, owner), text))
    return made.by_class({owner: _both(made, name, detail) for owner, detail in details.items()}, name)


def _eval_mode(made: Methods, owner: str) -> Iterator[Any]:
    """The getters that lead from an expression to its evaluation mode."""
    for getter, returns in spark_version().eval_mode_getters:
        yield made.virtual(owner, getter, returns)
        owner = returns


def _with_type(made: Methods, detail: Any) -> Any:
    data_type = made.virtual(_EXPRESSIONS + "Expression", "dataType", _DATA_TYPE)
    return _both(made, detail, made.chain(data_type, made.virtual(_DATA_TYPE, "json", _STRING)))


def _both(made: Methods, first: Any, second: Any) -> Any:
    return made.all_of([made.by_class({}, first), made.by_class({}, second)])


def _internal_value(made: Methods) -> Any:
    """Catalyst's internal value -> what Jackson writes exactly: bytes in base64, floats as their bits, decimals as
    text.

    For a value of any other class only the class is written: nothing here computes with it.
    """
    itself = made.identity(_OBJECT)
    decimal, text = "org.apache.spark.sql.types.Decimal", "org.apache.spark.unsafe.types.UTF8String"
    return made.by_class(
        {
            text: made.virtual(text, "getBytes", "[B"),
            decimal: made.chain(
                made.virtual(decimal, "toJavaBigDecimal", "java.math.BigDecimal"),
                made.virtual(_OBJECT, "toString", _STRING),
            ),
            "java.lang.Double": made.static("java.lang.Double", "doubleToRawLongBits", "long", "double"),
            "java.lang.Float": made.static("java.lang.Float", "floatToRawIntBits", "int", "float"),
            "java.lang.Number": itself,
            "java.lang.Boolean": itself,
            "[B": itself,
        },
        made.unless_null(made.class_name()),
    )
