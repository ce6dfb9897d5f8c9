"""Window functions over one sorted range: the step that Spark runs once, on one core, for all rows.

    SELECT *, SUM(x) OVER (ORDER BY t RANGE BETWEEN 10 PRECEDING AND CURRENT ROW) FROM events

Plain Spark sorts everything into one partition and recomputes each sliding frame: rows times frame width. Here a range
is one of many, and a frame costs a few nanoseconds whatever its width (`kernels/windows/sliding.py`). A range's rows
are

    borrowed before | owned ............ | borrowed behind         in key order; borrowed rows carry `__halo`

and what it must know of rows further away comes as a `Carry`. Values are computed for owned rows only; the borrowed
ones leave with NULLs and `HaloDrop` removes them.

Invariant: rows come out as they came in, in number and order, with one more column per call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sundog.errors import InternalError
from sundog.expr.calls import BoundKind, Frame, WindowCall
from sundog.expr.nodes import Expr, Literal
from sundog.expr.ordering import SortKey
from sundog.expr.printing import render, render_order, window_text
from sundog.functions.framed import Elements, FrameFunction, MergeableFunction
from sundog.functions.shifts import Shift
from sundog.functions.table import frame_function, is_ranked, rank_values
from sundog.kernels.windows.frames import places_at_distance
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.window.frames.call_functions import inputs_of
from sundog.operators.window.frames.range_columns import RangeColumns, batches_of, owned_span, table_of
from sundog.operators.window.frames.sorted_rows import Positions, SortedRows, row_offset
from sundog.operators.window.frames.sorting import sorted_table
from sundog.operators.window.ranges.carry import Carry
from sundog.operators.window.ranges.halo_reduction import reduced_rows


@dataclass(frozen=True)
class SortRange(Operator):
    """All rows of a task, in window order. Rows that are sorted already, as logs are, are only checked."""

    input_schema: pa.Schema
    partition_by: tuple[Expr, ...]
    order_by: tuple[SortKey, ...]

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        table = table_of(batches, self.input_schema)
        size = table.nbytes
        context.memory.resize(0, size)
        context.check_cancelled()
        with context.metrics.timed("compute_seconds"):
            table = sorted_table(table, self.partition_by, self.order_by)
        yield from batches_of(table)
        context.memory.resize(size, 0)

    def describe(self) -> str:
        keys = [*(render(key) for key in self.partition_by), *([render_order(self.order_by)] if self.order_by else [])]
        return f"Sort: [{', '.join(keys)}]"


@dataclass(frozen=True)
class WindowOperator(Operator):
    """The calls over each range. `carries[i]` is what range i is told of the others; none where they need nothing."""

    input_schema: pa.Schema
    calls: tuple[WindowCall, ...]
    partition_by: tuple[Expr, ...]
    order_by: tuple[SortKey, ...]
    carries: tuple[Carry, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        fields = [pa.field(call.name, call.dtype) for call in self.calls]
        return pa.schema([*self.input_schema, *fields])

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        table = table_of(batches, self.input_schema)
        if not table.num_rows:
            return
        context.check_cancelled()
        with context.metrics.timed("compute_seconds"):
            carry = self.carries[context.partition] if self.carries else Carry()
            result = window_table(table, self.calls, self.partition_by, self.order_by, carry)
        yield from batches_of(result)

    def describe(self) -> str:
        calls = ", ".join(f"{window_text(call)} AS {call.name}" for call in self.calls)
        return f"Window: [{calls}]"


def serial_window(
    table: pa.Table, calls: Sequence[WindowCall], partition_by: Sequence[Expr], order_by: Sequence[SortKey]
) -> pa.Table:
    """The whole window in one range: what every parallel plan must equal row for row."""
    return window_table(sorted_table(table, partition_by, order_by), calls, partition_by, order_by, Carry())


def window_table(
    table: pa.Table,
    calls: Sequence[WindowCall],
    partition_by: Sequence[Expr],
    order_by: Sequence[SortKey],
    carry: Carry,
) -> pa.Table:
    """A sorted table with one more column per call."""
    window = _RangeWindow(table, partition_by, order_by, carry)
    for call in calls:
        table = table.append_column(pa.field(call.name, call.dtype), window.column(call))
    return table


class _RangeWindow:
    """One range: its rows, which of them it owns, and the bounds of frames over them."""

    def __init__(
        self, table: pa.Table, partition_by: Sequence[Expr], order_by: Sequence[SortKey], carry: Carry
    ) -> None:
        self._columns = RangeColumns(table)
        self._carry = carry
        self._first, self._last = owned_span(table)
        partition_keys = [self._columns.values(expr) for expr in partition_by]
        order_keys = [self._columns.values(key.expr) for key in order_by]
        self._rows = SortedRows(table.num_rows, partition_keys, order_keys, order_by)
        self._reduced = reduced_rows(self._columns)

    def column(self, call: WindowCall) -> pa.Array:
        """The call's values: those of owned rows, and NULL for the borrowed ones."""
        values = self._owned_values(call)
        if not values.type.equals(call.dtype):
            raise InternalError(f"{call.function} gave {values.type} instead of {call.dtype}")
        before, behind = self._first, self._columns.count - self._last
        if before == behind == 0:
            return values
        return pa.concat_arrays([pa.nulls(before, call.dtype), values, pa.nulls(behind, call.dtype)])

    def _owned_values(self, call: WindowCall) -> pa.Array:
        if is_ranked(call):
            return self._places(call)
        if call.name in self._carry.whole:
            return pa.repeat(self._carry.whole[call.name][0], self._last - self._first)
        function = frame_function(call)
        if isinstance(function, Shift):
            return self._shifted(function)
        elements, starts, stops = self._frames(function)
        return function.evaluate(elements, starts, np.maximum(stops, starts))

    def _places(self, call: WindowCall) -> pa.Array:
        rows = self._rows
        if self._first or self._last < rows.count:
            rows = rows.part(self._first, self._last)
        return rank_values(call, rows.segments, lambda: rows.groups, self._carry.standing)

    def _frames(self, function: FrameFunction) -> tuple[Elements, Positions, Positions]:
        """The elements that frames of owned rows are runs of, and the bounds of these.

        On a side where the frame is unbounded or counts rows, the elements end with the owned rows and what the carry
        holds; on a side where it reaches by key, the borrowed rows are elements like the owned ones.
        """
        call = function.call
        frame = call.frame
        by_rows = frame.units == "rows"
        low = self._first if by_rows or frame.start.kind is BoundKind.UNBOUNDED_PRECEDING else 0
        high = self._last if by_rows or frame.end.kind is BoundKind.UNBOUNDED_FOLLOWING else self._columns.count
        own = function.elements(inputs_of(call, self._columns))
        if self._reduced is not None and isinstance(function, MergeableFunction):
            own = self._reduced.put_into(own, function)
        own = own.slice(low, high)
        before, behind = self._carry.before.get(call.name), self._carry.behind.get(call.name)
        elements = Elements.concat([part for part in (before, own, behind) if part is not None])
        if before is behind is None and low == 0 and high == self._columns.count:
            first, stop = self._rows.bounds(frame)
            return elements, first[self._first : self._last], stop[self._first : self._last]
        shift = (before.count if before is not None else 0) - low
        return elements, *self._carried_bounds(frame, low, high, shift, elements.count)

    def _carried_bounds(self, frame: Frame, low: int, high: int, shift: int, count: int) -> tuple[Positions, Positions]:
        """Bounds of the owned rows' frames in elements: row i of low .. high is element i + shift of `count`."""
        owned = slice(self._first, self._last)
        starts, stops = (np.empty(self._last - self._first, np.int32) for _ in range(2))
        if frame.start.kind is BoundKind.UNBOUNDED_PRECEDING:
            starts[:] = 0
        elif frame.units == "rows":
            places_at_distance(self._first + shift + row_offset(frame.start), count, starts)
        else:
            places = np.maximum(self._rows.starts("range", frame.start)[owned].astype(np.int64), low)
            np.clip(places + shift, 0, count, out=starts, casting="unsafe")
        if frame.end.kind is BoundKind.UNBOUNDED_FOLLOWING:
            stops[:] = count
        elif frame.units == "rows":
            places_at_distance(self._first + shift + row_offset(frame.end) + 1, count, stops)
        else:
            places = np.minimum(self._rows.stops("range", frame.end)[owned].astype(np.int64), high)
            np.clip(places + shift, 0, count, out=stops, casting="unsafe")
        return starts, stops

    def _shifted(self, function: Shift) -> pa.Array:
        call = function.call
        own = function.elements(inputs_of(call, self._columns)).slice(self._first, self._last)
        before, behind = self._carry.before.get(call.name), self._carry.behind.get(call.name)
        elements = Elements.concat([part for part in (before, own, behind) if part is not None])
        rows = np.arange(own.count, dtype=np.int64) + (before.count if before is not None else 0)
        if own.count == self._columns.count and before is behind is None:
            starts, stops = self._rows.segment_bounds
        else:
            starts, stops = np.zeros(own.count, np.int32), np.full(own.count, elements.count, np.int32)
        values, found = function.evaluate_rows(elements, rows, starts, stops)
        default = call.args[2] if len(call.args) > 2 else None
        if default is None or bool(found.all()) or is_null_literal(default):
            return values
        otherwise = self._columns.values(default).slice(self._first, own.count)
        return pc.if_else(pa.array(found), values, otherwise)


def is_null_literal(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None
