"""Catalyst's `Aggregate` -> a logical aggregate and, above it, the projection of its output columns.

    Aggregate [grp + 1], [grp + 1 AS g, sum(a) / count(1) AS r]

        Project    [key0 AS g, sum / count AS r]
        Aggregate  keys=[grp + 1 AS key0], aggregates=[sum(a), count(*)]

An output expression may mix keys, aggregates and arithmetic. Each aggregate in it is replaced by an attribute of its
own, the rest is translated like any expression, and then every part that equals a key is replaced by that key. If it
still reads another column, the query was illegal, or has an unknown form.

DISTINCT over one list of arguments is part of the calls. Over several lists, or with FILTER, Catalyst has turned it
into an Expand below, as it does with ROLLUP, CUBE and GROUPING SETS; bool_and and bool_or are min and max, count_if is
a count.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.nodes import Column, Expr, Literal, columns_of, substitute, without_normalize
from sundog.front.catalyst_json import Node, replace_nodes
from sundog.front.expressions.reading import Scope
from sundog.front.expressions.translate import translate
from sundog.front.relation.columns import internal_name
from sundog.front.repeated_columns import each_once
from sundog.front.shapes.called_function import check_division, evaluation_mode, in_mode, result_type
from sundog.front.shapes.shared_sums import share_sums
from sundog.functions.counts import COUNT_ROWS
from sundog.functions.declaration import ANY_NUMBER
from sundog.functions.table import of_catalyst
from sundog.plan.logical import Aggregate, LogicalPlan, Project
from sundog.support import Code, Declined, Reason
from sundog.tree import transform_down
from sundog.types import spark_json

_LONG = pa.int64()


def match_aggregate(node: Node, child: LogicalPlan, scope: Scope) -> LogicalPlan:
    """The aggregate under the projection of its output columns; declines with all reasons."""
    reader = _AggregateReader(scope, "_".join(["a", *map(str, node.path)]))
    keys = reader.keys(node["groupingExpressions"] or ())
    outputs = [(internal_name(tree), reader.output(tree)) for tree in node["aggregateExpressions"] or ()]
    reader.check_distinct()
    if reader.reasons:
        raise Declined(*reader.reasons)
    columns = {without_normalize(key.expr): Column(key.name, key.expr.dtype) for key in keys}
    known = {key.name for key in keys} | {call.name for call in reader.calls}
    exprs = each_once((NamedExpr(name, _over_keys(expr, columns)) for name, expr in outputs), node.name)
    loose = sorted(set().union(*(columns_of(named.expr) for named in exprs)) - known)
    if loose:
        raise Declined.because(Code.PLAN_VERSION, f"{', '.join(loose)} is neither key nor aggregate", "Aggregate")
    calls, meaning = share_sums(reader.calls, reader.tag)
    exprs = tuple(NamedExpr(named.name, substitute(named.expr, meaning)) for named in exprs)
    if not keys and not calls:  # one row without columns: add a column to carry it
        calls = [AggregateCall(f"count#{reader.tag}", COUNT_ROWS.name, (), _LONG)]
    return Project(Aggregate(child, keys, tuple(calls)), exprs)


def _over_keys(expr: Expr, columns: dict[Expr, Column]) -> Expr:
    return transform_down(expr, lambda part: columns.get(without_normalize(part), part))


@dataclass
class _AggregateReader:
    """Reads keys and outputs; collects the aggregates in the outputs, and reasons against anything.

    `tag` makes names unique in the query: one aggregate may be above another.
    """

    scope: Scope
    tag: str
    known: dict[AggregateCall, AggregateCall] = field(default_factory=dict)  # by what it computes, without its name
    reasons: list[Reason] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.columns = dict(self.scope.columns)  # with those of the calls

    @property
    def calls(self) -> list[AggregateCall]:
        return list(self.known.values())

    def keys(self, trees: tuple[Node, ...]) -> tuple[NamedExpr, ...]:
        """A key that is a column keeps its name."""
        found: dict[Expr, NamedExpr] = {}
        for index, tree in enumerate(trees):
            expr = without_normalize(self._gather(tree, self.scope))
            name = expr.name if isinstance(expr, Column) else f"key{index}#{self.tag}"
            found.setdefault(expr, NamedExpr(name, expr))
        return tuple(found.values())

    def output(self, tree: Node) -> Expr:
        """The expression over the key expressions and the columns of the calls."""
        replaced = self._without_aggregates(tree)
        return self._gather(replaced, replace(self.scope, columns=self.columns))

    def check_distinct(self) -> None:
        distinct = [call for call in self.calls if call.distinct]
        if any(call.filter is not None for call in distinct):
            self._decline(Reason(Code.FUNCTION, "DISTINCT with FILTER, unexpanded", "Aggregate"))
        if len({frozenset(call.args) for call in distinct}) > 1:
            self._decline(Reason(Code.FUNCTION, "DISTINCT over several argument lists, unexpanded", "Aggregate"))

    def _decline(self, *reasons: Reason) -> None:
        self.reasons += (reason for reason in reasons if reason not in self.reasons)

    def _gather(self, tree: Node, scope: Scope) -> Expr:
        try:
            return translate(tree, scope)
        except Declined as declined:
            self._decline(*declined.reasons)
            return Literal(None, pa.null())

    def _without_aggregates(self, tree: Node) -> Node:
        """The tree with an attribute for each aggregate. An aggregate that is itself the output takes the output's
        name."""

        def attribute(node: Node, parent: Node | None) -> Node | None:
            if node.name == "BitwiseAnd":
                return _grouping_bit(node)
            if node.name != "AggregateExpression":
                return None
            is_output = parent is tree and tree.name == "Alias"
            return self._attribute(node, internal_name(tree) if is_output else f"agg{len(self.known)}#{self.tag}")

        return replace_nodes(tree, attribute)

    def _attribute(self, tree: Node, name: str) -> Node:
        try:
            call = self._call(tree, name)
        except Declined as declined:
            self._decline(*declined.reasons)
            return Node("Literal", {"internal": None, "dataType": "void"})
        known = self.known.setdefault(replace(call, name=""), call)
        self.columns[known.name] = known.dtype
        plain, _, number = known.name.rpartition("#")
        fields = {"name": plain, "exprId": {"id": number}, "dataType": spark_json(known.dtype), "metadata": {}}
        return Node("AttributeReference", fields)

    def _call(self, tree: Node, name: str) -> AggregateCall:
        node = tree.child_at(0)
        function = of_catalyst(node.name)
        if function is None or function.grouped is None:
            raise Declined.because(Code.FUNCTION, f"the aggregate {node.name} is not computed by sundog", node.name)
        check_division(function, node, self.scope)
        if function.arguments not in (ANY_NUMBER, len(node.children)):
            raise Declined.because(Code.PLAN_VERSION, f"{node.name} has {len(node.children)} arguments", node.name)
        args = tuple(translate(argument, self.scope) for argument in node.children)
        mode = evaluation_mode(node)
        distinct = tree.flag("isDistinct")
        return AggregateCall(
            name=name,
            function=in_mode(function, mode).name,
            args=_counted(args) if function is COUNT_ROWS and not distinct else args,
            dtype=result_type(function, node, args),
            filter=translate(tree.child_at(1), self.scope) if len(tree.children) > 1 else None,
            distinct=distinct and not function.ignores_duplicates,
            ignore_nulls=node.flag("ignoreNulls", False),
            ansi=mode == "ANSI",
        )


def _grouping_bit(tree: Node) -> Node | None:
    """Rewrites grouping(x), in Catalyst `(spark_grouping_id >> n) & 1`, by division, as ids are not negative."""
    match [(node.name, node.fields) for node in tree.walk()]:
        case [
            ("BitwiseAnd", _),
            ("ShiftRight", _),
            ("AttributeReference", {"name": "spark_grouping_id"}),
            ("Literal", {"internal": int(places)}),
            ("Literal", {"internal": 1}),
        ] if 0 <= places < 63:
            attribute = tree.child_at(0).child_at(0)
            shifted = Node("IntegralDivide", {"evalContext": "LEGACY"}, (attribute, _long(2**places)))
            return Node("Remainder", {"evalContext": "LEGACY"}, (shifted, _long(2)))
        case _:
            return None


def _long(value: int) -> Node:
    return Node("Literal", {"internal": value, "dataType": "long"})


def _counted(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The arguments of count that may be NULL: a constant is not, so count(1) is count(*)."""
    return tuple(arg for arg in args if not isinstance(arg, Literal) or arg.value is None)
