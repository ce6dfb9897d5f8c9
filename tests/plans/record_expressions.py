"""Records Catalyst's JSON of single expressions, so that `front/expressions/translate.py` is tested without a JVM.

`tests/plans/record.py` runs it.

Each group becomes `<version>/expr_<group>.json`: a list of {"sql", "nodes"}, where `nodes` is the optimised
expression's JSON with the fields that the JSON leaves out filled in by `front/jvm/expression_details.py`. The expected
translation is in `expr_<group>.txt`, which `tests/front/test_expressions.py` compares (and writes with
SUNDOG_UPDATE_GOLDEN=1).
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.plans.analysed import analysed, stable_text

from sundog.front.catalyst_json import Node, parse_plan
from sundog.front.jvm.expression_details import complete, read_details
from sundog.types import TIMESTAMP, TIMESTAMP_NTZ
from sundog.versions import spark_version

SCHEMA = pa.schema(
    {
        "b": pa.int8(),
        "sh": pa.int16(),
        "i": pa.int32(),
        "l": pa.int64(),
        "f": pa.float32(),
        "d": pa.float64(),
        "dc": pa.decimal128(5, 2),
        "dd": pa.decimal128(38, 10),
        "s": pa.string(),
        "bi": pa.binary(),
        "da": pa.date32(),
        "ts": TIMESTAMP,
        "tn": TIMESTAMP_NTZ,
        "bo": pa.bool_(),
        "arr": pa.list_(pa.int32()),
    }
)
ELEVEN = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"

GROUPS: dict[str, list[str]] = {
    "literals": [
        "1Y", "2S", "3", "-4L", "cast(1.5 as float)", "float('NaN')", "cast(1e-40 as float)", "2.5d", "double('NaN')",
        "-double('Infinity')", "cast('-0.0' as double)", "1.23BD", "1e-10BD", "cast(1 as decimal(38,10))",
        "cast(-12345678901234567890123456789.1 as decimal(38,9))", "'a\"b\\n\u00e9\U0001f600'", "''", "'null'",
        "X'01FF'",
        "X''", "date'2020-02-29'", "date'0001-01-01'", "date'12345-01-02'", "date_sub(date'0001-01-01', 400)",
        "timestamp'2020-01-01 00:00:00.123456'", "timestamp'0001-01-01 00:00:00'", "timestamp'12345-01-02 03:04:05.5'",
        "timestamp_ntz'9999-12-31 23:59:59.999999'", "interval '1 2:3:4.5' day to second", "interval 3 hours", "null",
        "cast(null as int)", "cast(null as decimal(3,1))", "true", "false",
    ],
    "comparison": [
        "i = 1", "s <=> 'a'", "l < 2", "d <= 0", "dc > 1.5", "da >= date'2020-01-01'", "bo = true", "s <> 'a'", "i < l",
        "i > sh", "ts > da", "f = d", "i = '3'", "not bo", "bo and i > 1", "bo or i is null", "s is not null",
        "isnan(d)", "i in (1, 2, null)", f"i in ({ELEVEN}, null)", "s in ('a', 'b')",
        "s in ('a','b','c','d','e','f','g','h','i','j','null',null)", f"dc in ({ELEVEN})",
        f"d in ({ELEVEN}, double('nan'))", "da in (date'2020-01-01', date'2020-01-02')", "bo in (true, false)",
        "i between 1 and 3", "ts in (timestamp'2020-01-01 00:00:00', timestamp'2020-01-02 00:00:00')",
    ],
    "arithmetic": [
        "i + 1", "l - 1", "b * b", "d / 2", "l / i", "l div 2", "i % 3", "try_add(i, 1)", "try_divide(l, 2)",
        "try_mod(l, 2)", "try_subtract(dc, dc)", "-i", "abs(l)", "-dc", "dc + dc", "dc * dd", "dc / dc", "dc % dc",
        "dc div 2", "dd div dd", "dd % cast(0.1 as decimal(38,38))", "f + d", "i + dc", "d % 0.5", "abs(d)",
        "positive(i)", "-dd", "abs(dd)",
        "power(d, 2)", "power(i, 2)", "power(d, 3)", "power(d, d)",
    ],
    "casts": [
        "cast(i as bigint)", "cast(l as int)", "try_cast(l as tinyint)", "cast(i as double)", "cast(d as int)",
        "cast(d as float)", "cast(dc as int)", "cast(dc + dc as int)", "cast(cast(dc as decimal(17,2)) * 1 as int)",
        "cast(i as decimal(10,2))", "cast(dd as decimal(10,2))", "cast(dc as double)", "cast(dc as float)",
        "cast(d as decimal(10,2))", "cast(l as string)", "cast(d as string)", "cast(dc as string)",
        "cast(da as string)",
        "cast(ts as string)", "cast(s as int)", "cast(s as double)", "cast(s as date)", "cast(s as boolean)",
        "cast(s as binary)", "cast(bi as string)", "cast(ts as date)", "cast(da as timestamp)", "cast(tn as timestamp)",
        "cast(ts as timestamp_ntz)", "cast(ts as bigint)", "cast(l as timestamp)", "cast(i as boolean)",
        "cast(bo as int)",
    ],
    "rounding": [
        "round(dc, 1)", "round(dc, 3)", "round(dc)", "round(dd, 2)", "round(dc, -2)", "round(dd, -3)", "round(dd, -38)",
        "round(i, -1)", "round(l, 2)", "round(b)", "round(d, 2)", "round(d)", "round(d, -3)", "round(d, 23)",
        "round(f, 1)", "round(dc, null)", "bround(dc, 1)", "cast(d as decimal(11,6))", "cast(f as decimal(5,2))",
        "try_cast(d as decimal(14,0))", "cast(d as decimal(15,6))", "cast(d as decimal(38,6))",
    ],
    "choices": [
        "if(i > 1, 2, 3)", "case when i > 1 then 'a' end", "case i when 1 then s when 2 then 'b' else 'c' end",
        "coalesce(s, 'a')", "nvl(i, 1)", "nullif(i, 1)", "ifnull(d, 1)", "greatest(i, 2)",
    ],
    "strings": [
        "s like 'a_c'", "s like 'a%'", "s like '%a'", "s like '%a%'", "s like 'a%c'", "s like 'abc'",
        "s like 'a#_c' escape '#'", "s ilike 'a_c'", "s rlike 'a'", "s like s", "contains(s, s)", "startswith(s, 'a')",
        "endswith(bi, X'01')", "length(s)", "length(bi)", "upper(s)", "lower(s)", "substring(s, 2, 3)",
        "substring(s, i, 3)", "left(s, 2)", "right(s, 2)", "substring(bi, 1, 2)", "concat(s, 'x', s)", "s || 'y'",
        "concat(bi, bi)", "trim(s)", "concat(arr, arr)", "s rlike '(?i)a'", "regexp_like(s, '^a+$')",
        "regexp_replace(s, '([^/]+)/.*$', '<$1>')", "regexp_replace(s, 'a*', '')", "regexp_replace(s, 'a', '', 2)",
        "regexp_replace(s, s, '')", "regexp_extract(s, '(a)(b)?', 2)", "regexp_extract(s, 'a', 1)",
    ],
    "temporal": [
        "year(da)", "year(ts)", "quarter(da)", "month(da)", "day(da)", "dayofweek(da)", "weekday(da)", "dayofyear(da)",
        "weekofyear(da)", "extract(yearofweek from da)", "hour(ts)", "minute(tn)", "second(ts)",
        "extract(second from ts)", "date_trunc('hour', ts)", "date_trunc('HOUR', tn)", "date_trunc('eon', ts)",
        "trunc(da, 'month')", "trunc(ts, 'mon')", "trunc(da, s)", "date_add(da, 1)", "date_sub(da, i)", "da + 1",
        "datediff(da, date'2020-01-01')", "da - da", "ts - ts", "ts + interval 1 day", "tn - interval 90 minutes",
        "ts + interval 1 month", "da + interval 1 month",
    ],
    "declined": [
        "rand()", "uuid()", "monotonically_increasing_id()", "input_file_name()", "arr", "arr[0]", "size(arr)",
        "s collate UTF8_LCASE = 'a'", "rand() > 0.5 and s rlike '(?i)a' and i > 1", "named_struct('a', i)", "sqrt(d)",
        "(select max(i) from t)", "interval 1 month * i",
    ],
}  # fmt: skip


def record(spark: Any, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        pq.write_table(SCHEMA.empty_table(), f"{scratch}/t.parquet")
        spark.read.parquet(scratch).createOrReplaceTempView("t")
        for group, sqls in GROUPS.items():
            frames = {sql: analysed(spark, f"select {sql} as x, i as unused from t") for sql in sqls}
            entries = [
                {"sql": sql, "nodes": _nodes(spark, frame)} for sql, frame in frames.items() if frame is not None
            ]
            (folder / f"expr_{group}.json").write_text(stable_text(entries))


def _nodes(spark: Any, frame: Any) -> list[dict[str, Any]]:
    """The expression's nodes in pre-order, as `toJSON` writes them, completed."""
    jplan = frame._jdf.queryExecution().optimizedPlan()
    root = parse_plan(jplan.toJSON(), spark_version().plan_names)
    complete(root, read_details(spark._jvm, jplan))
    nodes: list[dict[str, Any]] = json.loads(jplan.projectList().apply(0).toJSON())
    for raw, node in zip(nodes, root["projectList"][0].walk(), strict=True):
        raw.update((key, value) for key, value in node.fields.items() if not isinstance(value, Node | tuple))
    return nodes
