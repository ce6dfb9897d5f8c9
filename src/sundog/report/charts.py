"""Geometry of the pictures: from the details of a shape to bars whose places are percentages, ready for a template.

Horizontal places are percentages of the picture's width and vertical ones are pixels, so one SVG fits a phone and a
wide screen without being scaled: its text keeps its size, and no script is needed to lay it out.

A table can have a hundred thousand row groups. Neighbours in the queue that met the same fate are then drawn as one
bar; if there are still too many, the picture ends early. Either way `note` says so, and the counts beside it are of
all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from sundog.report.details import (
    AggregateDetails,
    KeyPoint,
    RangeMark,
    RowGroupMark,
    RowGroupState,
    ThresholdStep,
    TopKDetails,
    WindowDetails,
)
from sundog.report.wording import bytes_text, count_text, plural, seconds_text, share_text

MOST_BARS = 240
COLUMN_HEIGHT = 60.0
_LEAST_WIDTH = 0.6  # per cent: a row group whose keys are all alike is still seen
_LEAST_READ_WIDTH = 1.0
_LEAST_READ_HEIGHT = 4.0  # pixels
_LONGEST_LABEL = 28


@dataclass(frozen=True)
class Bar:
    """A rectangle with a meaning: `kind` chooses its pattern, `text` is what hover, focus and a screen reader say."""

    x: float
    width: float
    y: float
    height: float
    kind: str
    text: str = ""


@dataclass(frozen=True)
class Tick:
    x: float
    label: str
    anchor: str
    is_end: bool


@dataclass(frozen=True)
class Line:
    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True)
class Share:
    """One entry of a legend, and its part of the strip above a picture."""

    kind: str
    label: str
    count: str
    part: str
    x: float
    width: float


@dataclass(frozen=True)
class Table:
    """The same picture for those who would rather read."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class RowGroupMap:
    height: float
    bars: tuple[Bar, ...]
    losing: tuple[Bar, ...]
    threshold: tuple[Line, ...]
    threshold_label: str
    ticks: tuple[Tick, ...]
    queue_numbers: tuple[tuple[float, str], ...]
    shares: tuple[Share, ...]
    table: Table
    note: str


@dataclass(frozen=True)
class RangeMap:
    height: float
    bars: tuple[Bar, ...]
    sizes: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    labels: tuple[tuple[float, str], ...]
    most_rows: str
    table: Table
    note: str


@dataclass(frozen=True)
class Phase:
    """A bar with its own caption: a phase of an aggregation, a stage, an engine."""

    label: str
    value: str
    width: float
    kind: str
    remark: str = ""


@dataclass(frozen=True)
class Axis:
    """Positions of the key to percentages of the width."""

    low: KeyPoint
    high: KeyPoint

    def x(self, point: KeyPoint) -> float:
        span = self.high.position / 2 - self.low.position / 2  # halved: the whole may not fit a double
        share = (point.position / 2 - self.low.position / 2) / span if span else 0.5
        return round(100 * min(max(share, 0.0), 1.0), 3)

    def ticks(self, points: Sequence[KeyPoint]) -> tuple[Tick, ...]:
        """Both ends, and a real value near the middle."""
        if self.low.position == self.high.position:
            return (Tick(50, shorten(self.low.label), "middle", True),)
        found = [Tick(0, shorten(self.low.label), "start", True)]
        middle = min(points, key=lambda point: abs(self.x(point) - 50))
        if abs(self.x(middle) - 50) < 12:
            found.append(Tick(self.x(middle), shorten(middle.label), "middle", False))
        return (*found, Tick(100, shorten(self.high.label), "end", True))


def axis_of(points: Sequence[KeyPoint]) -> Axis | None:
    if not points:
        return None
    return Axis(min(points, key=lambda point: point.position), max(points, key=lambda point: point.position))


def shorten(text: str, most: int = _LONGEST_LABEL) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


# --- top-k -----------------------------------------------------------------------------------------------------------

_STATE_KIND = {
    RowGroupState.READ: "read",
    RowGroupState.PRUNED_STATISTICS: "statistics",
    RowGroupState.PRUNED_INITIAL_THRESHOLD: "initial",
    RowGroupState.PRUNED_DYNAMIC: "dynamic",
    RowGroupState.NEVER_REACHED: "never",
    RowGroupState.HANDED_OUT: "given",
}


@dataclass(frozen=True)
class _Band:
    """Neighbours in the queue with one fate: `first` to `last`, counted from 0."""

    first: int
    last: int
    marks: tuple[RowGroupMark, ...]

    @property
    def state(self) -> RowGroupState:
        return self.marks[0].state

    @property
    def bounds(self) -> tuple[KeyPoint, KeyPoint] | None:
        """None if any of them has a bound that is not known."""
        lows = [mark.low for mark in self.marks if mark.low is not None]
        highs = [mark.high for mark in self.marks if mark.high is not None]
        if len(lows) < len(self.marks) or len(highs) < len(self.marks):
            return None
        return min(lows, key=lambda point: point.position), max(highs, key=lambda point: point.position)


def row_group_map(details: TopKDetails) -> RowGroupMap | None:
    """None where there is no row group to draw."""
    marks = details.row_groups
    if not marks:
        return None
    bands = _bands(marks)
    drawn = bands[:MOST_BARS]
    points = [point for mark in marks for point in (mark.low, mark.high) if point is not None]
    points += [step.value for step in details.thresholds]
    axis = axis_of(points)
    pitch = max(2.0, min(20.0, 460 / len(drawn)))
    gap = 3 if pitch > 9 else (1 if pitch >= 4 else 0.5)
    bars = tuple(
        _band_bar(band, index * pitch + gap / 2, pitch - gap, axis, len(marks)) for index, band in enumerate(drawn)
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
        table=_row_group_table(drawn, len(bands)),
        note=_map_note(details, bands, drawn, points),
    )


def _bands(marks: Sequence[RowGroupMark]) -> list[_Band]:
    """One band per row group if they fit; else as many neighbours of one state in a band as it takes."""
    most = -(-len(marks) // MOST_BARS)
    bands = _bands_of(marks, most)
    while len(bands) > MOST_BARS and most < len(marks):  # the ends of runs of one state cost a few more
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


def _band_bar(band: _Band, y: float, height: float, axis: Axis | None, total: int) -> Bar:
    bounds = band.bounds
    kind = _STATE_KIND[band.state]
    text = _band_text(band, total)
    is_read = band.state is RowGroupState.READ  # the few that matter, among very many
    y, height = round(y, 2), round(max(height, _LEAST_READ_HEIGHT) if is_read else height, 2)
    if bounds is None or axis is None:
        return Bar(0, 100, y, height, f"{kind} unknown", text)
    left, right = axis.x(bounds[0]), axis.x(bounds[1])
    width = max(right - left, _LEAST_READ_WIDTH if is_read else _LEAST_WIDTH)
    return Bar(round(min(left, 100 - width), 3), round(width, 3), y, height, kind, text)


def _band_text(band: _Band, total: int) -> str:
    first = band.marks[0]
    rows = plural(sum(mark.rows for mark in band.marks), "row")
    bounds = _bounds_text(band)
    if len(band.marks) == 1:
        return (
            f"{band.state.value}: {first.file}, row group {first.row_group}, {bounds}, {rows}, "
            f"number {band.first + 1} of {total} in the queue"
        )
    return (
        f"{band.state.value}: {plural(len(band.marks), 'row group')}, {bounds}, {rows}, "
        f"numbers {band.first + 1} to {band.last + 1} of {total} in the queue"
    )


def _bounds_text(band: _Band) -> str:
    bounds = band.bounds
    return f"{bounds[0].label} to {bounds[1].label}" if bounds else "no minimum and maximum in the file"


def _latest_per_row_group(steps: Iterable[ThresholdStep]) -> list[ThresholdStep]:
    """While one row group is read the threshold may move often; the next one is judged by the last value."""
    latest = {step.at: step for step in steps}
    return [latest[at] for at in sorted(latest)]


def _threshold_path(
    steps: Sequence[ThresholdStep], bands: Sequence[_Band], axis: Axis, pitch: float, descending: bool
) -> tuple[tuple[Line, ...], tuple[Bar, ...]]:
    """A line down the queue that moves sideways when the threshold does, and the side of it where no row can win."""
    starts = {number: index for index, band in enumerate(bands) for number in range(band.first, band.last + 1)}
    placed: dict[float, float] = {}
    for step in steps:
        if step.at in starts:
            placed[round(starts[step.at] * pitch, 2)] = axis.x(step.value)
    bottom = round(len(bands) * pitch, 2)
    path = [*placed.items(), (bottom, 0.0)] if placed else []
    lines: list[Line] = []
    losing: list[Bar] = []
    for number, ((top, x), (end, following)) in enumerate(pairwise(path)):
        lines.append(Line(x, top, x, end))
        if number < len(path) - 2 and following != x:
            lines.append(Line(x, end, following, end))
        left, width = (0.0, x) if descending else (x, round(100 - x, 3))
        losing.append(Bar(left, width, top, round(end - top, 2), "losing"))
    return tuple(lines), tuple(losing)


def _queue_numbers(bands: Sequence[_Band], pitch: float) -> tuple[tuple[float, str], ...]:
    """A number about every 60 pixels, at the middle of its bar."""
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


def _row_group_table(bands: Sequence[_Band], total: int) -> Table:
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
    return Table(("Queue", "File", "Row group", "Minimum", "Maximum", "Rows", "What happened"), tuple(rows), note)


def _map_note(details: TopKDetails, bands: Sequence[_Band], drawn: Sequence[_Band], points: Sequence[KeyPoint]) -> str:
    notes = []
    if len(bands) < len(details.row_groups):
        notes.append("Neighbours in the queue that met the same fate are drawn as one bar.")
    if len(drawn) < len(bands):
        left = sum(len(band.marks) for band in bands[len(drawn) :])
        notes.append(f"The last {plural(left, 'row group')} of the queue are not drawn, but counted above.")
    if any(band.bounds is None for band in drawn):
        notes.append(
            "A dashed bar over the whole width has no minimum and maximum in its file, so it could not be judged."
        )
    if details.scale == "rank" and points:
        notes.append("Values stand in order, not to scale.")
    return " ".join(notes)


# --- window ----------------------------------------------------------------------------------------------------------


def range_map(details: WindowDetails) -> RangeMap | None:
    """None where there is no range to draw."""
    ranges = details.ranges[:MOST_BARS]
    if not ranges:
        return None
    points = [
        point for each in ranges for point in (each.halo_low, each.low, each.high, each.halo_high) if point is not None
    ]
    axis = axis_of(points)
    pitch = max(4.0, min(26.0, 460 / len(ranges)))
    gap = 6 if pitch > 14 else 1.5
    most = max(1, max(each.rows + (each.halo_rows or 0) for each in ranges))
    every = max(1, round(20 / pitch))
    bars: list[Bar] = []
    sizes: list[Bar] = []
    for index, each in enumerate(ranges):
        y, height = round(index * pitch + gap / 2, 2), round(pitch - gap, 2)
        text = _range_text(index, each, details.is_estimate)
        if axis is not None:
            bars.extend(_range_bars(each, axis, y, height, text))
        owned = max(100 * each.rows / most, _LEAST_WIDTH if each.rows else 0.0)
        sizes.append(Bar(0, round(owned, 3), y, height, "owned", text))
        if each.halo_rows:
            halo = max(100 * each.halo_rows / most, _LEAST_WIDTH)
            sizes.append(Bar(round(min(owned, 100 - halo), 3), round(halo, 3), y, height, "halo", text))
    return RangeMap(
        height=round(len(ranges) * pitch, 2),
        bars=tuple(bars),
        sizes=tuple(sizes),
        ticks=axis.ticks(points) if axis else (),
        labels=tuple(
            (round((index + 0.5) * pitch, 2), str(index + 1)) for index in range(len(ranges)) if index % every == 0
        ),
        most_rows=plural(most, "row"),
        table=_range_table(ranges, len(details.ranges)),
        note=_range_note(details, ranges, points),
    )


def _range_bars(each: RangeMark, axis: Axis, y: float, height: float, text: str) -> list[Bar]:
    """The owned part, and a halo wherever one was borrowed, never so thin that it is not seen."""
    if each.low is None or each.high is None:
        return []
    left, right = axis.x(each.low), axis.x(each.high)
    width = max(right - left, _LEAST_WIDTH)
    left = min(left, 100 - width)
    bars = [Bar(round(left, 3), round(width, 3), y, height, "owned", text)]
    if each.halo_low is not None:
        start = max(0.0, min(axis.x(each.halo_low), left - _LEAST_WIDTH))
        bars.append(Bar(round(start, 3), round(max(left - start, _LEAST_WIDTH), 3), y, height, "halo", text))
    if each.halo_high is not None:
        end = min(100.0, max(axis.x(each.halo_high), left + width + _LEAST_WIDTH))
        start = min(left + width, 100 - _LEAST_WIDTH)
        bars.append(Bar(round(start, 3), round(max(end - start, _LEAST_WIDTH), 3), y, height, "halo", text))
    return bars


def _range_text(index: int, each: RangeMark, is_estimate: bool) -> str:
    keys = f"{each.low.label} to {each.high.label}" if each.low and each.high else "keys not recorded"
    about = "about " if is_estimate else ""
    parts = [f"range {index + 1}: {keys}", f"{about}{plural(each.rows, 'row')} of its own", _borrowed_text(each)]
    if each.seconds is not None:
        parts.append(seconds_text(each.seconds))
    return ", ".join(parts)


def _borrowed_text(each: RangeMark) -> str:
    if not each.borrows:
        return "nothing borrowed"
    count = "" if each.halo_rows is None else f"{plural(each.halo_rows, 'row')} "
    sides = [f"from {each.halo_low.label} on"] if each.halo_low else []
    sides += [f"up to {each.halo_high.label}"] if each.halo_high else []
    return f"{count}borrowed {' and '.join(sides)}".strip()


def _range_table(ranges: Sequence[RangeMark], total: int) -> Table:
    rows = tuple(
        (
            str(index + 1),
            each.low.label if each.low else "not known",
            each.high.label if each.high else "not known",
            f"{each.rows:,}",
            _borrowed_text(each),
            "" if each.seconds is None else seconds_text(each.seconds),
        )
        for index, each in enumerate(ranges)
    )
    note = f"The first {len(ranges):,} of {total:,} ranges." if total > len(ranges) else ""
    head = ("Range", "First key", "Last key", "Rows", "Halo", "Time")
    return Table(head, rows, note)


def _range_note(details: WindowDetails, drawn: Sequence[RangeMark], points: Sequence[KeyPoint]) -> str:
    notes = []
    if len(drawn) < len(details.ranges):
        notes.append(f"The first {len(drawn):,} of {len(details.ranges):,} ranges are drawn.")
    if any(each.borrows for each in drawn):
        notes.append("Halos are drawn wide enough to be seen; most are thinner than that.")
    if details.is_estimate:
        notes.append(f"The rows of each range are estimated from {details.cut_by or 'a sample'}, not counted.")
    if details.scale == "rank" and points:
        notes.append("Keys stand in order, not to scale.")
    return " ".join(notes)


# --- aggregate, stages, engines --------------------------------------------------------------------------------------


def phases(details: AggregateDetails) -> tuple[Phase, ...]:
    """Rows after each step, each with how far it went down from the step before."""
    steps = (
        ("Rows in", details.input_rows, "input"),
        ("After the first phase", details.partial_rows, "partial"),
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
        found.append(Phase(label, count_text(count), _width(count, most), kind, remark))
        before = count
    return tuple(found)


def _reduction(before: int, after: int) -> str:
    if after >= before or not after:
        return "as many" if after == before else ""
    return f"{before / after:,.1f} to 1"


def partition_columns(details: AggregateDetails) -> tuple[Bar, ...]:
    """Groups of each final partition as columns: even ones mean that no task waited for another."""
    sizes = details.groups_per_partition[:MOST_BARS]
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


def timed_bars(entries: Iterable[tuple[str, float, str, str]]) -> tuple[Phase, ...]:
    """Bars of seconds: (label, seconds, kind, remark)."""
    listed = list(entries)
    most = max((seconds for _, seconds, _, _ in listed), default=0.0)
    return tuple(
        Phase(label, seconds_text(seconds), _width(seconds, most), kind, remark)
        for label, seconds, kind, remark in listed
    )


def _width(value: float, most: float) -> float:
    return round(max(100 * value / most, 0.4), 3) if most > 0 and value > 0 else 0.0
