"""Drives a window. Without PARTITION BY, where to cut is asked of the data, then every range is computed on its own:

    0. read         nothing to sample and to move where statistics show that the key is clustered: ranges read their own
    1. sample       a few thousand order keys of each task, and what it observed of all (PartitionExtremes)
    2. cut          ranges of equal depth; a frame that may leave the key's type belongs to Spark
    3. exchange     each row to its range, halo rows to every range whose frames reach them; or, where moving a row costs
                    more than reading it several times, ranges read their own after all
    4. summarize    only where a range must know what lies outside its halo: totals, ranks, the last n values
    5. window       sort, compute, drop the halo

Steps 3 and 4 share their input: what a range received is held until it is computed. If the summaries show that adding up
range by range would not give Spark's answer, the window is computed once more, in one range. With PARTITION BY, the hash of
the keys is all there is to it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sundog.operators.window.ranges.carry import Carry, carries_of, read_summaries
from sundog.operators.window.ranges.cuts import KeySample
from sundog.operators.window.ranges.halo import ROW_COUNTS, CountInput, RangeRepartition
from sundog.operators.window.ranges.own_reads import KeepRange
from sundog.operators.window.ranges.scans import RangeScans
from sundog.operators.window.steps import WindowSteps
from sundog.runtime.flow import Flow, Runtime
from sundog.runtime.window_details import details_of_exchange, details_of_reads
from sundog.support import Code, Declined

Details = dict[str, Any]


def sample_keys(steps: WindowSteps, rows: Flow) -> KeySample:
    """`rows` need not have more columns than the order keys."""
    return KeySample.from_batches(rows.then(steps.sample()).collect(), steps.order_by)


def check_reach(steps: WindowSteps, sample: KeySample) -> None:
    """A frame that may leave the key's type belongs to Spark, which raises or wraps as its mode wants."""
    if sample.extremes.overflows(steps.need.reach, steps.order_by[0]):
        raise Declined.because(Code.RANGE_OVERFLOW, "key and offset may leave the key's type", "Window")


def window_over_exchange(
    steps: WindowSteps, rows: Flow, sample: KeySample, ranges: int, runtime: Runtime, details: Details
) -> Flow:
    """The rows in key order, with the window's columns; each row moved to its range."""
    before = runtime.metrics.as_dict()
    check_reach(steps, sample)
    for count in (ranges, 1):
        move = steps.repartition(sample, count)
        flow = _in_ranges(steps, rows.exchange(move), move, move.partitions)
        if flow is not None:
            runtime.metrics.add("ranges", move.partitions)
            details.setdefault("window", []).append(partial(details_of_exchange, steps.calls, move.ranges, sample))
            return flow
        runtime.metrics.take_back(ROW_COUNTS, before)
    raise AssertionError("one range needs no carry")


def window_over_reads(
    steps: WindowSteps, rows: Flow, scans: RangeScans, runtime: Runtime, details: Details
) -> Flow | None:
    """The same where partition i of `rows` is what range i reads; None where ranges will not do."""
    before = runtime.metrics.as_dict()
    keep = steps.keep(scans.reads)
    flow = _in_ranges(steps, rows.then(keep), keep, len(scans.reads.reads))
    if flow is None:
        runtime.metrics.take_back((*ROW_COUNTS, "input_rows"), before)
        return None
    runtime.metrics.add("ranges", len(scans.reads.reads))
    details.setdefault("window", []).append(partial(details_of_reads, steps.calls, scans))
    return flow


def _in_ranges(steps: WindowSteps, ranges: Flow, move: RangeRepartition | KeepRange, count: int) -> Flow | None:
    """None where the ranges cannot be computed apart from each other."""
    in_order = ranges.then(steps.sort(move))
    carries: list[Carry] = []
    if steps.need.two_passes and count > 1:
        in_order = in_order.hold()
        told = carries_of(read_summaries(in_order.then(steps.summarize(move)).collect()), steps.calls)
        if told is None:
            return None
        carries = told
    return in_order.then(steps.window(move, carries), steps.drop())


def window_by_key(steps: WindowSteps, rows: Flow, partitions: int) -> Flow:
    """With PARTITION BY: each task has all rows of its keys."""
    return rows.exchange(steps.by_key(partitions)).then(steps.sort(None), steps.window(None), steps.drop())


def window_without_order(steps: WindowSteps, rows: Flow) -> Flow:
    """All rows are peers: the partitions serve as ranges as they are."""
    held = rows.then(CountInput(steps.input_schema)).hold()
    carries = carries_of(read_summaries(held.then(steps.summarize(None)).collect()), steps.calls)
    if carries is None:
        raise Declined.because(Code.FRAME, "the sum over all rows depends on their order", "Window")
    return held.then(steps.window(None, carries), steps.drop())
