"""Part summaries: summaries of ranges, made by the tasks that send rows to these ranges.

`ranges/carry.py` needs a summary of each range before any range can be computed. On executors, a first pass over the
ranges would take every block from the JVM to Python and sort it, for a few numbers. But a task that sends rows to
ranges has them in memory. Most of a summary can be merged from what each task knows of its *part* of a range, whatever
the order of its rows:

    row_number, ntile                 rows of the part                           added up
    sum, count, max so far            the partial state of the part              merged
    lag, lead, ROWS 3 PRECEDING       first and last rows of the part, by key    sorted, and again the first and last

The parts of all ranges leave a task as one row, for one partition more than there are ranges, and the planner reads
that partition first. A call that needs a range as a whole (DENSE_RANK counts keys, IGNORE NULLS looks for values at any
distance) has no part; its ranges are read twice.

Invariant: the summary of a range equals `summarize` of its sorted rows, up to the order in which sums of doubles are
added, which `Hazard` judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sundog.expr.buffers import Bools, is_narrow, validity_of
from sundog.expr.calls import BoundKind, WindowCall
from sundog.expr.nodes import columns_of
from sundog.expr.ordering import SortKey
from sundog.functions.framed import Elements, FrameFunction, Hazard, Inputs, Longs, MergeableFunction
from sundog.functions.picks import FramedPick
from sundog.functions.shifts import Shift
from sundog.functions.table import counts_keys, frame_function, is_ranked, order_decides
from sundog.operators.window.frames.call_functions import (
    carried_back,
    carried_forward,
    has_one_value,
    inputs_of,
    merges_ranges,
)
from sundog.operators.window.frames.frame_need import MAX_EDGE_ROWS, need_of, reach_of
from sundog.operators.window.frames.order_key import RangeKey
from sundog.operators.window.frames.range_columns import RangeColumns
from sundog.operators.window.frames.sorting import sorted_table
from sundog.operators.window.ranges.carry import CallSummary, RangeSummary

_MAX_WAITING = 8  # pieces of rows collected at one end of a range, before all but the outermost rows are dropped


@dataclass(frozen=True)
class PartNeed:
    """What a task must summarize of its part of each range.

    `calls`: all calls that need something of other ranges, except ranks. `edges`: rows needed at each end of a range,
    with their `columns`; the first order key is then a key of one word.
    """

    calls: tuple[WindowCall, ...]
    order_by: tuple[SortKey, ...]
    edges: int
    columns: tuple[str, ...]


def part_need(calls: Sequence[WindowCall], order_by: Sequence[SortKey]) -> PartNeed | None:
    """What parts must have for these calls; None if a call needs a range as a whole."""
    edges, carried, names = 0, [], set[str]()
    for call in calls:
        if is_ranked(call):
            if counts_keys(call):
                return None
            continue
        if not need_of(call).carried_calls:
            continue
        rows = _edge_rows(call)
        if rows is None or rows > MAX_EDGE_ROWS:
            return None
        edges = max(edges, rows)
        carried.append(call)
        names.update(*(columns_of(expr) for expr in (*call.args, *([] if call.filter is None else [call.filter]))))
    if not edges:
        return PartNeed(tuple(carried), tuple(order_by), 0, ())
    if not is_narrow(order_by[0].expr.dtype):
        return None
    names.update(*(columns_of(key.expr) for key in order_by))
    return PartNeed(tuple(carried), tuple(order_by), edges, tuple(sorted(names)))


def _edge_rows(call: WindowCall) -> int | None:
    """The rows at each end of a range that others need besides its state; None if no number of rows is enough."""
    function = frame_function(call)
    if isinstance(function, Shift):
        return None if call.ignore_nulls else abs(function.distance)
    rows = max(reach_of(call.frame)) if call.frame.units == "rows" else 0
    if not merges_ranges(call) or _has_state(function):
        return rows
    if isinstance(function, FramedPick) and call.filter is None and not call.ignore_nulls:
        return max(rows, function.rows_at_end)
    return None


def _has_state(function: FrameFunction) -> bool:
    """Whether states of rows in any order merge to the state of all."""
    return isinstance(function, MergeableFunction) and not order_decides(function.call)


@dataclass
class PartSummary:
    """One task's part of one range: its rows, the state and the hazard of each call, and its first and last rows."""

    rows: int = 0
    states: dict[str, Elements] = field(default_factory=dict)
    hazards: dict[str, Hazard] = field(default_factory=dict)
    first: list[pa.RecordBatch] = field(default_factory=list)
    last: list[pa.RecordBatch] = field(default_factory=list)


class PartSummaries:
    """The parts of one task while it sends its rows, by the numbers of their ranges."""

    def __init__(self, need: PartNeed) -> None:
        self._need = need
        self._parts: dict[int, PartSummary] = {}

    def add(self, number: int, owned: pa.RecordBatch) -> None:
        """Add rows of a range."""
        part = self._parts.setdefault(number, PartSummary())
        part.rows += owned.num_rows
        columns = RangeColumns(pa.Table.from_batches([owned]))
        for call in self._need.calls:
            if merges_ranges(call):
                self._merge(part, call, columns)
        if self._need.edges:
            rows = owned.select([name for name in owned.schema.names if name in self._need.columns])
            for ends, backwards in ((part.first, False), (part.last, True)):
                ends.append(self._outermost(rows, backwards))
                if len(ends) > _MAX_WAITING:
                    ends[:] = [self._outermost(_one_batch(ends), backwards)]

    def _merge(self, part: PartSummary, call: WindowCall, columns: RangeColumns) -> None:
        function = frame_function(call)
        if not _has_state(function):
            return
        elements = function.elements(inputs_of(call, columns))
        state, hazard = function.summary(elements), function.hazard(elements)
        if call.name in part.states:
            state = function.summary(Elements.concat([part.states[call.name], state]))
            hazard = Hazard.merge([part.hazards[call.name], hazard])
        part.states[call.name], part.hazards[call.name] = state.detached(), hazard

    def _outermost(self, rows: pa.RecordBatch, backwards: bool) -> pa.RecordBatch:
        """The first rows by key, or the last, copied. Rows with equal keys keep their order."""
        (key, *more), edges = self._need.order_by, self._need.edges
        if rows.num_rows <= edges:
            return rows.take(pa.array(np.arange(rows.num_rows)))
        array = RangeColumns(pa.Table.from_batches([rows])).values(key.expr)
        words, valid = RangeKey(array.type, key.descending).words(array), validity_of(array)
        nulls = np.zeros(len(words), np.bool_) if valid is None else ~valid
        if backwards:
            places = len(words) - 1 - _first_places(~words[::-1], nulls[::-1], not key.nulls_first, edges, bool(more))
        else:
            places = _first_places(words, nulls, key.nulls_first, edges, bool(more))
        found = rows.take(pa.array(np.sort(places)))
        if len(places) <= edges:
            return found
        in_order = sorted_table(pa.Table.from_batches([found]), (), self._need.order_by)
        outer = in_order.slice(in_order.num_rows - edges if backwards else 0, edges)
        return outer.take(pa.array(np.arange(edges))).combine_chunks().to_batches()[0]

    def found(self) -> dict[int, PartSummary]:
        """The part of each range that has rows."""
        for part in self._parts.values():
            part.first = [self._outermost(_one_batch(part.first), False)] if part.first else []
            part.last = [self._outermost(_one_batch(part.last), True)] if part.last else []
        return self._parts


def _one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]


def _first_places(words: Longs, nulls: Bools, nulls_first: bool, count: int, with_ties: bool) -> Longs:
    """The places of the first `count` rows by key, in any order; of rows with equal keys the first ones, or all."""
    without, there = np.flatnonzero(nulls), np.flatnonzero(~nulls)
    if nulls_first:
        rest = count - len(without)
        without = without if with_ties else without[:count]
        return np.concatenate([without, there[_least(words[there], rest, with_ties)]])
    rest = count - len(there)
    without = without if with_ties and rest > 0 else without[: max(rest, 0)]
    return np.concatenate([there[_least(words[there], count, with_ties)], without])


def _least(words: Longs, count: int, with_ties: bool) -> Longs:
    """The places of the `count` least words; of equal words the first ones, or all."""
    if count >= len(words):
        return np.arange(len(words))
    if count <= 0:
        return np.empty(0, np.int64)
    limit = np.partition(words, count - 1)[count - 1]
    if with_ties:
        return np.flatnonzero(words <= limit)
    below = np.flatnonzero(words < limit)
    return np.concatenate([below, np.flatnonzero(words == limit)[: count - len(below)]])


def merged_parts(tasks: Sequence[Mapping[int, PartSummary]], ranges: int, need: PartNeed) -> Iterator[RangeSummary]:
    """The summary of each of `ranges` ranges, merged from the parts of all tasks."""
    for number in range(ranges):
        parts = [parts[number] for parts in tasks if number in parts]
        first = _sorted([batch for part in parts for batch in part.first], need)
        last = _sorted([batch for part in parts for batch in part.last], need)
        rows = sum(part.rows for part in parts)
        ends = None if first is None or last is None else _ends(first, last, rows, need.edges)
        calls = {call.name: _call_summary(call, parts, ends) for call in need.calls}
        yield RangeSummary(number, rows, 0, calls)


def _sorted(batches: Sequence[pa.RecordBatch], need: PartNeed) -> pa.Table | None:
    return sorted_table(pa.Table.from_batches(batches), (), need.order_by) if batches else None


def _ends(first: pa.Table, last: pa.Table, rows: int, edges: int) -> pa.Table:
    """The first and the last `edges` rows of a range of `rows` rows, in order, each once."""
    behind = min(max(rows - edges, 0), edges)
    return pa.concat_tables([first.slice(0, edges), last.slice(last.num_rows - behind)])


def _call_summary(call: WindowCall, parts: Sequence[PartSummary], ends: pa.Table | None) -> CallSummary:
    """The summary of one call. An end at which its frame is open comes from the state, if it has one."""
    function = frame_function(call)
    at_ends = _elements(function, ends)
    forward, back = at_ends, at_ends
    if merges_ranges(call) and _has_state(function):
        states = [part.states[call.name] for part in parts]
        state = Elements.concat([_elements(function, None), *states])
        opens = call.frame.start.kind is BoundKind.UNBOUNDED_PRECEDING
        stays_open = call.frame.end.kind is BoundKind.UNBOUNDED_FOLLOWING
        forward, back = state if opens else at_ends, state if stays_open else at_ends
    hazard = Hazard.merge([part.hazards[call.name] for part in parts if call.name in part.hazards])
    before = None if has_one_value(function) else carried_back(function, back)
    return CallSummary(_detached(carried_forward(function, forward)), _detached(before), hazard)


def _elements(function: FrameFunction, rows: pa.Table | None) -> Elements:
    call = function.call
    if rows is None:
        return function.elements(Inputs(0, tuple(pa.array([], arg.dtype) for arg in call.args)))
    return function.elements(inputs_of(call, RangeColumns(rows)))


def _detached(state: Elements | None) -> Elements | None:
    return None if state is None else state.detached()
