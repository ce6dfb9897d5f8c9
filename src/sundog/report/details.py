"""The details of each shape for the report: plain numbers and words.

A run's metrics say *how many* row groups were skipped; a picture needs to know *which*, and their place on the order
key. The planner leaves notes on the graph of stages; only when a report is written does `pictures.py` make these
records from them.

    axis = KeyAxis([bound for group in groups for bound in (group.low, group.high)])
    TopKDetails("event_time DESC", k=10, descending=True, scale=axis.scale, row_groups=tuple(
        RowGroupMark(group.file, group.index, group.rows, READ, axis.point(group.low), axis.point(group.high))
        for group in groups
    ))

A key may have any orderable type, so a value is given to the picture as a `KeyPoint`: a position, and the text to show.
`KeyAxis` makes them. An unknown bound is None, and is drawn as unknown.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Literal

Scale = Literal["linear", "rank"]


@dataclass(frozen=True)
class KeyPoint:
    """One value of the order key: its position and its text. Positions are comparable within one picture only."""

    position: float
    label: str


class RowGroupState(Enum):
    """The outcome of a row group. The value is the report's wording."""

    READ = "read"
    PRUNED_STATISTICS = "pruned by statistics"
    PRUNED_INITIAL_THRESHOLD = "pruned by the initial threshold"
    PRUNED_DYNAMIC = "pruned dynamically"
    PRUNED_JOIN_FILTER = "pruned by the keys of a join"
    PRUNED_BLOOM_FILTER = "pruned by a Bloom filter of the file"
    NEVER_REACHED = "never reached"
    HANDED_OUT = "handed to a task"
    """A task on an executor judged it by itself. How many of these were skipped is in the metrics."""


@dataclass(frozen=True)
class RowGroupMark:
    """One row group of one file. `low` and `high` bound its leading sort key; None if the file does not tell."""

    file: str
    row_group: int
    rows: int
    state: RowGroupState
    low: KeyPoint | None = None
    high: KeyPoint | None = None


@dataclass(frozen=True)
class ThresholdStep:
    """The k-th best value known when row group number `at` (an index into `TopKDetails.row_groups`) was judged."""

    at: int
    value: KeyPoint


@dataclass(frozen=True)
class TopKDetails:
    """A top-k: its row groups in the order of the queue, and how the threshold moved during the search.

    Row groups that never entered the queue are placed by their bounds, so that the picture is complete.
    """

    order: str
    k: int
    descending: bool = False
    scale: Scale = "linear"
    row_groups: tuple[RowGroupMark, ...] = ()
    thresholds: tuple[ThresholdStep, ...] = ()
    sequence: ClassVar[str] = "queue"


@dataclass(frozen=True)
class ScanDetails:
    """A scan under joins: its row groups in the order of the table, on the axis of the key that ruled out most.

    `filters`: for each filter its column and the number of keys. `pages` and `rows`: pages and rows that the same keys
    ruled out inside the row groups that were read.
    """

    table: str
    key: str
    filters: tuple[str, ...]
    scale: Scale = "linear"
    row_groups: tuple[RowGroupMark, ...] = ()
    pages: int = 0
    rows: int = 0
    sequence: ClassVar[str] = "table"
    thresholds: ClassVar[tuple[ThresholdStep, ...]] = ()
    descending: ClassVar[bool] = False


@dataclass(frozen=True)
class RangeMark:
    """One range of the order key: the rows that it owns, and the halo that it borrows on either side.

    `low` and `high`: the least and greatest key it may own; `halo_low` and `halo_high`: how far it borrows, None if it
    borrows nothing on that side. `halo_rows` and `seconds` are None if they are known for all ranges together only.
    """

    rows: int
    low: KeyPoint | None = None
    high: KeyPoint | None = None
    halo_low: KeyPoint | None = None
    halo_high: KeyPoint | None = None
    halo_rows: int | None = None
    seconds: float | None = None

    @property
    def borrows(self) -> bool:
        return bool(self.halo_rows) or self.halo_low is not None or self.halo_high is not None


@dataclass(frozen=True)
class WindowDetails:
    """A window: the ranges that its order key was cut into, in the order of the query.

    `cut_by`: the origin of the cut points ("row-group statistics", "a sample of the key"). `moved_by`: how rows reached
    their range ("reading them straight from the files", "an exchange"). `is_estimate`: rows of each range are
    estimated by `cut_by`, not counted.
    """

    order: str
    frames: tuple[str, ...] = ()
    scale: Scale = "linear"
    ranges: tuple[RangeMark, ...] = ()
    cut_by: str = ""
    moved_by: str = ""
    is_estimate: bool = False


@dataclass(frozen=True)
class AggregateDetails:
    """A GROUP BY: how many rows are left after each aggregation, and what did not fit into memory.

    `partial_rows` left the partial aggregation, of them `partial_skipped` as they came, because grouping them did not
    reduce. `groups_per_partition` shows the balance of the final aggregation, where it is known.
    """

    keys: str
    input_rows: int
    partial_rows: int
    partial_skipped: int
    exchange_rows: int
    exchange_bytes: int
    groups: int
    spill_count: int = 0
    spilled_bytes: int = 0
    early_emits: int = 0
    groups_per_partition: tuple[int, ...] = ()


ShapeDetails = TopKDetails | WindowDetails | AggregateDetails | ScanDetails


class KeyAxis:
    """Places key values of one type on an axis: to scale if numbers, dates and times allow it, else in rank order.

    To scale means that distances are true. If one distant value would compress all others into one spot, and for
    strings and values without a finite number, neighbours are at equal distances: position 0 to 1.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        known = [value for value in values if value is not None]
        numbers = [_number(value) for value in known]
        finite = [number for number in numbers if number is not None]
        is_linear = len(finite) == len(known) and not _is_lopsided(finite)
        self.scale: Scale = "linear" if is_linear else "rank"
        self._ranks = [] if is_linear else sorted({_sortable(value) for value in known})

    def point(self, value: Any) -> KeyPoint | None:
        """The point of `value`; None for None. It need not be one of the values that made the axis."""
        if value is None:
            return None
        number = _number(value) if self.scale == "linear" else self._rank(value)
        return None if number is None else KeyPoint(number, key_label(value))

    def _rank(self, value: Any) -> float:
        before, upto = bisect_left(self._ranks, _sortable(value)), bisect_right(self._ranks, _sortable(value))
        place = before if before < upto else before - 0.5  # another value is placed between its neighbours
        return min(max(place / max(1, len(self._ranks) - 1), 0.0), 1.0)


def key_label(value: Any) -> str:
    """The text for a key value."""
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(sep=" ")
        text = text.rstrip("0") if value.microsecond else text
        offset = value.utcoffset()
        return text if offset is None else f"{text} UTC" if not offset else f"{text} {value:%z}"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


_EPOCH = datetime(1970, 1, 1)


def _number(value: Any) -> float | None:
    """A finite number in the order of the values, if their type has one."""
    try:
        match value:
            case datetime():
                return (value.replace(tzinfo=None) - (value.utcoffset() or timedelta()) - _EPOCH) / timedelta(seconds=1)
            case date():
                return float(value.toordinal())
            case timedelta():
                return value / timedelta(seconds=1)
            case bool() | int() | float() | Decimal():
                number = float(value)
                return number if math.isfinite(number) else None
    except OverflowError:  # an integer beyond the largest double
        return None
    return None


def _sortable(value: Any) -> tuple[bool, Any]:
    """NaN above everything, as Spark has it."""
    return (True, 0.0) if isinstance(value, float) and math.isnan(value) else (False, value)


def _is_lopsided(numbers: list[float]) -> bool:
    """Whether the middle four fifths of the values would be drawn within a thousandth of the axis."""
    ordered = sorted(numbers)
    if len(ordered) < 5:
        return False
    middle = ordered[-1 - len(ordered) // 10] - ordered[len(ordered) // 10]
    span = ordered[-1] - ordered[0]
    return not math.isfinite(span) or (middle > 0 and span > 1000 * middle)
