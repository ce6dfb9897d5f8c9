"""The session of the smoke test: sundog on, this Spark's own defaults, tables small enough to do much in a minute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sundog.versions import spark_version
from tests.costs import costs
from tests.oracle.plain_spark import plain_spark
from tests.oracle.tables import events, write_files

# The pyspark of 3.5 has no Connect server to run in the same process.
collect_ignore = [] if spark_version().connect else ["test_connect.py"]

_WORTH_IT = {
    # so that two thousand rows are worth several tasks and an exchange
    "task_bytes": 4096,
    "gather_groups": 100,
    # and three thousand of Spark's worth taking
    "min_spark_rows_seconds": 0,
    "spark_few_groups": 10,
    "spark_many_groups_ns_per_row": 10_000,
    "spark_window_ns_per_row": 10_000,
}
_NESTED = """
    SELECT id, num, named_struct('a', num, 'b', s) AS st, array(num, small) AS ar, map('k', d) AS mp,
    make_dt_interval(0, 0, 0, num) AS iv, make_ym_interval(small, num) AS ym FROM events
"""


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    ansi = enabled.conf.get("spark.sql.ansi.enabled")
    enabled.conf.unset("spark.sql.ansi.enabled")  # this version's own default
    folder = tmp_path_factory.mktemp("smoke")
    enabled.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    enabled.read.parquet(str(write_files(events(), folder / "events"))).createOrReplaceTempView("events")
    with plain_spark(enabled):
        enabled.table("events").write.partitionBy("small").parquet(str(folder / "parted"))
        enabled.sql(_NESTED).write.parquet(str(folder / "nested"))
        enabled.sql("SELECT id % 40 AS g, concat('name ', id % 40) AS name, id FROM range(3000)").write.csv(
            str(folder / "csv")
        )
    enabled.read.parquet(str(folder / "parted")).createOrReplaceTempView("parted")
    enabled.read.parquet(str(folder / "nested")).createOrReplaceTempView("nested")
    enabled.read.schema("g int, name string, id bigint").csv(str(folder / "csv")).createOrReplaceTempView("csv")
    with costs(enabled, **_WORTH_IT):
        yield enabled
    enabled.conf.unset("spark.sundog.placement")
    enabled.conf.set("spark.sql.ansi.enabled", ansi)
