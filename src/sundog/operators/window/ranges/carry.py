"""What ranges tell each other in a first pass, so that each can be computed on its own in a second.

`SUM(x) OVER (ORDER BY t)` at row i adds up everything before i, in whatever range. One pass over the sorted ranges
makes a small *summary* of each: rows, peer groups, and for each call its essence (a sum; the last 9 values; the first
value). The driver runs over the summaries once from the front and once from the back, and gives each range its *carry*:
the essence of all before it and of all behind it.

    range        0         1         2                 sum of x     10    32     7
    carry        0        10        42                              before each

A frame of all rows (`SUM(x) OVER ()`) has one value. The driver computes it from the summaries, so that no range adds
its rows up again, and all rows show the same digits.

Whether that is exact is asked as well: sums that may overflow, or doubles of both signs and very different sizes, come
out as Spark's only if they are added up in one go. Then `carries_of` says so and the window is computed in one range.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sundog.expr.calls import WindowCall
from sundog.expr.ordering import SortKey
from sundog.functions.framed import Elements, FrameFunction, Hazard
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
    """What a range tells the ranges behind it (`forward`) and before it (`back`) about one call."""

    forward: Elements | None
    back: Elements | None
    hazard: Hazard = field(default_factory=Hazard)


@dataclass(frozen=True)
class RangeSummary:
    """The summary of one range. `groups` of peers are counted only where a call asks for them."""

    number: int
    rows: int
    groups: int
    calls: Mapping[str, CallSummary]


@dataclass(frozen=True)
class Carry:
    """What one range is given: where it stands, and the elements before and behind its own, by the name of the call.

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
        table = table_of(batches, self.input_schema)
        if has(table.schema, HALO):
            table = table.filter(pc.invert(table.column(HALO)))
        summary = summarize(context.partition, RangeColumns(table), self.calls, self.order_by)
        yield told_by(summary.number, summary)

    def describe(self) -> str:
        return "SummarizeRange: what each range tells the others"


def summarize(
    number: int, columns: RangeColumns, calls: Sequence[WindowCall], order_by: Sequence[SortKey]
) -> RangeSummary:
    groups = 0
    if any(counts_keys(call) for call in calls):
        order_keys = [columns.values(key.expr) for key in order_by]
        groups = len(SortedRows(columns.count, [], order_keys, order_by).groups) - 1
    told = {}
    for call in calls:
        if is_ranked(call) or not need_of(call).carried_calls:
            continue
        function = frame_function(call)
        elements = function.elements(inputs_of(call, columns))
        hazard = function.hazard(elements) if merges_ranges(call) else Hazard()
        forward = _detached(carried_forward(function, elements))
        back = None if has_one_value(function) else _detached(carried_back(function, elements))
        told[call.name] = CallSummary(forward, back, hazard)
    return RangeSummary(number, columns.count, groups, told)


def _detached(told: Elements | None) -> Elements | None:
    return None if told is None else told.detached()


def told_by(number: int, summary: object) -> pa.RecordBatch:
    """What a range tells the driver, as a row of SUMMARY_SCHEMA."""
    columns = [pa.array([number], pa.int32()), pa.array([pickle.dumps(summary)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=SUMMARY_SCHEMA)


def read_summaries(batches: Sequence[pa.RecordBatch]) -> list[Any]:
    """What the ranges told, in their order: a `RangeSummary` of each, or what another operator made of it."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [pickle.loads(row["summary"]) for row in sorted(rows, key=lambda row: row["range"])]


def carries_of(summaries: Sequence[RangeSummary], calls: Sequence[WindowCall]) -> list[Carry] | None:
    """The carry of each range; None where adding up range by range would not give Spark's answer."""
    before: list[dict[str, Elements]] = [{} for _ in summaries]
    behind: list[dict[str, Elements]] = [{} for _ in summaries]
    whole: dict[str, pa.Array] = {}
    for call in calls:
        told = [summary.calls[call.name] for summary in summaries if call.name in summary.calls]
        if not told:
            continue
        function = frame_function(call)
        if not function.is_harmless(Hazard.merge([part.hazard for part in told])):
            return None
        if has_one_value(function):
            whole[call.name] = _value_of_all([part.forward for part in told if part.forward is not None], function)
            continue
        _hand_on([part.forward for part in told], before, function, carried_forward)
        _hand_on([part.back for part in reversed(told)], behind[::-1], function, carried_back)
    return [Carry(*parts, whole) for parts in zip(_standings(summaries), before, behind, strict=True)]


def _value_of_all(parts: Sequence[Elements], function: FrameFunction) -> pa.Array:
    """The value of the frame of all rows, by the essences of all ranges."""
    elements = Elements.concat(parts)
    return function.evaluate(elements, np.zeros(1, np.int32), np.array([elements.count], np.int32))


def _hand_on(
    parts: Sequence[Elements | None],
    given: Sequence[dict[str, Elements]],
    function: FrameFunction,
    tell: Callable[[FrameFunction, Elements], Elements | None],
) -> None:
    """Give each range what all ranges before it carry on; `tell` makes one essence of several."""
    so_far: Elements | None = None
    for part, receiver in zip(parts, given, strict=True):
        if so_far is not None:
            receiver[function.call.name] = so_far
        if part is not None:
            joined = [part] if so_far is None else [so_far, part]
            if tell is carried_back:
                joined.reverse()
            so_far = tell(function, Elements.concat(joined))


def _standings(summaries: Sequence[RangeSummary]) -> list[Standing]:
    standings = []
    rows = groups = 0
    total = sum(summary.rows for summary in summaries)
    for summary in summaries:
        standings.append(Standing(rows, groups, total))
        rows += summary.rows
        groups += summary.groups
    return standings
