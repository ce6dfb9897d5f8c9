"""Time zones as tables of offsets, with exactly the rules that the JVM uses.

`year(ts)` in Europe/Berlin depends on when Berlin changed its clocks, and the JVM has its own copy of that history:
Python's zoneinfo, pyarrow's and the operating system's differ from it before 1970 and after each new law. So the front
end asks the JVM for the rules (`front/expressions/time_zones.py`), the table travels inside the expression, and nothing
here knows a zone by name.

Times are whole seconds in int64, so that no shift can overflow: of an *instant*, since the epoch in UTC, or *local*,
the same count on a wall clock. Rules without end repeat every 400 years, when weekdays and leap years are the same
again; so the table has one such cycle and later times are mapped into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.int64]
DAY_SECONDS = 86_400
_CYCLE_SECONDS = 146_097 * DAY_SECONDS  # 400 years
_TABLE_YEARS = 403  # years of yearly rules: a cycle and some years more
_END_MARGIN_SECONDS = 370 * DAY_SECONDS  # from the end of the cycle to the last change, so that changes follow it


@dataclass(frozen=True)
class YearlyRule:
    """A change of offset in every year: on the first `weekday` on or after `day` of `month` (or on that day itself).

    `day` below zero counts from the end of the month: -1 is the last day, and the weekday is the last on or before it.
    `second` is of the day in the clock named by `clock`: "UTC", "STANDARD" or "WALL".
    """

    month: int
    day: int
    weekday: int | None  # 1 is Monday
    second: int
    clock: str
    standard: int
    before: int
    after: int

    def instant(self, year: int) -> int:
        """The second of the epoch at which the change happens."""
        local = _first_day(self, year) * DAY_SECONDS + self.second
        return local - {"UTC": 0, "STANDARD": self.standard, "WALL": self.before}[self.clock]


@dataclass(frozen=True)
class Zone:
    """A zone: changes of offset as (second of the epoch, offset before, offset after), then yearly rules without
    end."""

    name: str
    initial: int = 0
    changes: tuple[tuple[int, int, int], ...] = ()
    rules: tuple[YearlyRule, ...] = ()

    @property
    def is_fixed(self) -> bool:
        return not self.changes and not self.rules

    def offsets_at(self, instants: Seconds) -> Seconds:
        """Seconds to add to each instant to get local time."""
        if self.is_fixed:
            return np.full(len(instants), self.initial, np.int64)
        table = _table(self)
        return table.offsets[np.searchsorted(table.instants, table.into_cycle(instants), side="right")]

    def to_instant(self, local: Seconds, preferred: Seconds | None = None) -> Seconds:
        """The instant of a local time, like java.time: a time that a clock skips is moved by the gap; of a time that
        occurs twice it is the first, unless `preferred` (the offsets that the times came from) names the second."""
        if self.is_fixed:
            return local - self.initial
        table = _table(self)
        seconds = table.into_cycle(local)
        place = np.searchsorted(table.local_ends, seconds, side="right")
        offsets = table.offsets[place]
        if preferred is not None:
            later = table.offsets[np.minimum(place + 1, len(table.offsets) - 1)]
            shown_twice = seconds >= table.local_starts[np.minimum(place, len(table.local_starts) - 1)]
            offsets = np.where(shown_twice & (later == preferred) & (later < offsets), later, offsets)
        return local - offsets

    def start_of_day(self, days: Seconds) -> Seconds:
        """The first instant of a local day; where midnight is skipped, the change itself."""
        local = days * DAY_SECONDS
        instants = self.to_instant(local)
        if self.is_fixed:
            return instants
        table = _table(self)
        seconds = table.into_cycle(local)
        place = np.minimum(np.searchsorted(table.local_ends, seconds, side="right"), len(table.instants) - 1)
        skipped = (
            (table.offsets[place] < table.offsets[place + 1])
            & (seconds >= table.local_starts[place])
            & (seconds < table.local_ends[place])
        )
        return np.where(skipped, table.instants[place] + (local - seconds), instants)

    def instant_of(self, local: int) -> int:
        """`to_instant` of a single time."""
        return int(self.to_instant(np.array([local], np.int64))[0])


UTC = Zone("UTC")


@dataclass(frozen=True)
class _ZoneChanges:
    """Change i is at `instants[i]`, from `offsets[i]` to `offsets[i + 1]`; it concerns the local times between
    `local_starts[i]` and `local_ends[i]`, which are skipped or occur twice."""

    instants: Seconds
    offsets: Seconds
    local_starts: Seconds
    local_ends: Seconds
    cycle_end: int | None

    def into_cycle(self, seconds: Seconds) -> Seconds:
        if self.cycle_end is None:
            return seconds
        cycles = np.maximum(-((self.cycle_end - seconds) // _CYCLE_SECONDS), 0)
        mapped: Seconds = seconds - cycles * _CYCLE_SECONDS
        return mapped


@lru_cache(maxsize=64)
def _table(zone: Zone) -> _ZoneChanges:
    changes = list(zone.changes)
    cycle_end = None
    if zone.rules:
        year = int(np.datetime64(changes[-1][0], "s").astype("M8[Y]").astype(np.int64)) + 1970 if changes else 1970
        years = range(year, year + _TABLE_YEARS)
        yearly = [(rule.instant(each), rule.before, rule.after) for each in years for rule in zone.rules]
        changes += sorted(change for change in yearly if not changes or change[0] > changes[-1][0])
        cycle_end = changes[-1][0] - _END_MARGIN_SECONDS
    instants = np.array([change[0] for change in changes], np.int64)
    before = np.array([change[1] for change in changes], np.int64)
    after = np.array([change[2] for change in changes], np.int64)
    return _ZoneChanges(
        instants=instants,
        offsets=np.append(np.int64(zone.initial), after),
        local_starts=instants + np.minimum(before, after),
        local_ends=instants + np.maximum(before, after),
        cycle_end=cycle_end,
    )


def _first_day(rule: YearlyRule, year: int) -> int:
    day = day_number(year, rule.month, rule.day) if rule.day > 0 else day_number(year, rule.month + 1, rule.day + 1)
    if rule.weekday is None:
        return day
    ahead = (rule.weekday - weekday_of(day)) % 7
    return day + ahead if rule.day > 0 or ahead == 0 else day + ahead - 7


def day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar, for any year."""
    months = np.int64((year - 1970) * 12 + month - 1)
    return int(months.astype("M8[M]").astype("M8[D]").astype(np.int64)) + day - 1


def weekday_of(day: int) -> int:
    """1 is Monday; day 0 of the epoch was a Thursday."""
    return (day + 3) % 7 + 1
