"""Geometry of the pictures: from the details of a shape to bars in percentages, ready for a template.

Horizontal positions are percentages of the picture's width and vertical ones are pixels. So one SVG fits a phone and a
wide screen without being scaled: its text keeps its size, and no script is needed for the layout.

A table can have a hundred thousand row groups. Neighbours in the queue that have the same outcome are then drawn as one
bar; if there are still too many, the picture ends early. In both cases `note` says so, and the counts beside it are
those of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sundog.report.details import (
    KeyPoint,
)

MAX_BARS = 240
COLUMN_HEIGHT = 60.0
LEAST_WIDTH = 0.6  # per cent: keeps a row group visible whose keys are all equal
LEAST_READ_WIDTH = 1.0
LEAST_READ_HEIGHT = 4.0  # pixels
LONGEST_LABEL = 28


@dataclass(frozen=True)
class Bar:
    """A rectangle with a meaning: `kind` is its pattern, `text` the text for hover, focus and screen readers."""

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
class Stroke:
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
class ReadableTable:
    """The same picture as a table, for screen readers."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class RowGroupMap:
    height: float
    bars: tuple[Bar, ...]
    losing: tuple[Bar, ...]
    threshold: tuple[Stroke, ...]
    threshold_label: str
    ticks: tuple[Tick, ...]
    queue_numbers: tuple[tuple[float, str], ...]
    shares: tuple[Share, ...]
    table: ReadableTable
    note: str


@dataclass(frozen=True)
class RangeMap:
    height: float
    bars: tuple[Bar, ...]
    sizes: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    labels: tuple[tuple[float, str], ...]
    max_rows: str
    table: ReadableTable
    note: str


@dataclass(frozen=True)
class CaptionedBar:
    """A bar with its own caption: a phase of an aggregation, a stage, an engine."""

    label: str
    value: str
    width: float
    kind: str
    remark: str = ""


@dataclass(frozen=True)
class Axis:
    """Converts positions of the key to percentages of the width."""

    low: KeyPoint
    high: KeyPoint

    def x(self, point: KeyPoint) -> float:
        span = self.high.position / 2 - self.low.position / 2  # halved, as the whole may overflow a double
        share = (point.position / 2 - self.low.position / 2) / span if span else 0.5
        return round(100 * min(max(share, 0.0), 1.0), 3)

    def ticks(self, points: Sequence[KeyPoint]) -> tuple[Tick, ...]:
        """Both ends, and an actual value near the middle."""
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


def shorten(text: str, most: int = LONGEST_LABEL) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def width_of(value: float, most: float) -> float:
    return round(max(100 * value / most, 0.4), 3) if most > 0 and value > 0 else 0.0
