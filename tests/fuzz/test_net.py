"""A fixed share of `make fuzz`: these seeds, every time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fuzz.case import draw_case
from tests.fuzz.pair import Pair
from tests.fuzz.run import Tally, describe

pytestmark = pytest.mark.spark

SEEDS = (1, 2, 3, 4, 6, 7, 8, 9, 11)
CASES = 6


@pytest.fixture(scope="module")
def pair(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(spark, tmp_path_factory.mktemp("fuzz"))
    yield pair
    pair.close()


@pytest.fixture(scope="module")
def tally() -> Tally:
    return Tally()


@pytest.mark.thin(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_cases_give_what_spark_gives(pair: Pair, tally: Tally, seed: int) -> None:
    for number in range(CASES):
        outcome = pair.run(draw_case(seed, number))
        tally.add(outcome)
        assert outcome.difference is None, describe(outcome)


def test_cases_in_several_threads_give_what_spark_gives(pair: Pair, tally: Tally) -> None:
    outcomes = pair.run_together([draw_case(5, number) for number in range(CASES)])
    for outcome in outcomes:
        tally.add(outcome)
    assert [describe(outcome) for outcome in outcomes if outcome.difference is not None] == []


def test_enough_cases_ran_accelerated(tally: Tally) -> None:
    """Of the cases above, thus none if they were not run: a net whose cases all fall back catches nothing."""
    assert tally.cases == 0 or 3 * tally.accelerated > tally.cases, str(tally)
