"""Records Catalyst's aggregates, so that `front/shapes/aggregate.py` is tested without a JVM.

`tests/plans/record.py` runs it.

`<version>/aggregates.json` is a list of {"sql", "node"}: the topmost Aggregate of each query's optimised plan, with the
fields that Catalyst's JSON leaves out filled in. What must come out stands in `aggregates.txt`, which
`tests/front/test_aggregate_shape.py` compares (and writes with SUNDOG_UPDATE_GOLDEN=1).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.oracle.tables import events, write_files
from tests.plans.analysed import analysed, stable_text

from sundog.front.catalyst_json import Node, link_of
from sundog.front.jvm.plan import CatalystPlan

QUERIES = [
    "SELECT grp, count(*), sum(num), avg(d), min(s), max(ts) FROM events GROUP BY grp",
    "SELECT sum(num) / count(1) + grp AS r, grp + 1 AS g FROM events GROUP BY grp",
    "SELECT num % 3 AS m, (num % 3) * 2 AS t, count(*) + 1 AS c FROM events GROUP BY num % 3",
    "SELECT DISTINCT s, flag FROM events",
    "SELECT count(*), count(s), count(s, num), count(if(num > 0, 1, null)) FROM events",
    "SELECT count(*) FROM events GROUP BY 'x'",
    "SELECT sum(tiny), sum(small), sum(big), sum(f), sum(dec), sum(wide) FROM events",
    "SELECT avg(tiny), avg(big), avg(f), avg(dec), avg(wide) FROM events",
    "SELECT sum(cast(num AS decimal(5,0))), avg(cast(num AS decimal(5,0))) FROM events",
    "SELECT try_sum(big), try_avg(dec), try_sum(d) FROM events",
    "SELECT var_pop(num), var_samp(d), stddev(d), stddev_pop(f), covar_pop(d, f), covar_samp(d, num), corr(d, f) "
    "FROM events",
    "SELECT first(s), first(s) IGNORE NULLS, last(num), any_value(day), max_by(s, num), min_by(d, ts) FROM events",
    "SELECT bool_and(flag), bool_or(flag), every(flag), bit_and(num), bit_or(tiny), bit_xor(big), count_if(flag) "
    "FROM events",
    "SELECT grp, sum(num) FILTER (WHERE s = 'a'), count(*) FILTER (WHERE num > 0 AND flag) FROM events GROUP BY grp",
    "SELECT grp, count(DISTINCT s), sum(num) FROM events GROUP BY grp",
    "SELECT count(DISTINCT s, num), avg(num), count(DISTINCT num, s) FROM events",
    "SELECT sum(DISTINCT num), avg(DISTINCT num), max(DISTINCT num) FROM events",
    "SELECT d, f, count(*) FROM events GROUP BY d, f",
    "SELECT sum(num), sum(num) AS again, sum(num) * 2 FROM events",
    "SELECT sum(interval '1' hour * num), avg(interval '1' hour * num) FROM events",
    "SELECT max(ts), max(ntz), max(day), max(bin), max(flag), max(dec), max(wide) FROM events",
    "SELECT day, date_trunc('hour', ts) AS h, year(day) AS y FROM events GROUP BY day, date_trunc('hour', ts), "
    "year(day)",
    "SELECT count(*) FROM (SELECT grp FROM events GROUP BY grp)",
    "SELECT s, grouping(s), grouping(flag), grouping_id(), sum(num) FROM events GROUP BY CUBE(s, flag)",
    "SELECT num & 1, max(num) & 3 FROM events GROUP BY num & 1",
    "SELECT percentile(num, 0.5), median(d), collect_list(s), skewness(d), mode(s) FROM events",
    "SELECT approx_count_distinct(s), max_by(s, num, 3), max(struct(num, s)), first(array(num)) FROM events",
    "SELECT max(null), sum(interval '1' month * num) FROM events",
    "SELECT s COLLATE UTF8_LCASE AS k, count(*) FROM events GROUP BY s COLLATE UTF8_LCASE",
    "SELECT grp, sum(num), reverse(max(s)) FROM events GROUP BY grp",
]


def record(spark: Any, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        spark.read.parquet(str(write_files(events(100), Path(scratch)))).createOrReplaceTempView("events")
        entries = []
        for sql in QUERIES:
            frame = analysed(spark, sql)
            if frame is None:
                continue
            root = CatalystPlan.of(spark._jvm, frame._jdf).root
            entries.append({"sql": sql, "node": dump(next(node for node in root.walk() if node.name == "Aggregate"))})
        (folder / "aggregates.json").write_text(stable_text(entries))


def dump(node: Node) -> dict[str, Any]:
    """An aggregate without what is below it."""
    return {"name": node.name, "path": node.path, "fields": {key: _value(value) for key, value in node.fields.items()}}


def _value(value: Any) -> Any:
    if isinstance(value, Node):
        return {**dump(value), "children": [_value(child) for child in value.children]}
    return [_value(item) for item in value] if isinstance(value, tuple | list) else value


def load(entry: Any) -> Any:
    """The inverse of `dump`."""
    if isinstance(entry, list):
        items = [load(item) for item in entry]
        return tuple(items) if items and all(isinstance(item, Node) for item in items) else items
    if isinstance(entry, dict) and {"name", "path", "fields"} <= set(entry):
        fields = {key: load(value) for key, value in entry["fields"].items()}
        return Node(entry["name"], fields, tuple(map(load, entry.get("children", ()))), link_of(entry["path"]))
    return entry
