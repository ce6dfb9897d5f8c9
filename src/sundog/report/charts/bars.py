"""Bars of phases, partitions, stages and engines: numbers side by side."""

from __future__ import annotations

from collections.abc import Iterable

from sundog.report.charts.parts import (
    COLUMN_HEIGHT,
    MAX_BARS,
    Bar,
    CaptionedBar,
    width_of,
)
from sundog.report.details import (
    AggregateDetails,
)
from sundog.report.wording import bytes_text, count_text, plural, seconds_text


def phases(details: AggregateDetails) -> tuple[CaptionedBar, ...]:
    """Rows after each step, each with the reduction from the step before."""
    steps = (
        ("Rows in", details.input_rows, "input"),
        ("After the partial aggregation", details.partial_rows, "partial"),
        ("Exchanged", details.exchange_rows, "exchange"),
        ("Groups out", details.groups, "groups"),
    )
    most = max(1, *(count for _, count, _ in steps))
    found = []
    before: int | None = None
    for label, count, kind in steps:
        remark = "" if before is None else _reduction(before, count)
        if kind == "exchange" and details.exchange_bytes:
            remark = f"{remark}, {bytes_text(details.exchange_bytes)}".lstrip(", ")
        found.append(CaptionedBar(label, count_text(count), width_of(count, most), kind, remark))
        before = count
    return tuple(found)


def _reduction(before: int, after: int) -> str:
    if after >= before or not after:
        return "as many" if after == before else ""
    return f"{before / after:,.1f} to 1"


def partition_columns(details: AggregateDetails) -> tuple[Bar, ...]:
    """Groups of each final partition as columns: if they are even, no task waited for another."""
    sizes = details.groups_per_partition[:MAX_BARS]
    most = max(1, *sizes) if sizes else 1
    step = 100 / max(1, len(sizes))
    columns = []
    for index, size in enumerate(sizes):
        height = round(max(1.0, COLUMN_HEIGHT * size / most), 2)
        text = f"partition {index + 1}: {plural(size, 'group')}"
        columns.append(
            Bar(round(index * step, 3), round(step * 0.86, 3), COLUMN_HEIGHT - height, height, "groups", text)
        )
    return tuple(columns)


def timed_bars(entries: Iterable[tuple[str, float, str, str]]) -> tuple[CaptionedBar, ...]:
    """Bars of seconds: (label, seconds, kind, remark)."""
    listed = list(entries)
    most = max((seconds for _, seconds, _, _ in listed), default=0.0)
    return tuple(
        CaptionedBar(label, seconds_text(seconds), width_of(seconds, most), kind, remark)
        for label, seconds, kind, remark in listed
    )
