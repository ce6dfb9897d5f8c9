"""Records Catalyst's JSON of windows of every form, so that `front/shapes/window.py` is tested without a JVM.

`tests/plans/record.py` runs it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.plans.analysed import record_plans

COLUMNS = """id, cast(id % 3 as int) k, cast(id as double) d, cast(id as float) f, cast(id as string) s,
    timestamp_seconds(id) ts, cast(timestamp_seconds(id) as timestamp_ntz) tn,
    date_add(date'2020-01-01', cast(id as int)) dt, cast(id as decimal(20,3)) dc, cast(id as tinyint) b,
    cast(id as decimal(5,2)) d5, id % 2 = 0 bo, timestamp_seconds(id) - timestamp_seconds(0) iv"""

# Each is the list of outputs of SELECT id, … FROM t.
WINDOWS = {
    "range_interval": """sum(id) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 10 SECONDS PRECEDING AND CURRENT ROW) a,
        sum(id) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND INTERVAL 2 DAYS FOLLOWING) b,
        count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND CURRENT ROW) c""",
    "range_date": """count(*) OVER (ORDER BY dt RANGE BETWEEN 3 PRECEDING AND 1 FOLLOWING) a,
        count(1) OVER (ORDER BY dt RANGE BETWEEN INTERVAL '3' DAY PRECEDING AND INTERVAL '1' DAY PRECEDING) b,
        max(d) OVER (ORDER BY dt RANGE BETWEEN INTERVAL '1-2' YEAR TO MONTH PRECEDING AND CURRENT ROW) c""",
    "range_numbers": """sum(d) OVER (ORDER BY d RANGE BETWEEN 3 PRECEDING AND 1 FOLLOWING) a,
        sum(f) OVER (ORDER BY f DESC RANGE BETWEEN 3.5 PRECEDING AND 1 FOLLOWING) b,
        avg(dc) OVER (ORDER BY dc NULLS LAST RANGE BETWEEN 3.25 PRECEDING AND 1 FOLLOWING) c,
        avg(id) OVER (ORDER BY b RANGE BETWEEN 3 PRECEDING AND UNBOUNDED FOLLOWING) e,
        sum(id) OVER (ORDER BY id RANGE BETWEEN 3-1 PRECEDING AND 1+1 FOLLOWING) g,
        count(*) OVER (ORDER BY d RANGE BETWEEN cast('infinity' as double) PRECEDING AND 1 FOLLOWING) h""",
    "row_frames": """sum(id) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING) a,
        sum(id) OVER (ORDER BY id) b, max(s) OVER () c""",
    "places": """row_number() OVER (ORDER BY id) a, rank() OVER (ORDER BY id, s) b, dense_rank() OVER (ORDER BY id) c,
        ntile(4) OVER (ORDER BY id) e, percent_rank() OVER (ORDER BY id) g, cume_dist() OVER (ORDER BY id) h""",
    "shifts": """lag(s) OVER (ORDER BY id) a, lag(id, 2, -1) OVER (ORDER BY id) b, lead(id, 3, k) OVER (ORDER BY id) c,
        lead(s, 2) IGNORE NULLS OVER (ORDER BY id) e, lag(id, -2) OVER (ORDER BY id) g""",
    "picks": """first(s) OVER (ORDER BY id ROWS 3 PRECEDING) a, last(s, true) OVER (ORDER BY id ROWS 3 PRECEDING) b,
        nth_value(s, 2) OVER (ORDER BY id) c, any_value(s) OVER (ORDER BY id) e,
        nth_value(s, 2) IGNORE NULLS OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) g""",
    "statistics": """var_pop(d) OVER (ORDER BY id) a, var_samp(k) OVER (ORDER BY id) b, stddev(d) OVER (ORDER BY id) c,
        stddev_pop(d) OVER (ORDER BY id) e, bool_and(bo) OVER (ORDER BY id) g, some(bo) OVER (ORDER BY id) h""",
    "filters": """sum(d) FILTER (WHERE k > 1) OVER (ORDER BY id ROWS 3 PRECEDING) a,
        count(*) FILTER (WHERE bo) OVER (ORDER BY id) b, count_if(bo) OVER (ORDER BY id) c,
        count(s, k) OVER (ORDER BY id) e""",
    "sums": """try_sum(id) OVER (ORDER BY id) a, try_avg(d5) OVER (ORDER BY id) b, avg(d5) OVER (ORDER BY id) c,
        sum(d5) OVER (ORDER BY id) e, sum(b) OVER (ORDER BY id) g, avg(f) OVER (ORDER BY id) h,
        sum(iv) OVER (ORDER BY id) i, sum(1) OVER (ORDER BY id) j, count(NULL) OVER (ORDER BY id) l,
        round(avg(d) OVER (ORDER BY id), 2) m, sum(id) OVER (ORDER BY id) + 1 n""",
    "declined": """collect_list(s) OVER (ORDER BY id) a, skewness(d) OVER (ORDER BY id) b,
        max_by(s, d) OVER (ORDER BY id) c,
        count(*) OVER (ORDER BY id RANGE BETWEEN cast(NULL AS BIGINT) PRECEDING AND CURRENT ROW) e""",
    "no_order": """first(s) OVER () a, sum(id) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) b""",
    "zone": """sum(id) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 23 HOURS PRECEDING AND CURRENT ROW) a,
        sum(d) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 24 HOURS PRECEDING AND CURRENT ROW) b,
        sum(id) OVER (ORDER BY tn RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND CURRENT ROW) c""",
}
PARTITIONED = "min(d) OVER (PARTITION BY k, s ORDER BY id DESC, d NULLS LAST ROWS 3 PRECEDING) a"
GROUP_LIMIT = "SELECT * FROM (SELECT id, rank() OVER (ORDER BY d) r FROM t) WHERE r < 5"


def record(spark: Any, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        spark.range(20).selectExpr(*_split(COLUMNS)).write.mode("overwrite").parquet(f"{scratch}/t")
        spark.read.parquet(f"{scratch}/t").createOrReplaceTempView("t")
        queries = {name: f"SELECT id, {outputs} FROM t" for name, outputs in WINDOWS.items()}
        queries |= {"partitioned": f"SELECT id, {PARTITIONED} FROM t", "group_limit": GROUP_LIMIT}
        record_plans(spark, folder, {f"window_{name}": sql for name, sql in queries.items()})


def _split(columns: str) -> list[str]:
    """At commas outside of parentheses."""
    parts, depth = [""], 0
    for character in columns:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
