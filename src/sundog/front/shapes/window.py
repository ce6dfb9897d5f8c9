"""Catalyst's `Window` -> a logical window and, if its outputs are more than calls, the projection above it.

    Window [sum(x) windowspecdefinition(t ASC, RangeFrame, -10, currentrow) AS s], [t ASC]

        Window   sum(x) RANGE BETWEEN 10 PRECEDING AND CURRENT ROW AS s

The optimiser may have wrapped a call: the sum of a narrow decimal is a sum of its unscaled integers converted back to a
decimal, count(NULL) is the constant 0. Such an output becomes a projection over a call with a name of its own.

Declined are calendar intervals of mixed parts, functions without a framed face, and frames without ORDER BY whose rows
depend on the order in which Spark reads. So are intervals of a day and more, or of months, on a timestamp in a zone
with daylight saving time. (Spark's frame pointers never go back, so those frames are not defined by values.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa

from sundog.expr.calls import Bound, BoundKind, Frame, NamedExpr, WindowCall
from sundog.expr.nodes import Column, Expr, Literal
from sundog.expr.ordering import SortKey
from sundog.front.catalyst_json import Node, object_name, replace_nodes
from sundog.front.expressions.literals import internal_value, literal_value
from sundog.front.expressions.reading import Scope, type_of
from sundog.front.expressions.translate import translate, translate_sort_key
from sundog.front.relation.columns import internal_name
from sundog.front.shapes.called_function import check_division, evaluation_mode, in_mode, result_type
from sundog.functions.declaration import Function, Order
from sundog.functions.sums.functions import AVERAGE, AVERAGE_OF_UNSCALED
from sundog.functions.table import function_of, of_catalyst
from sundog.plan.logical import Aggregate, Join, LogicalPlan, Project, Window
from sundog.support import Code, Declined, Reason
from sundog.tree import walk
from sundog.types import TIMESTAMP, arrow_type, spark_json, spark_name

_BOUNDS = {
    "UnboundedPreceding": BoundKind.UNBOUNDED_PRECEDING,
    "UnboundedFollowing": BoundKind.UNBOUNDED_FOLLOWING,
    "CurrentRow": BoundKind.CURRENT_ROW,
}
_YEAR_MONTH = re.compile(r"interval (year|month)( to month)?")
_DAY_TIME = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")
_DAY_MICROS = 86_400_000_000
T = TypeVar("T")


def match_window(node: Node, child: LogicalPlan, scope: Scope) -> LogicalPlan:
    """The window over `child`; declines with all reasons."""
    if node.child.name == "WindowGroupLimit" and not node["partitionSpec"] and not _computes(child):
        raise Declined.because(Code.COST, "Spark keeps only the first rows for this filter", node.name)
    reader = _WindowReader(scope)
    keys = (reader.gather(translate, key) for key in node["partitionSpec"])
    partition_by = tuple(key for key in keys if key is not None and not isinstance(key, Literal))
    order_by = (reader.gather(translate_sort_key, key) for key in node["orderSpec"])
    reader.order_by = _without_constants(key for key in order_by if key is not None)
    outputs = [(internal_name(alias), reader.output(alias)) for alias in node["windowExpressions"]]
    if reader.reasons:
        raise Declined(*reader.reasons)
    window = Window(child, tuple(reader.calls), partition_by, reader.order_by)
    names = {call.name for call in reader.calls}
    if [name for name, _ in outputs] == [call.name for call in reader.calls]:
        return window
    kept = [NamedExpr(f.name, Column(f.name, f.type)) for f in window.schema if f.name not in names]
    return Project(window, (*kept, *(NamedExpr(name, expr) for name, expr in outputs)))


def _computes(plan: LogicalPlan) -> bool:
    """Whether there is more below a window than a table to read: then sorting all rows is the smaller part."""
    return any(isinstance(node, Aggregate | Join | Window) for node in walk(plan))


def _without_constants(keys: Iterable[SortKey]) -> tuple[SortKey, ...]:
    """The sort keys without constants, which order nothing. If all are constants, one of them: all rows are peers."""
    found = tuple(keys)
    telling = tuple(key for key in found if not isinstance(key.expr, Literal))
    if telling or not found:
        return telling
    first = found[0]
    untyped = pa.types.is_null(first.expr.dtype)
    return (replace(first, expr=Literal(None, pa.int32())) if untyped else first,)


@dataclass
class _WindowReader:
    """Reads the outputs of a window; collects the calls in them and the reasons against them."""

    scope: Scope
    order_by: tuple[SortKey, ...] = ()
    calls: list[WindowCall] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)

    def gather(self, read: Callable[[Node, Scope], T], tree: Node, scope: Scope | None = None) -> T | None:
        try:
            return read(tree, scope or self.scope)
        except Declined as declined:
            self.reasons += (reason for reason in declined.reasons if reason not in self.reasons)
            return None

    def output(self, alias: Node) -> Expr:
        """An output column: a call, or an expression over calls."""
        if alias.name != "Alias":
            reason = Reason(Code.PLAN_VERSION, f"an output of a window is a {alias.name}", "Window")
            self.reasons += [reason] if reason not in self.reasons else []
            return Literal(None, pa.null())
        name, tree = internal_name(alias), alias.child_at(0)
        if tree.name == "WindowExpression" or _narrow_average(tree) is not None:
            return self._column(tree, name)
        replaced = self._without_calls(tree, name.rpartition("#")[2])
        columns = {**self.scope.columns, **{call.name: call.dtype for call in self.calls}}
        found = self.gather(translate, replaced, replace(self.scope, columns=columns))
        return Literal(None, pa.null()) if found is None else found

    def _without_calls(self, tree: Node, number: str) -> Node:
        """The tree with an attribute for each call in it, named after the output's number, which is unique."""

        def attribute(node: Node, parent: Node | None) -> Node | None:
            if node.name != "WindowExpression" and _narrow_average(node) is None:
                return None
            column = self._column(node, f"#window{len(self.calls)}#{number}")
            if not isinstance(column, Column):
                return Node("Literal", {"internal": None, "dataType": "void"})
            name = column.name.rpartition("#")[0]
            fields = {"name": name, "exprId": {"id": number}, "dataType": spark_json(column.dtype), "metadata": {}}
            return Node("AttributeReference", fields)

        return replace_nodes(tree, attribute)

    def _column(self, tree: Node, name: str) -> Expr:
        """The column of a call, read once."""
        call = self.gather(lambda node, scope: self._call(node, name), tree)
        if call is None:
            return Literal(None, pa.null())
        self.calls.append(call)
        return Column(call.name, call.dtype)

    def _call(self, tree: Node, name: str) -> WindowCall:
        average = _narrow_average(tree)
        if average is None:
            function, spec = tree.child_at(0), tree.child_at(1)
            frame = self._frame(spec.children[-1]) if spec.children else None
            if spec.name != "WindowSpecDefinition" or frame is None:
                raise Declined.because(Code.PLAN_VERSION, f"a window's specification is a {spec.name}", "Window")
            call = self._function(function, name, frame)
        else:
            call = self._call(average, name)
            unscaled = average.child_at(0).child_at(0).child_at(0).child_at(0)
            argument = translate(unscaled, self.scope)
            call = replace(
                call, function=AVERAGE_OF_UNSCALED.name, args=(argument,), dtype=type_of(tree["dataType"], name)
            )
        if not self.order_by and not _needs_no_order(call):
            raise Declined.because(
                Code.FRAME, f"{call.function} without ORDER BY depends on the order in which rows are read", "Window"
            )
        return call

    def _function(self, node: Node, name: str, frame: Frame) -> WindowCall:
        if node.name == "AggregateExpression":
            return self._aggregate(node, name, frame)
        function = of_catalyst(node.name)
        if function is None or not function.over_windows:
            raise Declined.because(Code.FUNCTION, f"{node.name} is not computed over frames", node.name)
        if function.ranked is None:
            return self._offset_function(function, node, name, frame)
        trees = node.children if function.arguments else ()  # the children of rank are its order
        args = tuple(translate(arg, self.scope) for arg in trees)
        return WindowCall(name, function.name, args, result_type(function, node, args, over_window=True), frame)

    def _offset_function(self, function: Function, node: Node, name: str, frame: Frame) -> WindowCall:
        """lag, lead and nth_value: the value, the number of rows, and the default if there is no such row."""
        args = [translate(arg, self.scope) for arg in node.children]
        constant = args[function.constant] if function.constant is not None and len(args) > function.constant else None
        if not isinstance(constant, Literal) or constant.value is None:
            raise Declined.because(Code.PLAN_VERSION, f"{function.name} by what is not a constant", node.name)
        if len(args) > 2 and isinstance(args[2], Literal) and args[2].value is None:
            args[2] = Literal(None, args[0].dtype)
        if len(args) > 2 and args[2].dtype != args[0].dtype:
            raise Declined.because(Code.PLAN_VERSION, f"{function.name}'s default has another type", node.name)
        dtype, ignore_nulls = result_type(function, node, args, over_window=True), node.flag("ignoreNulls")
        return WindowCall(name, function.name, tuple(args), dtype, frame, ignore_nulls=ignore_nulls)

    def _aggregate(self, node: Node, name: str, frame: Frame) -> WindowCall:
        inner = node.child_at(0)
        function = of_catalyst(inner.name)
        if function is None or function.framed is None:
            raise Declined.because(Code.FUNCTION, f"{inner.name} is not computed over frames", inner.name)
        if node.flag("isDistinct"):
            raise Declined.because(Code.FUNCTION, f"{function.name}(DISTINCT …) over a window", inner.name)
        check_division(function, inner, self.scope)
        args = tuple(translate(arg, self.scope) for arg in inner.children)
        condition = translate(node.child_at(1), self.scope) if len(node.children) > 1 else None
        mode = evaluation_mode(inner)
        return WindowCall(
            name,
            in_mode(function, mode).name,
            args,
            result_type(function, inner, args, over_window=True),
            frame,
            filter=condition,
            ignore_nulls=inner.flag("ignoreNulls", False),
            ansi=mode == "ANSI",
        )

    def _frame(self, node: Node) -> Frame:
        if node.name != "SpecifiedWindowFrame" or len(node.children) != 2:
            raise Declined.because(Code.PLAN_VERSION, f"a frame is a {node.name}", "Window")
        units = {"RowFrame": "rows", "RangeFrame": "range"}.get(object_name(node["frameType"]))
        if units is None:
            raise Declined.because(Code.PLAN_VERSION, f"frames of {object_name(node['frameType'])}", "Window")
        return Frame(units, self._bound(node.children[0], units), self._bound(node.children[1], units))

    def _bound(self, node: Node, units: str) -> Bound:
        if node.name in _BOUNDS:
            return Bound(_BOUNDS[node.name])
        if node.name != "Literal" or node["internal"] is None:
            raise Declined.because(Code.FRAME, "a frame's bound is not a constant", node.name)
        if units == "rows":
            return Bound(BoundKind.OFFSET, literal_value(node, pa.int32()))
        if len(self.order_by) != 1:
            raise Declined.because(Code.PLAN_VERSION, "a RANGE offset over several order keys", "Window")
        return self._range_bound(node["internal"], node["dataType"], self.order_by[0].expr.dtype)

    def _range_bound(self, value: Any, spark_type: Any, key: pa.DataType) -> Bound:
        text = str(spark_type)
        if _YEAR_MONTH.fullmatch(text) and (pa.types.is_date32(key) or pa.types.is_timestamp(key)):
            self._check_calendar(key, "an interval of months", needs_utc=True)
            return Bound(BoundKind.OFFSET, internal_value(value, pa.int64()), "months")
        if _DAY_TIME.fullmatch(text):
            micros: int = internal_value(value, pa.int64())
            if pa.types.is_date32(key):
                return Bound(BoundKind.OFFSET, int(Decimal(micros) / _DAY_MICROS))
            if abs(micros) >= _DAY_MICROS:
                self._check_calendar(key, "an interval of a day or more")
            return Bound(BoundKind.OFFSET, micros, "us")
        if pa.types.is_date32(key) and text == "integer":
            return Bound(BoundKind.OFFSET, internal_value(value, pa.int32()))
        dtype = arrow_type(spark_type)
        if dtype is None or dtype != key or pa.types.is_temporal(key):
            raise Declined.because(Code.FRAME, f"a frame of {spark_type} over a {spark_name(key)}", "Window")
        return Bound(BoundKind.OFFSET, internal_value(value, dtype))

    def _check_calendar(self, key: pa.DataType, what: str, *, needs_utc: bool = False) -> None:
        """Decline calendar arithmetic in zones whose clocks change. Only a TIMESTAMP has a zone."""
        if key != TIMESTAMP:
            return
        rules = self.scope.rules_of(self.scope.zone)
        if rules is None or not rules.is_fixed or (needs_utc and rules.initial != 0):
            raise Declined.because(Code.FRAME, f"{what} on timestamps in the zone {self.scope.zone}", "Window")


def _narrow_average(tree: Node) -> Node | None:
    """The window expression in `cast(avg(UnscaledValue(x)) OVER … / 100.0 AS decimal(p+4,s+4))`.

    The optimiser rewrites the average of a decimal(p,s) with p + 4 <= 15 to this. It is taken as a whole, since only
    the window function knows that the double in between has few enough digits to be printed the same everywhere.
    """
    if tree.name != "Cast" or len(tree.children) != 1 or tree.children[0].name != "Divide":
        return None
    divide = tree.children[0]
    if len(divide.children) != 2 or divide.children[0].name != "WindowExpression":
        return None
    window, divisor = divide.children
    path = ("AggregateExpression", AVERAGE.catalyst, "UnscaledValue")
    below = window
    for name in path:
        if not below.children or below.children[0].name != name:
            return None
        below = below.children[0]
    source = arrow_type(below.children[0].get("dataType")) if below.children else None
    target = arrow_type(tree.get("dataType"))
    if source is None or target is None or not (pa.types.is_decimal(source) and pa.types.is_decimal(target)):
        return None
    fits = source.precision + 4 <= 15 and (target.precision, target.scale) == (source.precision + 4, source.scale + 4)
    power = divisor.name == "Literal" and divisor.get("dataType") == "double"
    if not fits or not power or literal_value(divisor, pa.float64()) != 10.0**source.scale:
        return None
    return window


def _needs_no_order(call: WindowCall) -> bool:
    whole = call.frame.start.kind is BoundKind.UNBOUNDED_PRECEDING
    whole = whole and call.frame.end.kind is BoundKind.UNBOUNDED_FOLLOWING
    return whole and function_of(call).order is not Order.DECIDES
