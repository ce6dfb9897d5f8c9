"""Shared by all readers of Catalyst's expressions: scope, types, checks, and the entry in the table of expressions.

A reader is given a node whose children have been read (`read_already`), and returns an expression or raises `Declined`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from sundog.expr.evaluation.zones import Zone
from sundog.expr.nodes import Column, EvalMode, Expr, Literal
from sundog.front.catalyst_json import Node
from sundog.front.expressions.time_zones import fixed_zone
from sundog.front.repeated_columns import spelt_below
from sundog.support import Code, Declined, Reason
from sundog.types import arrow_type, spark_name

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Subquery:
    """An uncorrelated scalar subquery: its number in the query, and the types of its columns.

    `is_struct`: its value is a struct with these fields.
    """

    number: int
    dtypes: tuple[pa.DataType, ...]
    is_struct: bool = False


def no_subqueries(node: Node) -> Subquery:
    raise Declined.because(Code.UNKNOWN_EXPRESSION, f"{node.name} is not computed by sundog", node.name)


def struct_values(root: Node) -> list[Node] | None:
    """The values that a subquery puts into one struct; None if it gives a plain value."""
    trees: tuple[Node, ...] = root["projectList"] if root.name == "Project" else ()
    if len(trees) != 1 or trees[0].name != "Alias" or trees[0].child.name != "CreateNamedStruct":
        return None
    return list(trees[0].child.children[1::2])


@dataclass(frozen=True)
class Scope:
    """What an expression may refer to: columns by internal name, and the session's rules.

    `zones` holds the JVM's rules of time zones by name (`time_zones.java_zone`); zones of fixed offset may be missing.
    `subquery` returns what the node of a scalar subquery stands for.
    """

    columns: Mapping[str, pa.DataType]
    zone: str = "UTC"
    zones: Mapping[str, Zone] = field(default_factory=dict)
    case_mapping: int | None = 17  # ICU's Unicode version; None for Java's rules: spark.sql.icu.caseMappings.enabled
    segment_trees: bool = False  # spark.sql.window.segmentTree.enabled
    whole_stage: bool = True  # spark.sql.codegen.wholeStage
    subquery: Callable[[Node], Subquery] = field(default=no_subqueries, compare=False, repr=False)
    done: dict[int, Expr | Declined] = field(default_factory=dict, compare=False, repr=False)
    corr_may_raise: bool = False  # under ANSI, before Spark 4.3

    def column(self, attribute: Node) -> Column:
        name = spelt_below(f"{attribute['name']}#{attribute['exprId']['id']}", self.columns)
        dtype = type_of(attribute["dataType"], name)
        if name not in self.columns:
            raise Declined.because(Code.PLAN_VERSION, f"column {name} is not among the columns below", attribute.name)
        if self.columns[name] != dtype:
            raise Declined.because(
                Code.UNSUPPORTED_TYPE, f"column {name} is {spark_name(dtype)} here and not below", attribute.name
            )
        return Column(name, dtype)

    def rules_of(self, zone: str) -> Zone | None:
        return fixed_zone(zone) or self.zones.get(zone)


def read_already(node: Node, scope: Scope) -> Expr:
    """The expression of a node that has been read; raises the `Declined` of one that could not be."""
    made = scope.done[id(node)]
    if isinstance(made, Declined):
        raise made
    return made


def type_of(spark_type: Any, what: str) -> pa.DataType:
    """The Arrow type for a type in Catalyst's JSON."""
    dtype = arrow_type(spark_type)
    if dtype is not None and not (pa.types.is_decimal(dtype) and dtype.scale < 0):
        return dtype
    if isinstance(spark_type, str) and spark_type.startswith("string collate"):
        raise Declined.because(Code.COLLATION, f"{what} is a {spark_type}", what)
    shown = spark_type.get("type", spark_type) if isinstance(spark_type, dict) else spark_type
    raise Declined.because(Code.UNSUPPORTED_TYPE, f"{what} has type {shown}", what)


def all_or_reasons(read: Callable[[T], R], values: Iterable[T]) -> list[R]:
    """The results of `read` for all values; raises `Declined` with the reasons of all that it declines, each once."""
    done: list[R] = []
    reasons: list[Reason] = []
    for value in values:
        try:
            done.append(read(value))
        except Declined as declined:
            reasons += (reason for reason in declined.reasons if reason not in reasons)
    if reasons:
        raise Declined(*reasons)
    return done


def all_read(nodes: Sequence[Node], scope: Scope) -> list[Expr]:
    """The expressions of nodes that have been read; raises the reasons of all that could not be."""
    return all_or_reasons(lambda node: read_already(node, scope), nodes)


def children_of(node: Node, scope: Scope, count: int) -> list[Expr]:
    """The expressions of the children, of which there must be `count`."""
    if len(node.children) != count:
        raise Declined.because(Code.PLAN_VERSION, f"{node.name} has {len(node.children)} children", node.name)
    return all_read(node.children, scope)


def require(condition: bool, code: Code, sentence: str, node: Node) -> None:
    """Decline unless the condition holds."""
    if not condition:
        raise Declined.because(code, sentence, node.name)


def refuse_type(node: Node, *dtypes: pa.DataType) -> Declined:
    """The `Declined` to raise for arguments of these types."""
    shown = ", ".join(map(spark_name, dtypes))
    return Declined.because(Code.UNSUPPORTED_TYPE, f"{node.name} of {shown} is not computed by sundog", node.name)


def same_type(node: Node, exprs: Sequence[Expr]) -> pa.DataType:
    """The one type of all arguments; Catalyst has coerced them, so declines if there are several."""
    first = exprs[0].dtype
    require(
        all(expr.dtype == first for expr in exprs),
        Code.PLAN_VERSION,
        f"{node.name} has arguments of several types: {', '.join(spark_name(e.dtype) for e in exprs)}",
        node,
    )
    return first


def mode_of(node: Node, key: str) -> EvalMode:
    """The evaluation mode that `jvm.expression_details.complete` has filled in."""
    value = node.get(key)
    if value not in ("ANSI", "LEGACY", "TRY"):
        raise Declined.because(Code.PLAN_VERSION, f"{node.name} has the unknown evaluation mode {value!r}", node.name)
    return EvalMode(value)


def mode_by_flag(node: Node, key: str, error: bool) -> EvalMode:
    """The mode of expressions that have a flag instead: `error` is the flag's value for ANSI."""
    value = node[key]
    require(isinstance(value, bool), Code.PLAN_VERSION, f"{node.name}.{key} is {value!r}", node)
    return EvalMode.ANSI if value == error else EvalMode.LEGACY


def zone_of(node: Node, scope: Scope) -> Zone:
    name = node["timeZoneId"]
    zone = scope.rules_of(name) if isinstance(name, str) else None
    if zone is None:
        raise Declined.because(Code.UNKNOWN_EXPRESSION, f"the rules of time zone {name} are not known", node.name)
    return zone


def constant(expr: Expr, node: Node, what: str) -> Any:
    """The value of an argument that must be a constant and not NULL."""
    require(
        isinstance(expr, Literal) and expr.value is not None,
        Code.UNKNOWN_EXPRESSION,
        f"{node.name} with {what} that is not a constant",
        node,
    )
    return expr.value  # type: ignore[attr-defined]


Reader = Callable[[Node, Scope], Expr]


@dataclass(frozen=True)
class Entry:
    """A row of the table of expressions: how a node is read, and the SQL that it comes from, for the documentation."""

    read: Reader
    doc: str
