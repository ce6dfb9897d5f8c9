"""Key values of every type have a position on the axis, in Spark's order."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.report.details import KeyAxis, key_label

KEYS: list[st.SearchStrategy[Any]] = [
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(10**400), 10**400),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.text(),
    st.binary(),
    st.booleans(),
]


@settings(deadline=None, max_examples=200)
@given(st.one_of([st.lists(key, min_size=1, max_size=12) for key in KEYS]))
def test_positions_follow_the_order_of_the_values(values: list[Any]) -> None:
    axis = KeyAxis(values)
    points = [axis.point(value) for value in sorted(values)]
    positions = [point.position for point in points if point is not None]
    assert len(positions) == len(values)
    assert positions == sorted(positions)
    assert all(math.isfinite(position) for position in positions)


def test_times_and_numbers_are_drawn_to_scale() -> None:
    days = [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 4)]
    axis = KeyAxis(days)
    assert axis.scale == "linear"
    places = [point.position for day in days if (point := axis.point(day))]
    assert places[2] - places[1] == 2 * (places[1] - places[0])


def test_instants_of_different_zones_are_compared_as_instants() -> None:
    zone = timezone(timedelta(hours=2))
    axis = KeyAxis([datetime(2026, 1, 1, 12, tzinfo=zone)])
    early, late = (
        axis.point(datetime(2026, 1, 1, 11, tzinfo=zone)),
        axis.point(datetime(2026, 1, 1, 10, tzinfo=timezone.utc)),
    )
    assert early is not None
    assert late is not None
    assert late.position - early.position == 3600


def test_one_far_value_does_not_press_the_others_into_one_spot() -> None:
    values = [*range(1, 40), 10**18]
    axis = KeyAxis(values)
    assert axis.scale == "rank"
    middle = axis.point(20)
    assert middle is not None
    assert 0.4 < middle.position < 0.6


def test_equal_values_with_one_outlier_stay_to_scale() -> None:
    assert KeyAxis([5] * 30 + [6]).scale == "linear"


def test_nan_stands_above_infinity() -> None:
    values = [1.0, math.inf, math.nan, -math.inf]
    axis = KeyAxis(values)
    assert axis.scale == "rank"
    order = sorted(values, key=lambda value: axis.point(value).position)  # type: ignore[union-attr]
    assert order[:3] == [-math.inf, 1.0, math.inf]
    assert math.isnan(order[3])


def test_a_value_that_did_not_make_the_axis_stands_between_its_neighbours() -> None:
    axis = KeyAxis(["a", "c", "e"])
    places = [point.position for value in ("0", "a", "b", "c", "f") if (point := axis.point(value))]
    assert places == [0.0, 0.0, 0.25, 0.5, 1.0]


def test_what_is_not_known_has_no_place() -> None:
    assert KeyAxis([None, 1]).point(None) is None
    assert KeyAxis([]).scale == "linear"
    assert KeyAxis([None]).point(None) is None


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (7, "7"),
        (7.0, "7"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (Decimal("1.50"), "1.50"),
        (datetime(2026, 1, 2, 3, 4, 5), "2026-01-02 03:04:05"),
        (datetime(2026, 1, 2, 3, 4, 50, 120_000), "2026-01-02 03:04:50.12"),
        (datetime(2026, 1, 2, 3, 4, 5, 7, tzinfo=timezone.utc), "2026-01-02 03:04:05.000007 UTC"),
        (datetime(2026, 1, 2, 3, 4, 0, tzinfo=timezone(timedelta(hours=2))), "2026-01-02 03:04:00 +0200"),
        (date(2026, 1, 2), "2026-01-02"),
        (b"\x00\xff", "0x00ff"),
        (True, "True"),
        ("text", "text"),
    ],
)
def test_labels(value: Any, label: str) -> None:
    assert key_label(value) == label
