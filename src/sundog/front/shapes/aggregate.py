"""Catalyst's `Aggregate` -> a logical aggregate and, above it, the projection that its output columns are.

    Aggregate [grp + 1], [grp + 1 AS g, sum(a) / count(1) AS r]

        Project    [#key0 AS g, #agg0 / #agg1 AS r]
        Aggregate  keys=[grp + 1 AS #key0], calls=[sum(a) AS #agg0, count(*) AS #agg1]

An output expression may mix keys, aggregates and arithmetic. Each aggregate in it is replaced by an attribute of its own,
what is left is translated as any expression, and then every part that equals a key is replaced by that key. Whatever
still reads another column was no legal query, or one of a form that is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.nodes import Column, Expr, Literal, NormalizeFloat, columns_of
from sundog.front.catalyst_expr import Scope, translate
from sundog.front.catalyst_json import Node
from sundog.front.relation import internal_name
from sundog.front.support import Code, Declined, Reason
from sundog.plan.logical import Aggregate, LogicalPlan, Project
from sundog.tree import transform_down
from sundog.types import arrow_type, spark_json

FUNCTIONS: dict[str, str] = {
    "Count": "count",
    "Sum": "sum",
    "Average": "avg",
    "Min": "min",
    "Max": "max",
    "First": "first",
    "Last": "last",
    "VariancePop": "var_pop",
    "VarianceSamp": "var_samp",
    "StddevPop": "stddev_pop",
    "StddevSamp": "stddev_samp",
    "BitAndAgg": "bit_and",
    "BitOrAgg": "bit_or",
    "BitXorAgg": "bit_xor",
    "Corr": "corr",
    "CovPopulation": "covar_pop",
    "CovSample": "covar_samp",
    "MaxBy": "max_by",
    "MinBy": "min_by",
}
_DOUBLES = {"var_pop", "var_samp", "stddev_pop", "stddev_samp", "corr", "covar_pop", "covar_samp"}
_NO_ORDER_NEEDED = {"count", "first", "last"}


def match_aggregate(node: Node, child: LogicalPlan, scope: Scope) -> LogicalPlan:
    """The aggregate under the projection of its output columns; declines with all reasons."""
    reader = _Reader(scope)
    keys = tuple(
        NamedExpr(f"#key{index}", reader.gather(tree, scope)) for index, tree in enumerate(node["groupingExpressions"])
    )
    outputs = [(internal_name(tree), reader.output(tree)) for tree in node["aggregateExpressions"]]
    if reader.reasons:
        raise Declined(*reader.reasons)
    names = {_plain(key.expr): Column(key.name, key.expr.dtype) for key in keys}
    known = {key.name for key in keys} | {call.name for call in reader.calls}
    exprs = tuple(NamedExpr(name, _over_keys(expr, names)) for name, expr in outputs)
    loose = sorted(set().union(*(columns_of(named.expr) for named in exprs)) - known)
    if loose:
        raise Declined.because(Code.PLAN_VERSION, f"{', '.join(loose)} is neither key nor aggregate", "Aggregate")
    return Project(Aggregate(child, keys, tuple(reader.calls)), exprs)


def _plain(expr: Expr) -> Expr:
    """Without the normalisation of floats, which grouping does anyway and outputs do not name."""
    return expr.child if isinstance(expr, NormalizeFloat) else expr


def _over_keys(expr: Expr, names: dict[Expr, Column]) -> Expr:
    return transform_down(expr, lambda part: names.get(_plain(part), part))


@dataclass
class _Reader:
    """Reads output expressions, setting aside the aggregates in them and the reasons against them."""

    scope: Scope
    calls: list[AggregateCall] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)

    def gather(self, tree: Node, scope: Scope) -> Expr:
        try:
            return translate(tree, scope)
        except Declined as declined:
            self.reasons += (reason for reason in declined.reasons if reason not in self.reasons)
            return Literal(None, pa.null())

    def output(self, tree: Node) -> Expr:
        replaced = self._without_aggregates(tree)
        columns = {**self.scope.columns, **{call.name: call.dtype for call in self.calls}}
        return self.gather(replaced, replace(self.scope, columns=columns))

    def _without_aggregates(self, tree: Node) -> Node:
        if tree.name != "AggregateExpression":
            return replace(tree, children=tuple(self._without_aggregates(child) for child in tree.children))
        try:
            call = self._call(tree)
        except Declined as declined:
            self.reasons += (reason for reason in declined.reasons if reason not in self.reasons)
            return Node("Literal", {"value": None, "dataType": "void"})
        known = next((c for c in self.calls if replace(c, name=call.name) == call), None)
        if known is None:
            self.calls.append(call)
            known = call
        name, _, number = known.name.rpartition("#")
        fields = {"name": name, "exprId": {"id": number}, "dataType": spark_json(known.dtype), "metadata": {}}
        return Node("AttributeReference", fields)

    def _call(self, tree: Node) -> AggregateCall:
        function_node = tree.child_at(0)
        function = FUNCTIONS.get(function_node.name)
        if function is None:
            raise Declined.because(Code.FUNCTION, f"{function_node.name} is not computed by sundog", function_node.name)
        if function_node.get("nullOnDivideByZero", True) is not True:
            raise Declined.because(Code.FUNCTION, f"{function} with legacy statistics", function_node.name)
        args = tuple(translate(argument, self.scope) for argument in function_node.children)
        condition = translate(tree.child_at(1), self.scope) if len(tree.children) > 1 else None
        distinct = tree["isDistinct"] is True
        if function == "count" and not distinct and all(isinstance(a, Literal) and a.value is not None for a in args):
            args = ()
        mode = function_node.get("evalContext", function_node.get("evalMode", "ANSI"))
        if mode not in ("ANSI", "LEGACY", "TRY"):
            raise Declined.because(Code.PLAN_VERSION, f"{function} has evaluation mode {mode!r}", function_node.name)
        dtype = _result_type(function, function_node, args)
        if distinct and (condition is not None or function not in ("count", "sum", "avg", "min", "max")):
            raise Declined.because(Code.FUNCTION, f"{function}(DISTINCT …) of this form", function_node.name)
        others = {call.args for call in self.calls if call.distinct}
        if distinct and others and {frozenset(args)} != {frozenset(other) for other in others}:
            raise Declined.because(Code.FUNCTION, "DISTINCT over several argument lists", function_node.name)
        return AggregateCall(
            name=f"#agg#{len(self.calls)}",
            function=f"try_{function}" if mode == "TRY" else function,
            args=args,
            dtype=dtype,
            filter=condition,
            distinct=distinct and function not in ("min", "max"),
            ignore_nulls=function_node.get("ignoreNulls", False) is True,
            ansi=mode == "ANSI",
        )


def _result_type(function: str, node: Node, args: tuple[Expr, ...]) -> pa.DataType:
    if function == "count":
        return pa.int64()
    if function in _DOUBLES:
        return pa.float64()
    if function in ("sum", "avg"):
        dtype = arrow_type(node["dataType"])
        if dtype is None:
            raise Declined.because(Code.UNSUPPORTED_TYPE, f"{function} gives {node['dataType']}", node.name)
        return dtype
    ordering = args[-1].dtype
    if function not in _NO_ORDER_NEEDED and pa.types.is_null(ordering):
        raise Declined.because(Code.UNSUPPORTED_TYPE, f"{function} of an untyped NULL", node.name)
    return args[0].dtype
