"""The JVM's rules of a time zone, read once per zone and process.

Three calls bring the whole history: java.time prints the zone's transitions and its rules for the future as text. The
text is parsed here into a `Zone`, which computes without the JVM. `sundog.expr.evaluation.zones` says why no other
source will do.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from sundog.expr.evaluation.zones import DAY_SECONDS, YearlyRule, Zone, day_number

_OFFSET = r"Z|[+-]\d\d:\d\d(?::\d\d)?"
_TRANSITION = re.compile(
    rf"Transition\[(?:Gap|Overlap) at (\d{{4}})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d))?({_OFFSET}) to ({_OFFSET})\]"
)
_RULE = re.compile(
    rf"TransitionRule\[(?:Gap|Overlap) ({_OFFSET}) to ({_OFFSET}), (.+?) at (\d\d):(\d\d)(?::(\d\d))?"
    rf" (UTC|WALL|STANDARD), standard offset ({_OFFSET})\]"
)
_DAY = re.compile(
    r"(?:(?P<weekday>[A-Z]+DAY) on or (?:after (?P<month>[A-Z]+) (?P<day>\d+)"
    r"|before last day (?:minus (?P<minus>\d+) )?of (?P<last_month>[A-Z]+)))"
    r"|(?P<fixed_month>[A-Z]+) (?P<fixed_day>-?\d+)"
)
_FIXED = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d\d):(\d\d)")
_ZERO = frozenset({"UTC", "GMT", "UT", "Z", "Etc/UTC", "Etc/GMT"})
_MONTHS = [
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
]
_WEEKDAYS = ["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"]
_cache: dict[str, Zone | None] = {}


@lru_cache(maxsize=64)
def fixed_zone(name: str) -> Zone | None:
    """UTC and its aliases, and offsets such as `+05:30`, which need no JVM."""
    if name in _ZERO:
        return Zone(name)
    if match := _FIXED.fullmatch(name):
        seconds = int(match[2]) * 3600 + int(match[3]) * 60
        return Zone(name, -seconds if match[1] == "-" else seconds)
    return None


def java_zone(jvm: Any, name: str) -> Zone | None:
    """The zone by the rules of Spark's JVM; None if they are printed in an unknown form."""
    if zone := fixed_zone(name):
        return zone
    if name not in _cache:
        rules = jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(name).getRules()
        epoch = rules.getOffset(jvm.java.time.Instant.EPOCH).toString()
        _cache[name] = parse_zone(name, epoch, rules.getTransitions().toString(), rules.getTransitionRules().toString())
    return _cache[name]


def parse_zone(name: str, epoch_offset: str, transitions: str, rules: str) -> Zone | None:
    """A zone from java.time's texts; None unless every character of them is accounted for."""
    changes = tuple(_change(match) for match in _TRANSITION.finditer(transitions))
    yearly = [_yearly(match) for match in _RULE.finditer(rules)]
    if len(changes) != transitions.count("Transition[") or len(yearly) != rules.count("TransitionRule["):
        return None
    known = tuple(rule for rule in yearly if rule is not None)
    if len(known) != len(yearly) or list(changes) != sorted(changes):
        return None
    return Zone(name, changes[0][1] if changes else _seconds(epoch_offset), changes, known)


def _change(match: re.Match[str]) -> tuple[int, int, int]:
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    before, after = _seconds(match[7]), _seconds(match[8])
    local = day_number(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second
    return local - before, before, after


def _yearly(match: re.Match[str]) -> YearlyRule | None:
    before, after, day_text, hour, minute, second, clock, standard = match.groups()
    day = _DAY.fullmatch(day_text)
    if day is None:
        return None
    if day["month"]:
        month, number = day["month"], int(day["day"])
    elif day["last_month"]:
        month, number = day["last_month"], -1 - int(day["minus"] or 0)
    else:
        month, number = day["fixed_month"], int(day["fixed_day"])
    return YearlyRule(
        month=_MONTHS.index(month) + 1,
        day=number,
        weekday=_WEEKDAYS.index(day["weekday"]) + 1 if day["weekday"] else None,
        second=int(hour) * 3600 + int(minute) * 60 + int(second or 0),
        clock=clock,
        standard=_seconds(standard),
        before=_seconds(before),
        after=_seconds(after),
    )


def _seconds(offset: str) -> int:
    if offset == "Z":
        return 0
    hours, minutes, *rest = offset[1:].split(":")
    seconds = int(hours) * 3600 + int(minutes) * 60 + (int(rest[0]) if rest else 0)
    return -seconds if offset[0] == "-" else seconds
