"""The ranges of a window on the axis of its order key: the part that each owns, and its halo."""

from __future__ import annotations

from collections.abc import Sequence

from sundog.report.charts.parts import (
    LEAST_WIDTH,
    MAX_BARS,
    Axis,
    Bar,
    RangeMap,
    ReadableTable,
    axis_of,
)
from sundog.report.details import (
    KeyPoint,
    RangeMark,
    WindowDetails,
)
from sundog.report.wording import plural, seconds_text


def range_map(details: WindowDetails) -> RangeMap | None:
    """The picture; None if there is no range to draw."""
    ranges = details.ranges[:MAX_BARS]
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
        owned = max(100 * each.rows / most, LEAST_WIDTH if each.rows else 0.0)
        sizes.append(Bar(0, round(owned, 3), y, height, "owned", text))
        if each.halo_rows:
            halo = max(100 * each.halo_rows / most, LEAST_WIDTH)
            sizes.append(Bar(round(min(owned, 100 - halo), 3), round(halo, 3), y, height, "halo", text))
    return RangeMap(
        height=round(len(ranges) * pitch, 2),
        bars=tuple(bars),
        sizes=tuple(sizes),
        ticks=axis.ticks(points) if axis else (),
        labels=tuple(
            (round((index + 0.5) * pitch, 2), str(index + 1)) for index in range(len(ranges)) if index % every == 0
        ),
        max_rows=plural(most, "row"),
        table=_range_table(ranges, len(details.ranges)),
        note=_range_note(details, ranges, points),
    )


def _range_bars(each: RangeMark, axis: Axis, y: float, height: float, text: str) -> list[Bar]:
    """The owned part, and the halo on each side where there is one, wide enough to be visible."""
    if each.low is None or each.high is None:
        return []
    left, right = axis.x(each.low), axis.x(each.high)
    width = max(right - left, LEAST_WIDTH)
    left = min(left, 100 - width)
    bars = [Bar(round(left, 3), round(width, 3), y, height, "owned", text)]
    if each.halo_low is not None:
        start = max(0.0, min(axis.x(each.halo_low), left - LEAST_WIDTH))
        bars.append(Bar(round(start, 3), round(max(left - start, LEAST_WIDTH), 3), y, height, "halo", text))
    if each.halo_high is not None:
        end = min(100.0, max(axis.x(each.halo_high), left + width + LEAST_WIDTH))
        start = min(left + width, 100 - LEAST_WIDTH)
        bars.append(Bar(round(start, 3), round(max(end - start, LEAST_WIDTH), 3), y, height, "halo", text))
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


def _range_table(ranges: Sequence[RangeMark], total: int) -> ReadableTable:
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
    return ReadableTable(head, rows, note)


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
