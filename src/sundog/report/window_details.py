"""A window as the report draws it: its ranges on the axis of the order key, and how far each reaches into others.

Like `topk_details.py` it is made only when a report is written, from what the planner keeps anyway: the cut points and
the sample that they were taken from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sundog.expr.calls import WindowCall
from sundog.expr.ordering import SortKey
from sundog.expr.printing import render_order, window_text
from sundog.expr.ranks import Rank, ranks_of
from sundog.operators.window.ranges.cuts import KeySample, PartitionExtremes
from sundog.operators.window.ranges.routes import RowRanges, WordRanges
from sundog.operators.window.ranges.scans import RangeScans
from sundog.report.details import KeyAxis, RangeMark, WindowDetails
from sundog.report.topk_details import key_values


@dataclass(frozen=True)
class _Span:
    """Ranks of the leading key, ends included, None if open or unknown: the owned span or the needed span."""

    owned: tuple[Rank | None, Rank | None]
    needed: tuple[Rank | None, Rank | None]


def details_of_exchange(
    calls: Sequence[WindowCall], ranges: WordRanges | RowRanges, sample: KeySample, cut_by: str = "a sample of the key"
) -> WindowDetails:
    """Ranges that rows were sent to. Their numbers of rows are estimated by the sample."""
    owners = ranges.routes(sample.keys).owners
    rows = np.bincount(owners, weights=sample.weights, minlength=ranges.count).astype(np.int64).tolist()
    spans = _word_spans(ranges) if isinstance(ranges, WordRanges) else _row_spans(ranges)
    return _details(calls, ranges.order_by, spans, sample.extremes, rows, cut_by, "an exchange")


def details_of_reads(calls: Sequence[WindowCall], scans: RangeScans) -> WindowDetails:
    """Ranges that read their own row groups. Their numbers of rows are estimated by a sample, or those that they
    read."""
    reads = scans.reads
    spans = [_directed(read.owned, read.needed, reads.key.descending) for read in reads.reads]
    rows = scans.sampled_rows or [read.rows for read in reads.reads]
    cut_by = "a sample of the key" if scans.sampled_rows else "row-group statistics"
    moved_by = "reading them straight from the files"
    return _details(calls, (reads.key,), spans, scans.extremes, rows, cut_by, moved_by)


def _details(
    calls: Sequence[WindowCall],
    order_by: Sequence[SortKey],
    spans: Sequence[_Span],
    extremes: PartitionExtremes,
    rows: Sequence[int],
    cut_by: str,
    moved_by: str,
) -> WindowDetails:
    ends: list[Rank | None] = []
    for span in spans:
        ends += _clipped(span.owned, extremes) + _clipped(span.needed, extremes)
    values = key_values(ends, order_by[0].expr.dtype)
    axis = KeyAxis(values)
    marks = [_mark(axis, values[4 * number : 4 * number + 4], count) for number, count in enumerate(rows[: len(spans)])]
    return WindowDetails(
        order=render_order(order_by),
        frames=tuple(dict.fromkeys(window_text(call) for call in calls)),
        scale=axis.scale,
        ranges=tuple(marks),
        cut_by=cut_by,
        moved_by=moved_by,
        is_estimate=True,
    )


def _mark(axis: KeyAxis, values: Sequence[Any], rows: int) -> RangeMark:
    low, high, needed_low, needed_high = (axis.point(value) for value in values)
    borrows_below = low is not None and needed_low is not None and needed_low.position < low.position
    borrows_above = high is not None and needed_high is not None and needed_high.position > high.position
    return RangeMark(rows, low, high, needed_low if borrows_below else None, needed_high if borrows_above else None)


def _clipped(ends: tuple[Rank | None, Rank | None], extremes: PartitionExtremes) -> list[Rank | None]:
    """Limited to the keys that occur: a range at the end is open, and a halo may reach beyond the last row."""
    low, high = ends
    if extremes.low is None or extremes.high is None:
        return [None, None]
    low = extremes.low if low is None else max(low, extremes.low)
    high = extremes.high if high is None else min(high, extremes.high)
    return [low, high] if low <= high else [None, None]  # type: ignore[operator]


def _word_spans(ranges: WordRanges) -> list[_Span]:
    """Words ascend in the order of the query; ranks in that of the values."""
    starts: list[int | None] = [None, *ranges.cuts]
    stops: list[int | None] = [*(cut - 1 for cut in ranges.cuts), None]
    descending = ranges.order_by[0].descending
    spans = [
        _directed((start, stop), (low if number else None, high if stop is not None else None), descending)
        for number, (start, stop, low, high) in enumerate(zip(starts, stops, ranges.lows, ranges.highs, strict=True))
    ]
    return [*spans, _Span((1, 0), (1, 0))] if ranges.nulls_apart else spans


def _directed(owned: tuple[int | None, int | None], needed: tuple[int | None, int | None], descending: bool) -> _Span:
    if not descending:
        return _Span(owned, needed)

    def turned(ends: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
        low, high = ends
        return None if high is None else ~high, None if low is None else ~low

    return _Span(turned(owned), turned(needed))


def _row_spans(ranges: RowRanges) -> list[_Span]:
    """Spans of the leading key alone; neighbours that are cut at a later key share its value."""
    cuts: list[Rank | None] = ranks_of(ranges.cuts[0]) if ranges.cuts else []
    ends: list[Rank | None] = [None, *cuts, None]
    spans = []
    for first, last in pairwise(ends):
        owned = (last, first) if ranges.order_by[0].descending else (first, last)
        spans.append(_Span(owned, owned))
    return spans
