"""What Spark writes beside its pages, Bloom filters and page indexes, used by sundog: the rows are Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import sundog
from tests.costs import costs
from tests.spark.against_spark import check

pytestmark = pytest.mark.spark
ROWS = 40_000
# Every row group holds values from nearly all of the range, so that bounds rule out nothing.
FACTS = f"""
    SELECT id * 7919 % {ROWS} * 1000 AS k, CAST(id * 7919 % {ROWS} AS INT) AS i,
           CASE WHEN id % 19 = 0 THEN NULL ELSE concat('user ', id * 104729 % {ROWS}) END AS name,
           date_add(DATE '2000-01-01', CAST(id * 7919 % {ROWS} AS INT)) AS day,
           CAST(id * 7919 % {ROWS} AS DECIMAL(9, 2)) AS price, id
    FROM range(0, {ROWS}, 1, 1)
"""
QUERIES = {
    "k": "SELECT count(*) n, sum(id) s FROM facts WHERE k = 4711000",
    "i": "SELECT count(*) n, sum(id) s FROM facts WHERE i IN (4711, 99999999)",
    "name": "SELECT * FROM facts WHERE name = 'user 4711' ORDER BY id DESC LIMIT 3",
    "day": "SELECT count(*) n, sum(id) s FROM facts WHERE day = DATE '2012-11-24'",
    "price": "SELECT count(*) n, sum(id) s FROM facts WHERE price = 4711",
    "keys": "SELECT count(*) n, sum(f.id) s FROM facts f JOIN (SELECT * FROM facts WHERE id = 77) d ON f.k = d.k",
    "absent": "SELECT count(*) n, sum(id) s FROM facts WHERE k = 4711001",
}


@pytest.fixture(scope="module")
def facts(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = str(tmp_path_factory.mktemp("bloom") / "facts")
    writer = enabled.sql(FACTS).write.option("parquet.block.size", 100_000).option("parquet.page.row.count.limit", 500)
    for column in ("k", "i", "name", "day", "price"):
        writer = writer.option(f"parquet.bloom.filter.enabled#{column}", "true")
        writer = writer.option(f"parquet.bloom.filter.expected.ndv#{column}", "10000")
    writer.parquet(folder)
    enabled.read.parquet(folder).createOrReplaceTempView("facts")
    yield enabled
    enabled.catalog.dropTempView("facts")


def test_page_indexes_that_spark_wrote_rule_out_pages(facts: Any) -> None:
    """The table is in the order of `id`: of the one row group that holds the key, one page does."""
    dimension = "(SELECT id FROM facts WHERE k = 4711000)"
    with costs(facts, page_index_rows=1):
        check(facts, f"SELECT count(*) n, sum(f.k) s, max(f.name) m FROM facts f JOIN {dimension} d ON f.id = d.id")
    metrics = sundog.last_run().metrics
    assert metrics["row_groups_pruned_join_filter"] > 0
    assert metrics["pages_pruned_join_filter"] > 0, metrics


@pytest.mark.parametrize("name", QUERIES)
def test_bloom_filters_that_spark_wrote_rule_out_row_groups(facts: Any, name: str) -> None:
    check(facts, QUERIES[name], ordered=name == "name")
    metrics = sundog.last_run().metrics
    assert metrics["row_groups_total"] > 4
    assert metrics["row_groups_pruned_bloom_filter"] >= metrics["row_groups_total"] // 3, metrics
