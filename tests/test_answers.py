"""Comparing answers: which count as equal."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from sundog.shadow_mode.answers import Rules, differences

NAN = float("nan")
SORTED = Rules(order=(0,))
CUT = Rules(order=(0,), is_cut=True)
ROUNDED = Rules(is_rounded=True)


@pytest.mark.parametrize(
    ("theirs", "ours", "rules"),
    [
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], Rules()),
        ([(NAN,), (None,)], [(None,), (NAN,)], Rules()),
        ([(1, "a"), (1, "b"), (2, "c")], [(1, "b"), (1, "a"), (2, "c")], SORTED),
        ([(1, "a"), (2, "b")], [(1, "a"), (2, "z")], CUT),
        ([(1, "a"), (2, "b"), (3, "c")], [(1, "x"), (2, "b"), (3, "y")], CUT),
        ([("k", 0.1 + 0.2)], [("k", 0.3)], ROUNDED),
        ([("k", 1e-12), ("l", 5e6)], [("k", -1e-12), ("l", 5e6)], ROUNDED),
        ([], [], CUT),
        ([((1, [2.0]),)], [((1, [2.0]),)], Rules()),
    ],
)
def test_the_same(theirs: list[Any], ours: list[Any], rules: Rules) -> None:
    assert differences(theirs, ours, rules) == []


@pytest.mark.parametrize(
    ("theirs", "ours", "rules", "expected"),
    [
        ([(1,), (1,)], [(1,)], Rules(), [((1,), None)]),
        ([(1,)], [(1,), (1,)], Rules(), [(None, (1,))]),
        ([(1,)], [(1.0,)], Rules(), [((1,), (1.0,))]),
        ([(0.0,)], [(-0.0,)], Rules(), [((0.0,), (-0.0,))]),
        ([(Decimal("1.0"),)], [(Decimal("1.00"),)], Rules(), [((Decimal("1.0"),), (Decimal("1.00"),))]),
        ([(0.1 + 0.2,)], [(0.3,)], Rules(), [((0.1 + 0.2,), (0.3,))]),
        ([(1.0,)], [(1.1,)], ROUNDED, [((1.0,), (1.1,))]),
        ([(True,)], [(1,)], Rules(), [((True,), (1,))]),
        ([(1,), (2,)], [(2,), (1,)], SORTED, [((1,), (2,)), ((2,), (1,))]),
        ([(1, "a"), (2, "b"), (3, "c")], [(1, "a"), (2, "x"), (3, "c")], CUT, [((2, "b"), (2, "x"))]),
        ([(n,) for n in range(9)], [], Rules(), [((n,), None) for n in range(5)]),
    ],
)
def test_not_the_same(theirs: list[Any], ours: list[Any], rules: Rules, expected: list[Any]) -> None:
    assert differences(theirs, ours, rules) == expected
