"""Time zones as java.time prints them: parsed, computed with, and compared with zoneinfo where the two must agree."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.expr.evaluate import evaluate
from sundog.expr.evaluation.zones import YearlyRule, Zone, day_number
from sundog.expr.nodes import AddInterval, Cast, Column, DatePart, DateTrunc, EvalMode, Expr, Literal
from sundog.front.expressions.time_zones import fixed_zone, parse_zone
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ

BERLIN = parse_zone(
    "Europe/Berlin",
    "+01:00",
    "[Transition[Gap at 1893-04-01T00:00+00:53:28 to +01:00], Transition[Gap at 1996-03-31T02:00+01:00 to +02:00], "
    "Transition[Overlap at 1996-10-27T03:00+02:00 to +01:00]]",
    "[TransitionRule[Gap +01:00 to +02:00, SUNDAY on or after MARCH 25 at 01:00 UTC, standard offset +01:00], "
    "TransitionRule[Overlap +02:00 to +01:00, SUNDAY on or after OCTOBER 25 at 01:00 UTC, standard offset +01:00]]",
)
assert BERLIN is not None
# Sao Paulo's clocks skipped midnight.
MIDNIGHT = parse_zone(
    "America/Sao_Paulo",
    "-03:00",
    "[Transition[Gap at 2018-11-04T00:00-03:00 to -02:00], Transition[Overlap at 2019-02-17T00:00-02:00 to -03:00]]",
    "[]",
)
assert MIDNIGHT is not None


def seconds(text: str) -> int:
    return int(np.datetime64(text, "s").astype(np.int64))


def local(zone: Zone, instant: str) -> str:
    times = np.array([seconds(instant)])
    return str((times + zone.offsets_at(times)).astype("M8[s]")[0])


def test_offsets_come_from_history_and_from_rules() -> None:
    assert local(BERLIN, "1800-01-01T00:00:00") == "1800-01-01T00:53:28"
    assert local(BERLIN, "1893-03-31T23:06:31") == "1893-03-31T23:59:59"
    assert local(BERLIN, "1893-03-31T23:06:32") == "1893-04-01T00:06:32"
    assert local(BERLIN, "1996-07-01T00:00:00") == "1996-07-01T02:00:00"
    assert local(BERLIN, "2020-07-01T00:00:00") == "2020-07-01T02:00:00"
    assert local(BERLIN, "2020-03-29T00:59:59") == "2020-03-29T01:59:59"
    assert local(BERLIN, "2020-03-29T01:00:00") == "2020-03-29T03:00:00"
    assert local(BERLIN, "12020-07-01T00:00:00") == "12020-07-01T02:00:00"
    assert local(BERLIN, "12020-12-01T00:00:00") == "12020-12-01T01:00:00"


@given(st.integers(seconds("1997-01-01T00:00:00"), seconds("2900-01-01T00:00:00")))
def test_agrees_with_zoneinfo_where_the_law_is_old(instant: int) -> None:
    try:
        zone = ZoneInfo("Europe/Berlin")
    except ZoneInfoNotFoundError:
        pytest.skip("no time zone data on this machine")
    there = dt.datetime.fromtimestamp(instant, tz=zone)
    offset = int(BERLIN.offsets_at(np.array([instant]))[0])
    assert offset == there.utcoffset().total_seconds()  # type: ignore[union-attr]
    clock = instant + offset
    first = there.replace(fold=0).timestamp()
    assert BERLIN.instant_of(clock) == first
    assert BERLIN.to_instant(np.array([clock]), np.array([offset])).tolist() == [instant]


def test_a_skipped_time_moves_on_by_the_gap() -> None:
    assert BERLIN.instant_of(seconds("2020-03-29T02:30:00")) == seconds("2020-03-29T01:30:00")


def test_the_day_starts_when_clocks_first_show_it() -> None:
    days = np.array([day_number(2018, 11, 3), day_number(2018, 11, 4), day_number(2018, 11, 5)])
    starts = [str(start) for start in MIDNIGHT.start_of_day(days).astype("M8[s]")]
    assert starts == ["2018-11-03T03:00:00", "2018-11-04T03:00:00", "2018-11-05T02:00:00"]


@pytest.mark.parametrize(
    ("name", "offset"),
    [("UTC", 0), ("Z", 0), ("+05:30", 19800), ("UTC-08:00", -28800), ("Europe/Berlin", None), ("UTC+8", None)],
)
def test_only_plain_offsets_are_known_by_name(name: str, offset: int | None) -> None:
    zone = fixed_zone(name)
    assert (zone.initial if zone else None) == offset


@pytest.mark.parametrize(
    ("transitions", "rules"),
    [
        ("[Transition[Gap at 1893-04-01T00:00+00:53:28 bis +01:00]]", "[]"),
        ("[]", "[TransitionRule[Gap +01:00 to +02:00, the ides of MARCH at 01:00 UTC, standard offset +01:00]]"),
        ("[]", "[TransitionRule[something else]]"),
    ],
)
def test_text_that_is_not_understood_gives_no_zone(transitions: str, rules: str) -> None:
    assert parse_zone("Test", "+01:00", transitions, rules) is None


@pytest.mark.parametrize(
    ("text", "year", "instant"),
    [
        ("SUNDAY on or before last day of OCTOBER at 01:00 UTC", 2020, "2020-10-25T01:00:00"),
        ("FRIDAY on or before last day minus 2 of MARCH at 02:00 WALL", 2021, "2021-03-26T00:00:00"),
        ("MARCH 21 at 24:00 STANDARD", 2021, "2021-03-21T23:00:00"),
        ("THURSDAY on or after APRIL 1 at 00:00:30 UTC", 2021, "2021-04-01T00:00:30"),
    ],
)
def test_every_kind_of_yearly_rule(text: str, year: int, instant: str) -> None:
    zone = parse_zone("Test", "+01:00", "[]", f"[TransitionRule[Gap +02:00 to +03:00, {text}, standard offset +01:00]]")
    assert zone is not None
    (rule,) = zone.rules
    assert isinstance(rule, YearlyRule)
    assert rule.instant(year) == seconds(instant)


def at(zone: Zone, expr_of: object, *instants: str, dtype: pa.DataType = TIMESTAMP) -> list[str]:
    micros = pa.array([seconds(text) * 1_000_000 for text in instants], pa.int64()).view(dtype)
    batch = pa.RecordBatch.from_pydict({"t": micros})
    expr: Expr = expr_of(Column("t", dtype))  # type: ignore[operator]
    result = evaluate(expr, batch)
    if pa.types.is_timestamp(result.type):
        return [str(value) for value in (result.view(pa.int64()).to_numpy() // 1_000_000).astype("M8[s]")]
    return [str(value) for value in result.to_pylist()]


def test_truncation_keeps_to_the_clock_that_was_running() -> None:
    """At 02:30 shown for the second time, the hour began at 02:00 shown for the second time."""
    hour = lambda t: DateTrunc("hour", t, TIMESTAMP, BERLIN)  # noqa: E731
    assert at(BERLIN, hour, "2020-10-25T00:30:00", "2020-10-25T01:30:00") == [
        "2020-10-25T00:00:00",
        "2020-10-25T01:00:00",
    ]
    day = lambda t: DateTrunc("day", t, TIMESTAMP, BERLIN)  # noqa: E731
    assert at(BERLIN, day, "2020-10-25T12:00:00", "2020-07-01T21:59:59") == [
        "2020-10-24T22:00:00",
        "2020-06-30T22:00:00",
    ]
    year = lambda t: DateTrunc("year", t, TIMESTAMP, BERLIN)  # noqa: E731
    assert at(BERLIN, year, "2020-07-01T12:00:00") == ["2019-12-31T23:00:00"]


def test_a_day_follows_the_clock_and_24_hours_are_a_day() -> None:
    one_day = lambda t: AddInterval(t, Literal(86_400_000_000, DAY_TIME_INTERVAL), TIMESTAMP, BERLIN)  # noqa: E731
    assert at(BERLIN, one_day, "2020-03-28T12:00:00") == ["2020-03-29T11:00:00"]
    assert at(BERLIN, one_day, "2020-03-28T01:30:00") == ["2020-03-29T01:30:00"]


def test_casts_and_parts_in_a_zone() -> None:
    hour = lambda t: DatePart("hour", t, pa.int32(), BERLIN)  # noqa: E731
    assert at(BERLIN, hour, "2020-07-01T22:30:00", "2020-12-01T22:30:00") == ["0", "23"]
    date = lambda t: Cast(t, pa.date32(), EvalMode.LEGACY, BERLIN)  # noqa: E731
    assert at(BERLIN, date, "2020-07-01T22:30:00", "2020-12-01T22:30:00") == ["2020-07-02", "2020-12-01"]
    ntz = lambda t: Cast(t, TIMESTAMP_NTZ, EvalMode.LEGACY, BERLIN)  # noqa: E731
    assert at(BERLIN, ntz, "2020-07-01T22:30:00") == ["2020-07-02T00:30:00"]
    back = lambda t: Cast(t, TIMESTAMP, EvalMode.LEGACY, BERLIN)  # noqa: E731
    assert at(BERLIN, back, "2020-10-25T02:30:00", dtype=TIMESTAMP_NTZ) == ["2020-10-25T00:30:00"]
    text = lambda t: Cast(t, pa.string(), EvalMode.LEGACY, BERLIN)  # noqa: E731
    assert at(BERLIN, text, "1800-01-01T00:00:00") == ["1800-01-01 00:53:28"]
