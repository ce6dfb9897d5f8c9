"""A fixed share of `make fuzz-relations`: these seeds, every time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fuzz.relational.run import Campaign, draw_query

pytestmark = pytest.mark.spark

SEEDS = (1, 2, 3, 4)
QUERIES = 8


@pytest.fixture(scope="module")
def campaign(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    campaign = Campaign(spark, tmp_path_factory.mktemp("relational"))
    yield campaign
    campaign.close()


@pytest.mark.thin(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_queries_over_several_tables_give_what_spark_gives(campaign: Campaign, seed: int) -> None:
    tables = campaign.tables(seed)
    for number in range(QUERIES):
        found = campaign.compare(draw_query(seed, number, tables))
        assert found is None, found


def test_enough_queries_ran_accelerated(campaign: Campaign) -> None:
    """Of the queries above, thus none if they were not run."""
    tally = campaign.tally
    assert tally.queries == 0 or 2 * tally.accelerated > tally.queries, str(tally)
