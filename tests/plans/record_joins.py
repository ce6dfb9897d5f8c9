"""Catalyst's plans of joins, for `tests/front/test_join_shape.py`; see `record.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.oracle.tables import events, write_files
from tests.plans.analysed import record_plans

QUERIES = {
    "join_inner": "SELECT a.grp, sum(b.num) n FROM events a JOIN events b ON a.id = b.seq GROUP BY a.grp",
    "join_condition": """SELECT a.grp, count(*) c FROM events a JOIN events b
        ON b.seq = a.id AND a.s <=> b.s AND a.num > b.num AND a.small = 3 GROUP BY a.grp""",
    "join_left": """SELECT a.grp, count(b.id) c FROM events a LEFT JOIN events b
        ON a.id = b.seq AND a.num > 5 AND b.num > 5 GROUP BY a.grp""",
    "join_right": "SELECT * FROM (SELECT id, s FROM events) a RIGHT JOIN events b ON a.id = b.seq ORDER BY b.d LIMIT 5",
    "join_full": (
        "SELECT coalesce(a.id, b.seq) k, count(*) c FROM events a FULL JOIN events b ON a.id = b.seq GROUP BY 1"
    ),
    "join_cross": "SELECT count(*) c FROM events a CROSS JOIN (SELECT max(num) m FROM events) b WHERE a.num > b.m - 10",
    "join_semi": "SELECT grp, count(*) c FROM events WHERE id IN (SELECT seq FROM events WHERE num > 3) GROUP BY grp",
    "join_anti": """SELECT grp, count(*) c FROM events a
        WHERE NOT EXISTS (SELECT 1 FROM events b WHERE a.id = b.seq AND a.num <> b.num) GROUP BY grp""",
    "join_not_in": "SELECT grp, count(*) c FROM events WHERE num NOT IN (SELECT small FROM events) GROUP BY grp",
    "join_not_in_doubles": "SELECT grp, count(*) c FROM events WHERE d NOT IN (SELECT d FROM events) GROUP BY grp",
    "join_not_in_two": """SELECT grp, count(*) c FROM events
        WHERE (num, s) NOT IN (SELECT small, s FROM events) GROUP BY grp""",
    "join_existence": """SELECT grp, count(*) c FROM events
        WHERE num > 100 OR id IN (SELECT seq FROM events WHERE num > 3) GROUP BY grp""",
    "join_doubles": "SELECT a.grp, count(*) c FROM events a JOIN events b ON a.d = b.d AND a.f <=> b.f GROUP BY a.grp",
    "join_expressions": """SELECT a.grp, count(*) c FROM events a JOIN events b
        ON a.num + 1 = b.num AND upper(a.s) = b.s GROUP BY a.grp""",
    "join_raising_condition": """SELECT a.grp, count(*) c FROM events a JOIN events b
        ON a.id = b.id AND a.num / b.small > 2 GROUP BY a.grp""",
    "join_semi_raising": """SELECT grp, count(*) c FROM events a
        WHERE EXISTS (SELECT 1 FROM events b WHERE a.id = b.seq AND a.num / b.small > 2) GROUP BY grp""",
    "join_of_shapes": """SELECT t.s, g.c FROM (SELECT id, grp, s FROM events ORDER BY d LIMIT 5) t
        JOIN (SELECT grp, count(*) c FROM events GROUP BY grp) g ON t.grp = g.grp""",
    "join_side_declined": """SELECT b.m, count(*) c FROM events a JOIN (SELECT grp, max(s) m FROM events GROUP BY grp) b
        ON a.grp = b.grp AND reverse(a.s) = b.m GROUP BY b.m""",
    "join_alone": "SELECT a.id, b.s FROM events a JOIN events b ON a.id = b.seq",
    "join_limit": "SELECT a.id, b.s FROM events a JOIN events b ON a.id = b.seq WHERE a.num > 3 LIMIT 5",
    "join_chain": """SELECT c.s, count(*) n FROM events a JOIN events b ON a.id = b.seq JOIN events c ON b.id = c.seq
        WHERE c.num = 5 GROUP BY c.s""",
    "except": "SELECT id, s FROM events EXCEPT SELECT seq, s FROM events",
    "intersect": "SELECT id, s FROM events INTERSECT SELECT seq, s FROM events",
}

RUNTIME_FILTERS = {
    "join_dynamic_pruning": """SELECT b.s, count(*) c FROM parted a JOIN events b ON a.grp = b.num
        WHERE b.s = 'a' AND a.id > 3 GROUP BY b.s""",
    "join_pruning_only": (
        "SELECT b.s, count(*) c FROM parted a JOIN events b ON a.grp <=> b.num WHERE b.s = 'a' GROUP BY b.s"
    ),
    "join_bloom_filter": """SELECT b.s, count(*) c FROM events a JOIN events b ON a.id = b.seq
        WHERE b.s = 'a' GROUP BY b.s""",
    "partition_subquery": "SELECT grp, count(*) c FROM parted WHERE grp = (SELECT max(num) FROM events) GROUP BY grp",
}
_ALWAYS = {
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
    "spark.sql.autoBroadcastJoinThreshold": "0",
}


def record(spark: Any, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        spark.read.parquet(str(write_files(events(100), Path(scratch) / "events"))).createOrReplaceTempView("events")
        parted = str(Path(scratch) / "parted")
        spark.table("events").select("id", "num", "grp").write.partitionBy("grp").parquet(parted)
        spark.read.parquet(parted).createOrReplaceTempView("parted")
        record_plans(spark, folder, QUERIES)
        for key, value in _ALWAYS.items():
            spark.conf.set(key, value)
        record_plans(spark, folder, RUNTIME_FILTERS)
        for key in _ALWAYS:
            spark.conf.unset(key)
