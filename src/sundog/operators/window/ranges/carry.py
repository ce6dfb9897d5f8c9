"""Summaries and carries: what ranges learn of each other in a first pass, so that each is computed alone in a second.

`SUM(x) OVER (ORDER BY t)` at row i adds up everything before i, in whatever range. One pass over the sorted ranges
makes a small *summary* of each: rows, peer groups, and for each call a partial result (a sum; the last 9 values; the
first value). The driver goes through the summaries from the front and from the back, and gives each range its *carry*:
the partial results of all rows before it and of all rows behind it.

    range        0         1         2                 sum of x     10    32     7
    carry        0        10        42                              before each

A frame of all rows (`SUM(x) OVER ()`) has one value. The driver computes it from the summaries, so that no range adds
its rows again, and all rows have the same digits.

Exactness is checked as well: sums that may overflow, or doubles of both signs and very different magnitude, equal
Spark's only if they are added up in one go. `carries_of` then returns None, and the window is computed in one range.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sundog.errors import InternalError
from sundog.expr.calls import WindowCall
from sundog.expr.ordering import SortKey
from sundog.functions.framed import Elements, FrameFunction, Hazard, MergeableFunction
from sundog.functions.ranks import Standing
from sundog.functions.table import counts_keys, frame_function, is_ranked
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.window.frames.call_functions import (
    carried_back,
    carried_forward,
    has_one_value,
    inputs_of,
    merges_ranges,
)
from sundog.operators.window.frames.frame_need import need_of
from sundog.operators.window.frames.range_columns import HALO, RangeColumns, has, table_of
from sundog.operators.window.frames.sorted_rows import SortedRows

SUMMARY_SCHEMA = pa.schema([("range", pa.int32()), ("summary", pa.binary())])


@dataclass(frozen=True)
class CallSummary:
    """One call's part of a range's summary: for the ranges behind (`forward`) and for those before (`back`)."""

    forward: Elements | None
    back: Elements | None
    hazard: Hazard = field(default_factory=Hazard)


@dataclass(frozen=True)
class RangeSummary:
    """The summary of one range. `groups` of peers are counted only if a call needs them."""

    number: int
    rows: int
    groups: int
    calls: Mapping[str, CallSummary]


@dataclass(frozen=True)
class Carry:
    """What one range is given: its position, and the elements before and behind its own, by the name of the call.

    `whole`: the value of a call whose frame is all rows, as an array of one.
    """

    standing: Standing = field(default_factory=Standing)
    before: Mapping[str, Elements] = field(default_factory=dict)
    behind: Mapping[str, Elements] = field(default_factory=dict)
    whole: Mapping[str, pa.Array] = field(default_factory=dict)


@dataclass(frozen=True)
class SummarizeRange(Operator):
    """The summary of one sorted range, as one row."""

    input_schema: pa.Schema
    calls: tuple[WindowCall, ...]
    order_by: tuple[SortKey, ...]

    @property
    def schema(self) -> pa.Schema:
        return SUMMARY_SCHEMA

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        if not self.order_by and have_one_value(self.calls):
            summary = summarize_batches(context.partition, batches, self.input_schema, self.calls)
        else:
            table = table_of(batches, self.input_schema)
            if has(table.schema, HALO):
                table = table.filter(pc.invert(table.column(HALO)))
            summary = summarize(context.partition, RangeColumns(table), self.calls, self.order_by)
        yield summary_batch(summary.number, summary)

    name = "SummarizeRange"

    @property
    def details(self) -> str:
        return "what each range tells the others"


def summarize(
    number: int, columns: RangeColumns, calls: Sequence[WindowCall], order_by: Sequence[SortKey]
) -> RangeSummary:
    groups = 0
    if any(counts_keys(call) for call in calls):
        order_keys = [columns.values(key.expr) for key in order_by]
        groups = len(SortedRows(columns.count, [], order_keys, order_by).groups) - 1
    of_calls = {}
    for call in calls:
        if is_ranked(call) or not need_of(call).carried_calls:
            continue
        function = frame_function(call)
        if has_one_value(function):
            of_calls[call.name] = _of_all_rows(function, columns)
            continue
        elements = function.elements(inputs_of(call, columns))
        hazard = function.hazard(elements) if merges_ranges(call) else Hazard()
        forward = _detached(carried_forward(function, elements))
        of_calls[call.name] = CallSummary(forward, _detached(carried_back(function, elements)), hazard)
    return RangeSummary(number, columns.count, groups, of_calls)


def summarize_batches(
    number: int, batches: Iterable[pa.RecordBatch], schema: pa.Schema, calls: Sequence[WindowCall]
) -> RangeSummary:
    """The same without an order, for calls that have one value: only one batch at a time is in memory."""
    functions = {call.name: _function_of_one_value(call) for call in calls}
    parts: dict[str, list[CallSummary]] = {name: [] for name in functions}
    rows = 0
    for batch in batches:
        columns = RangeColumns(table_of([batch], schema))
        rows += columns.count
        for name, function in functions.items():
            parts[name].append(_of_rows(function, columns))
    empty = RangeColumns(schema.empty_table())
    of_calls = {
        name: _merged(function, parts[name] or [_of_rows(function, empty)]) for name, function in functions.items()
    }
    return RangeSummary(number, rows, 0, of_calls)


def have_one_value(calls: Sequence[WindowCall]) -> bool:
    """Whether no call needs more of a range than the value of a frame of all rows."""
    return all(not is_ranked(call) and has_one_value(frame_function(call)) for call in calls)


def _function_of_one_value(call: WindowCall) -> MergeableFunction:
    function = frame_function(call)
    if not has_one_value(function):
        raise InternalError(f"{call.function} has no value of all rows")
    return function


def _of_all_rows(function: MergeableFunction, columns: RangeColumns) -> CallSummary:
    """The summary for a call whose frame is all rows: batch by batch, so that these need not be joined."""
    batches = [RangeColumns(pa.Table.from_batches([batch])) for batch in columns.table.to_batches() if batch.num_rows]
    return _merged(function, [_of_rows(function, rows) for rows in batches or [columns]])


def _of_rows(function: MergeableFunction, columns: RangeColumns) -> CallSummary:
    elements = function.elements(inputs_of(function.call, columns))
    return CallSummary(_detached(function.summary(elements)), None, function.hazard(elements))


def _merged(function: MergeableFunction, parts: Sequence[CallSummary]) -> CallSummary:
    if len(parts) == 1:
        return parts[0]
    state = function.summary(Elements.concat([part.forward for part in parts if part.forward is not None]))
    return CallSummary(_detached(state), None, Hazard.merge([part.hazard for part in parts]))


def _detached(state: Elements | None) -> Elements | None:
    return None if state is None else state.detached()


def summary_batch(number: int, summary: object) -> pa.RecordBatch:
    """A range's summary for the driver, as a row of SUMMARY_SCHEMA."""
    columns = [pa.array([number], pa.int32()), pa.array([pickle.dumps(summary)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=SUMMARY_SCHEMA)


def read_summaries(batches: Sequence[pa.RecordBatch]) -> list[Any]:
    """The summaries of the ranges in their order: a `RangeSummary` each, or what another operator made of it."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [pickle.loads(row["summary"]) for row in sorted(rows, key=lambda row: row["range"])]


def carries_of(summaries: Sequence[RangeSummary], calls: Sequence[WindowCall]) -> list[Carry] | None:
    """The carry of each range; None if adding up range by range would not give Spark's answer."""
    before: list[dict[str, Elements]] = [{} for _ in summaries]
    behind: list[dict[str, Elements]] = [{} for _ in summaries]
    whole: dict[str, pa.Array] = {}
    for call in calls:
        parts = [summary.calls[call.name] for summary in summaries if call.name in summary.calls]
        if not parts:
            continue
        function = frame_function(call)
        if not function.is_harmless(Hazard.merge([part.hazard for part in parts])):
            return None
        if has_one_value(function):
            whole[call.name] = _value_of_all([part.forward for part in parts if part.forward is not None], function)
            continue
        _carry_along([part.forward for part in parts], before, function, carried_forward)
        _carry_along([part.back for part in reversed(parts)], behind[::-1], function, carried_back)
    return [Carry(*of_range, whole) for of_range in zip(_standings(summaries), before, behind, strict=True)]


def _value_of_all(parts: Sequence[Elements], function: FrameFunction) -> pa.Array:
    """The value of the frame of all rows, from the partial results of all ranges."""
    elements = Elements.concat(parts)
    return function.evaluate(elements, np.zeros(1, np.int32), np.array([elements.count], np.int32))


def _carry_along(
    parts: Sequence[Elements | None],
    given: Sequence[dict[str, Elements]],
    function: FrameFunction,
    carry: Callable[[FrameFunction, Elements], Elements | None],
) -> None:
    """Give each range the partial results of all ranges before it; `carry` merges several into one."""
    so_far: Elements | None = None
    for part, receiver in zip(parts, given, strict=True):
        if so_far is not None:
            receiver[function.call.name] = so_far
        if part is not None:
            joined = [part] if so_far is None else [so_far, part]
            if carry is carried_back:
                joined.reverse()
            so_far = carry(function, Elements.concat(joined))


def _standings(summaries: Sequence[RangeSummary]) -> list[Standing]:
    standings = []
    rows = groups = 0
    total = sum(summary.rows for summary in summaries)
    for summary in summaries:
        standings.append(Standing(rows, groups, total))
        rows += summary.rows
        groups += summary.groups
    return standings
