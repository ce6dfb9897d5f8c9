"""The row groups of a top-k, or of a scan under joins, on the axis of its key, each with its outcome; of a top-k also
how the threshold moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from sundog.report.charts.parts import (
    LEAST_READ_HEIGHT,
    LEAST_READ_WIDTH,
    LEAST_WIDTH,
    MAX_BARS,
    Axis,
    Bar,
    ReadableTable,
    RowGroupMap,
    Share,
    Stroke,
    axis_of,
)
from sundog.report.details import (
    KeyPoint,
    RowGroupMark,
    RowGroupState,
    ScanDetails,
    ThresholdStep,
    TopKDetails,
)
from sundog.report.wording import count_text, plural, share_text

_STATE_KIND = {
    RowGroupState.READ: "read",
    RowGroupState.PRUNED_STATISTICS: "statistics",
    RowGroupState.PRUNED_INITIAL_THRESHOLD: "initial",
    RowGroupState.PRUNED_DYNAMIC: "dynamic",
    RowGroupState.PRUNED_JOIN_FILTER: "dynamic",
    RowGroupState.PRUNED_BLOOM_FILTER: "bloom",
    RowGroupState.NEVER_REACHED: "never",
    RowGroupState.HANDED_OUT: "given",
}


@dataclass(frozen=True)
class _Band:
    """Neighbours in the queue, or in the table, with one outcome: `first` to `last`, counted from 0."""

    first: int
    last: int
    marks: tuple[RowGroupMark, ...]

    @property
    def state(self) -> RowGroupState:
        return self.marks[0].state

    @property
    def bounds(self) -> tuple[KeyPoint, KeyPoint] | None:
        """The bounds of all; None if one of them is unknown."""
        lows = [mark.low for mark in self.marks if mark.low is not None]
        highs = [mark.high for mark in self.marks if mark.high is not None]
        if len(lows) < len(self.marks) or len(highs) < len(self.marks):
            return None
        return min(lows, key=lambda point: point.position), max(highs, key=lambda point: point.position)


def row_group_map(details: TopKDetails | ScanDetails) -> RowGroupMap | None:
    """The picture; None if there is no row group to draw."""
    marks = details.row_groups
    if not marks:
        return None
    bands = _bands(marks)
    drawn = bands[:MAX_BARS]
    points = [point for mark in marks for point in (mark.low, mark.high) if point is not None]
    points += [step.value for step in details.thresholds]
    axis = axis_of(points)
    pitch = max(2.0, min(20.0, 460 / len(drawn)))
    gap = 3 if pitch > 9 else (1 if pitch >= 4 else 0.5)
    bars = tuple(
        _band_bar(band, index * pitch + gap / 2, pitch - gap, axis, f"{len(marks)} in the {details.sequence}")
        for index, band in enumerate(drawn)
    )
    height = round(len(drawn) * pitch, 2)
    steps = _latest_per_row_group(details.thresholds)
    lines, losing = _threshold_path(steps, drawn, axis, pitch, details.descending) if axis else ((), ())
    return RowGroupMap(
        height=height,
        bars=bars,
        losing=losing,
        threshold=lines,
        threshold_label=steps[-1].value.label if steps else "",
        ticks=axis.ticks(points) if axis else (),
        queue_numbers=_queue_numbers(drawn, pitch),
        shares=_shares(marks),
        table=_row_group_table(drawn, len(bands), details.sequence),
        note=_map_note(details, bands, drawn, points),
    )


def _bands(marks: Sequence[RowGroupMark]) -> list[_Band]:
    """One band per row group if they fit; else bands of as many neighbours of one state as necessary."""
    most = -(-len(marks) // MAX_BARS)
    bands = _bands_of(marks, most)
    while len(bands) > MAX_BARS and most < len(marks):  # runs of one state need some more bands for their ends
        most += 1 + most // 8
        bands = _bands_of(marks, most)
    return bands


def _bands_of(marks: Sequence[RowGroupMark], most: int) -> list[_Band]:
    bands: list[_Band] = []
    start = 0
    for _, run in groupby(marks, key=lambda mark: mark.state):
        same = tuple(run)
        for offset in range(0, len(same), most):
            part = same[offset : offset + most]
            bands.append(_Band(start + offset, start + offset + len(part) - 1, part))
        start += len(same)
    return bands


def _band_bar(band: _Band, y: float, height: float, axis: Axis | None, total: str) -> Bar:
    bounds = band.bounds
    kind = _STATE_KIND[band.state]
    text = _band_text(band, total)
    is_read = band.state is RowGroupState.READ  # emphasised: these are few
    y, height = round(y, 2), round(max(height, LEAST_READ_HEIGHT) if is_read else height, 2)
    if bounds is None or axis is None:
        return Bar(0, 100, y, height, f"{kind} unknown", text)
    left, right = axis.x(bounds[0]), axis.x(bounds[1])
    width = max(right - left, LEAST_READ_WIDTH if is_read else LEAST_WIDTH)
    return Bar(round(min(left, 100 - width), 3), round(width, 3), y, height, kind, text)


def _band_text(band: _Band, total: str) -> str:
    first = band.marks[0]
    rows = plural(sum(mark.rows for mark in band.marks), "row")
    bounds = _bounds_text(band)
    if len(band.marks) == 1:
        return (
            f"{band.state.value}: {first.file}, row group {first.row_group}, {bounds}, {rows}, "
            f"number {band.first + 1} of {total}"
        )
    return (
        f"{band.state.value}: {plural(len(band.marks), 'row group')}, {bounds}, {rows}, "
        f"numbers {band.first + 1} to {band.last + 1} of {total}"
    )


def _bounds_text(band: _Band) -> str:
    bounds = band.bounds
    return f"{bounds[0].label} to {bounds[1].label}" if bounds else "no minimum and maximum in the file"


def _latest_per_row_group(steps: Iterable[ThresholdStep]) -> list[ThresholdStep]:
    """The last threshold for each row group: it may tighten often while one is read, and the next is compared once."""
    latest = {step.at: step for step in steps}
    return [latest[at] for at in sorted(latest)]


def _threshold_path(
    steps: Sequence[ThresholdStep], bands: Sequence[_Band], axis: Axis, pitch: float, descending: bool
) -> tuple[tuple[Stroke, ...], tuple[Bar, ...]]:
    """A line down the queue that moves sideways with the threshold, and the side of it on which no row can win."""
    starts = {number: index for index, band in enumerate(bands) for number in range(band.first, band.last + 1)}
    placed: dict[float, float] = {}
    for step in steps:
        if step.at in starts:
            placed[round(starts[step.at] * pitch, 2)] = axis.x(step.value)
    bottom = round(len(bands) * pitch, 2)
    path = [*placed.items(), (bottom, 0.0)] if placed else []
    lines: list[Stroke] = []
    losing: list[Bar] = []
    for number, ((top, x), (end, following)) in enumerate(pairwise(path)):
        lines.append(Stroke(x, top, x, end))
        if number < len(path) - 2 and following != x:
            lines.append(Stroke(x, end, following, end))
        left, width = (0.0, x) if descending else (x, round(100 - x, 3))
        losing.append(Bar(left, width, top, round(end - top, 2), "losing"))
    return tuple(lines), tuple(losing)


def _queue_numbers(bands: Sequence[_Band], pitch: float) -> tuple[tuple[float, str], ...]:
    """A number about every 60 pixels, in the middle of its bar."""
    every = max(1, round(60 / pitch))
    return tuple(
        (round((index + 0.5) * pitch, 2), f"{band.first + 1:,}")
        for index, band in enumerate(bands)
        if index % every == 0
    )


def _shares(marks: Sequence[RowGroupMark]) -> tuple[Share, ...]:
    counts = Counter(mark.state for mark in marks)
    shares = []
    x = 0.0
    for state in RowGroupState:
        count = counts[state]
        if count:
            width = 100 * count / len(marks)
            part = share_text(count, len(marks))
            shares.append(Share(_STATE_KIND[state], state.value, count_text(count), part, round(x, 3), round(width, 3)))
            x += width
    return tuple(shares)


def _row_group_table(bands: Sequence[_Band], total: int, sequence: str) -> ReadableTable:
    rows = []
    for band in bands:
        first, last = band.marks[0], band.marks[-1]
        if band.first == band.last:
            number, file, group = f"{band.first + 1:,}", first.file, str(first.row_group)
        else:
            number, file = f"{band.first + 1:,} to {band.last + 1:,}", f"{first.file} … {last.file}"
            group = plural(len(band.marks), "row group")
        bounds = band.bounds
        low, high = (bounds[0].label, bounds[1].label) if bounds else ("not known", "not known")
        count = f"{sum(mark.rows for mark in band.marks):,}"
        rows.append((number, file, group, low, high, count, band.state.value))
    note = f"The first {len(bands):,} of {total:,} entries." if total > len(bands) else ""
    return ReadableTable(
        (sequence.capitalize(), "File", "Row group", "Minimum", "Maximum", "Rows", "What happened"), tuple(rows), note
    )


def _map_note(
    details: TopKDetails | ScanDetails, bands: Sequence[_Band], drawn: Sequence[_Band], points: Sequence[KeyPoint]
) -> str:
    notes = []
    if len(bands) < len(details.row_groups):
        notes.append(f"Neighbours in the {details.sequence} that have the same outcome are drawn as one bar.")
    if len(drawn) < len(bands):
        left = sum(len(band.marks) for band in bands[len(drawn) :])
        notes.append(
            f"The last {plural(left, 'row group')} of the {details.sequence} are not drawn, but counted above."
        )
    if any(band.bounds is None for band in drawn):
        notes.append(
            "A dashed bar over the whole width has no minimum and maximum in its file, so it could not be judged."
        )
    if details.scale == "rank" and points:
        notes.append("Values stand in order, not to scale.")
    return " ".join(notes)
