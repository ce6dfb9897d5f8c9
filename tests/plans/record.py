"""Records Catalyst's JSON of the queries below and of those in the recorders beside it, so that `front` is tested
without a JVM.

    .venv/bin/python -m tests.plans.record
    .venvs/4.1/bin/python -m tests.plans.record

The plans go into the folder of the Spark that is installed; what that Spark cannot analyse is left out and printed. A
plan is recorded the same whatever is recorded beside it, and wherever. Then look at what changed: `git diff --no-index
tests/plans/4.2 tests/plans/4.3`.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.oracle.tables import events, write_files
from tests.plans import record_aggregates, record_expressions, record_joins, record_subqueries, record_windows
from tests.plans.analysed import record_plans
from tests.plans.versions import NEWEST

from sundog.environment.java import session
from sundog.versions import spark_version

QUERIES = {
    "topk": "SELECT id, s FROM events WHERE num > 3 AND s LIKE 'a%' ORDER BY d DESC, id LIMIT 5",
    "topk_offset": "SELECT id, d + 1 e FROM events ORDER BY d LIMIT 5 OFFSET 2",
    "topk_all": "SELECT * FROM events ORDER BY ts DESC NULLS LAST LIMIT 10",
    "topk_expression_above": "SELECT reverse(s) r FROM (SELECT s FROM events ORDER BY num LIMIT 5)",
    "topk_raising": "SELECT id, num / small x FROM events ORDER BY id LIMIT 5",
    "topk_join": "SELECT a.id, b.s FROM (SELECT id FROM events ORDER BY d LIMIT 5) a JOIN events b ON a.id = b.id",
    "topk_union": "(SELECT id FROM events ORDER BY num LIMIT 5) UNION ALL (SELECT id FROM events ORDER BY d LIMIT 5)",
    "limit": "SELECT id FROM events WHERE num = 3 LIMIT 5",
    "plain": "SELECT id FROM events WHERE num = 3",
    "aggregate": "SELECT grp, count(*) c, sum(d) s FROM events WHERE num > 0 GROUP BY grp",
    "aggregate_topk": "SELECT grp, count(*) c FROM events GROUP BY grp HAVING count(*) > 2 ORDER BY c DESC LIMIT 3",
    "distinct": "SELECT DISTINCT s, flag FROM events",
    "window_range": "SELECT id, sum(num) OVER (ORDER BY seq RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) w FROM events",
    "window_rows": "SELECT id, row_number() OVER (ORDER BY seq) n, lag(d) OVER (ORDER BY seq) l FROM events",
    "collated": "SELECT id FROM events ORDER BY s COLLATE UTF8_LCASE LIMIT 3",
    "udf_like": "SELECT id, uuid() u FROM events ORDER BY id LIMIT 3",
}


def main() -> None:
    os.environ["TZ"] = "UTC"  # Python and the JVM that it starts print instants in it
    time.tzset()
    spark = session("plans", "local[1]", {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"})
    folder = NEWEST.with_name(spark_version().name)
    folder.mkdir(exist_ok=True)
    record(spark, folder)
    for recorder in (record_aggregates, record_expressions, record_joins, record_windows):
        recorder.record(spark, folder)
    spark.stop()


def record(spark: Any, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        spark.read.parquet(str(write_files(events(100), Path(scratch)))).createOrReplaceTempView("events")
        record_plans(spark, folder, QUERIES | record_subqueries.QUERIES)


if __name__ == "__main__":
    main()
