"""Window functions over one sorted range. Spark runs this step once, on one core, for all rows.

    SELECT *, SUM(x) OVER (ORDER BY t RANGE BETWEEN 10 PRECEDING AND CURRENT ROW) FROM events

Plain Spark sorts everything into one partition and recomputes each sliding frame: rows times frame width. Here there
are many ranges, and a frame costs a few nanoseconds whatever its width (`kernels/windows/sliding.py`). The rows of a
range are

    borrowed before | owned ............ | borrowed behind         in key order; borrowed rows carry `__halo`

and what it must know of rows further away is its `Carry`. Values are computed for owned rows only; the borrowed rows
get NULLs, and `HaloDrop` removes them.

Invariant: the rows that come out are those that came in, in the same order, with one more column per call.
"""

from __future__ import annotations

from abc import abstractmethod
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
from sundog.kernels.windows.frames import moved_places, places_at_distance
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.window.frames.call_functions import inputs_of
from sundog.operators.window.frames.range_columns import HALO, RangeColumns, batches_of, has, owned_span, table_of
from sundog.operators.window.frames.sorted_rows import MAX_ROWS, Positions, SortedRows, row_offset
from sundog.operators.window.frames.sorting import sorted_table
from sundog.operators.window.ranges.carry import Carry
from sundog.operators.window.ranges.halo_reduction import reduced_rows


@dataclass(frozen=True)
class SortRange(Operator):
    """All rows of a task, in window order. Rows that are sorted already, as in logs, are only checked."""

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

    name = "Sort"

    @property
    def details(self) -> str:
        keys = [*(render(key) for key in self.partition_by), *([render_order(self.order_by)] if self.order_by else [])]
        return f"[{', '.join(keys)}]"


@dataclass(frozen=True)
class OverRanges(Operator):
    """Calls over each sorted range of rows: a column for each call."""

    input_schema: pa.Schema
    calls: tuple[WindowCall, ...]
    partition_by: tuple[Expr, ...]
    order_by: tuple[SortKey, ...]

    @property
    def schema(self) -> pa.Schema:
        fields = [pa.field(call.name, call.dtype) for call in self.calls]
        return pa.schema([*self.input_schema, *fields])

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        table = table_of(batches, self.input_schema)
        for rows, partition_by, carry in self._parts(table, context.partition) if table.num_rows else ():
            context.check_cancelled()
            with context.metrics.timed("compute_seconds"):
                result = window_table(rows, self.calls, partition_by, self.order_by, carry)
            yield from batches_of(result)

    @abstractmethod
    def _parts(self, table: pa.Table, number: int) -> Iterator[tuple[pa.Table, tuple[Expr, ...], Carry]]:
        """Range `number` in parts that are computed separately: rows, their partition keys, their carry."""

    name = "Window"

    @property
    def details(self) -> str:
        calls = ", ".join(f"{window_text(call)} AS {call.name}" for call in self.calls)
        return f"[{calls}]"


@dataclass(frozen=True)
class WindowOperator(OverRanges):
    """Whole ranges. `carries[i]`: what range i must know of the others; empty if they need nothing."""

    carries: tuple[Carry, ...] = ()

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Batch by batch if no call depends on other rows than through the carry: no order makes ranges small."""
        if self.partition_by or self.order_by or not self._have_values(context.partition):
            yield from super().run(batches, context)
        else:
            for batch in batches:
                yield from super().run(iter([batch]), context)

    def _have_values(self, number: int) -> bool:
        known = self._carry(number).whole
        return not has(self.input_schema, HALO) and all(call.name in known for call in self.calls)

    def _carry(self, number: int) -> Carry:
        return self.carries[number] if self.carries else Carry()

    def _parts(self, table: pa.Table, number: int) -> Iterator[tuple[pa.Table, tuple[Expr, ...], Carry]]:
        yield table, self.partition_by, self._carry(number)


def serial_window(
    table: pa.Table, calls: Sequence[WindowCall], partition_by: Sequence[Expr], order_by: Sequence[SortKey]
) -> pa.Table:
    """The whole window in one range: the result that every parallel plan must equal, row for row."""
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
        value = carry.whole.get(call.name)
        column = window.column(call) if value is None or window.has_halo else _repeated(value, table)
        table = table.append_column(pa.field(call.name, call.dtype), column)
    return table


def _repeated(value: pa.Array, table: pa.Table) -> pa.ChunkedArray:
    """One value for each row of a table: pieces of one short array, cut where `batches_of` cuts the table."""
    batches = [batch.num_rows for batch in batches_of(table)] if table.num_columns else [table.num_rows]
    array = pa.repeat(value[0], max(batches, default=0))
    return pa.chunked_array([array.slice(0, rows) for rows in batches], value.type)


class _RangeWindow:
    """One range: its rows, which of them it owns, and the bounds of frames over them."""

    def __init__(
        self, table: pa.Table, partition_by: Sequence[Expr], order_by: Sequence[SortKey], carry: Carry
    ) -> None:
        self._columns = RangeColumns(table)
        self._carry = carry
        self._first, self._last = owned_span(table)
        self._has_segments = bool(partition_by)
        partition_keys = [self._columns.values(expr) for expr in partition_by]
        order_keys = [self._columns.values(key.expr) for key in order_by]
        self._rows = SortedRows(table.num_rows, partition_keys, order_keys, order_by)
        self._reduced = reduced_rows(self._columns)

    @property
    def has_halo(self) -> bool:
        return bool(self._first) or self._last < self._columns.count

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
        values = self._over_rows(function)
        if values is not None:
            return values
        elements, starts, stops = self._frames(function)
        return function.evaluate(elements, starts, np.maximum(stops, starts))

    def _over_rows(self, function: FrameFunction) -> pa.Array | None:
        """The values of frames that count rows, where these need no bounds for each row; else None."""
        call, frame = function.call, function.call.frame
        if frame.units != "rows" or self._has_segments or self._reduced is not None or self._first == self._last:
            return None
        is_running = frame.start.kind is BoundKind.UNBOUNDED_PRECEDING and frame.end.kind is BoundKind.CURRENT_ROW
        is_narrow = all(bound.kind in (BoundKind.OFFSET, BoundKind.CURRENT_ROW) for bound in (frame.start, frame.end))
        if not (function.runs if is_running else function.takes_places and is_narrow):
            return None
        before, behind = self._carry.before.get(call.name), self._carry.behind.get(call.name)
        own = function.elements(inputs_of(call, self._columns)).slice(self._first, self._last)
        if is_running:
            return function.running(before, own)
        elements = Elements.concat([part for part in (before, own, behind) if part is not None])
        return _of_moving_frames(function, elements, before.count if before is not None else 0, own.count)

    def _places(self, call: WindowCall) -> pa.Array:
        rows = self._rows
        if self._first or self._last < rows.count:
            rows = rows.part(self._first, self._last)
        return rank_values(call, rows.segments, lambda: rows.groups, self._carry.standing)

    def _frames(self, function: FrameFunction) -> tuple[Elements, Positions, Positions]:
        """The elements of which frames of owned rows are runs, and the bounds of these frames.

        On a side where the frame is unbounded or counts rows, the elements are the owned rows and those of the carry;
        on a side where it reaches by key, borrowed rows are elements like owned ones.
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
            moved_places(self._rows.starts("range", frame.start)[owned], low, MAX_ROWS, shift, count, starts)
        if frame.end.kind is BoundKind.UNBOUNDED_FOLLOWING:
            stops[:] = count
        elif frame.units == "rows":
            places_at_distance(self._first + shift + row_offset(frame.end) + 1, count, stops)
        else:
            moved_places(self._rows.stops("range", frame.end)[owned], 0, high, shift, count, stops)
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


def _of_moving_frames(function: FrameFunction, elements: Elements, first: int, count: int) -> pa.Array | None:
    """The values of frames of a number of rows, for the `count` elements from `first` on; those that reach over an end
    of the elements are evaluated one by one. None if all should be."""
    low, high = row_offset(function.call.frame.start), row_offset(function.call.frame.end)
    begin, end = max(-(first + low), 0), min(elements.count - high - first, count)
    if low > high or begin >= end:
        return None
    inner = function.of_same_frames(elements, first + begin, low, high, end - begin)
    if inner is None:
        return None
    parts = [inner]
    for start, stop in ((0, begin), (end, count)):
        if start == stop:
            continue
        starts, stops = (np.empty(stop - start, np.int32) for _ in range(2))
        places_at_distance(first + start + low, elements.count, starts)
        places_at_distance(first + start + high + 1, elements.count, stops)
        at_end = function.evaluate(elements, starts, np.maximum(stops, starts))
        parts = [*parts, at_end] if start else [at_end, *parts]
    return inner if len(parts) == 1 else pa.concat_arrays(parts)


def is_null_literal(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None
