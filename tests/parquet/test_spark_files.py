"""Files that Spark itself wrote, searched by sundog and sorted by Spark: the same rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from sundog.expr.nodes import Column, Compare, CompareOp, Literal
from sundog.expr.ordering import SortKey
from sundog.expr.ranks import NAN_RANK, float_rank
from sundog.types import TIMESTAMP, TIMESTAMP_NTZ
from tests.operators.reference import same_rows
from tests.operators.test_topk_scan import run
from tests.parquet.files import footer_of, relation, statistics_of

pytestmark = [pytest.mark.spark, pytest.mark.thin(3)]

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("b", pa.bool_()),
        ("i8", pa.int8()),
        ("i32", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("d9", pa.decimal128(9, 2)),
        ("d18", pa.decimal128(18, 3)),
        ("d38", pa.decimal128(38, 5)),
        ("s", pa.string()),
        ("bin", pa.binary()),
        ("day", pa.date32()),
        ("t", TIMESTAMP),
        ("tn", TIMESTAMP_NTZ),
    ]
)
QUERY = """
    SELECT id,
           CASE WHEN id % 11 = 0 THEN NULL ELSE id % 3 = 0 END AS b,
           CAST(id * 37 % 251 - 125 AS TINYINT) AS i8,
           CASE WHEN id % 17 = 0 THEN NULL ELSE CAST(id * 7919 % 100003 AS INT) END AS i32,
           CAST(CASE WHEN id % 97 = 0 THEN 'NaN' WHEN id % 5 = 0 THEN '-0.0' WHEN id % 7 = 0 THEN '0'
                     ELSE CAST(id * 31 % 1009 - 500 AS STRING) END AS FLOAT) AS f,
           CASE WHEN id < 1000 AND id % 101 = 0 THEN double('NaN') ELSE double(id * 13 % 4001) / 3 END AS d,
           CAST(id * 7 % 9973 - 5000 AS DECIMAL(9, 2)) AS d9,
           CAST(id * 7 % 9973 - 5000 AS DECIMAL(18, 3)) AS d18,
           CASE WHEN id % 13 = 0 THEN NULL
                ELSE CAST(concat(CAST(id * 7 % 9973 - 5000 AS STRING), repeat('7', 20), '.25') AS DECIMAL(38, 5))
           END AS d38,
           CASE WHEN id % 19 = 0 THEN NULL
                ELSE concat(repeat('x', CAST(id % 3 AS INT)), char(200 + CAST(id % 50 AS INT)),
                            CAST(id * 7 % 999 AS STRING))
           END AS s,
           CAST(CAST(id * 7 % 999 AS STRING) AS BINARY) AS bin,
           date_add(DATE '1970-01-01', CAST(id * 7919 % 40000 - 20000 AS INT)) AS day,
           timestamp_micros(id * 104729 % 1000003 * 1000000) AS t,
           CAST(timestamp_micros(id * 104729 % 1000003 * 1000000) AS TIMESTAMP_NTZ) AS tn
    FROM range(0, 6000, 1, 2)
"""


@pytest.fixture(scope="module", params=["INT96", "TIMESTAMP_MICROS"])
def stored(request, spark, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("spark") / "t")
    spark.conf.set("spark.sql.parquet.outputTimestampType", request.param)
    try:
        writer = spark.sql(QUERY).write.option("parquet.block.size", 20_000).option("parquet.page.size", 2_000)
        writer.option("parquet.page.row.count.limit", 100).mode("overwrite").parquet(folder)
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    return folder


def files_of(folder):
    return relation(sorted(Path(folder).glob("*.parquet")), SCHEMA)


def from_spark(spark, folder, order, where="true"):
    table = spark.read.parquet(folder).where(where).orderBy(*order).limit(40).toArrow()
    return pa.Table.from_arrays(
        [column.combine_chunks().cast(field.type) for column, field in zip(table.columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    ).to_batches()[0]


def key(name, text):
    return SortKey(Column(name, SCHEMA.field(name).type), "desc" in text, "nulls_first" in text)


@pytest.mark.parametrize("direction", ["asc_nulls_first", "desc_nulls_last", "asc_nulls_last", "desc_nulls_first"])
def test_every_type_in_every_direction(spark, stored, direction):
    from pyspark.sql import functions as f

    files = files_of(stored)
    is_int96 = footer_of(Path(files.files[0].path)).leaf(SCHEMA.names.index("t")).physical_type == "INT96"
    for name in ["t"] if is_int96 else SCHEMA.names[1:]:
        expected = from_spark(spark, stored, [getattr(f.col(name), direction)(), f.col("id").asc()])
        order = [key(name, direction), key("id", "asc_nulls_first")]
        found = run(files, SCHEMA.names, order, 40, threads=2)
        assert same_rows(found.batch, expected), name


def test_where_on_another_column(spark, stored):
    from pyspark.sql import functions as f

    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    try:
        expected = from_spark(spark, stored, [f.col("d").desc_nulls_last(), f.col("id").asc()], "f > 100")
    finally:
        spark.conf.unset("spark.sql.parquet.filterPushdown")
    above = Compare(CompareOp.GT, Column("f", pa.float32()), Literal(100.0, pa.float32()))
    order = [key("d", "desc"), key("id", "asc_nulls_first")]
    found = run(files_of(stored), SCHEMA.names, order, 40, predicate=above, tasks=2)
    assert same_rows(found.batch, expected)


def test_spark_puts_nan_into_max_so_doubles_prune(spark, stored):
    files = files_of(stored)
    statistics = statistics_of(replace(files, files=files.files[1:2]))
    assert len(statistics) > 1
    bounds = statistics.column("d")
    assert all(high is not None and high < float_rank(float("inf")) for high in bounds.high)
    assert NAN_RANK in statistics.column("f").high
