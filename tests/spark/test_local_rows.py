"""Rows that are part of the plan as an input: VALUES, small local data, branches that Catalyst found to be empty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sundog
from sundog.front.jvm.plan import LOCAL_ROWS_IN_JSON
from sundog.front.relation.local_rows import read_local_rows
from sundog.versions import spark_version
from tests.oracle.batches import ALL_TYPES, record_batches
from tests.oracle.compare import assert_same
from tests.oracle.tables import events, write_files
from tests.spark.against_spark import check

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tables(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("local_rows")
    enabled.read.parquet(str(write_files(events(), folder))).createOrReplaceTempView("local_events")
    yield enabled
    enabled.catalog.dropTempView("local_events")


NAMES = "(VALUES (1, 'one'), (2, 'two'), (3, CAST(NULL AS STRING)), (CAST(NULL AS INT), 'none')) AS n(k, name)"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT name, count(*) c, sum(num) s FROM local_events JOIN {NAMES} ON grp = k GROUP BY name",
        f"SELECT name, count(id) c FROM {NAMES} LEFT JOIN local_events ON grp = k GROUP BY name",
        f"SELECT grp, count(*) c FROM local_events LEFT JOIN {NAMES} ON grp = k WHERE name IS NULL GROUP BY grp",
        f"SELECT grp, count(*) c FROM local_events WHERE grp NOT IN (SELECT k FROM {NAMES} WHERE k > 1) GROUP BY grp",
        f"SELECT grp, name, count(*) c FROM local_events FULL JOIN {NAMES} ON grp = k GROUP BY grp, name",
        f"SELECT grp, count(*) c FROM local_events CROSS JOIN {NAMES} GROUP BY grp",
        f"SELECT grp, count(*) c FROM local_events CROSS JOIN {NAMES} CROSS JOIN {NAMES.replace('n(k', 'm(k')} "
        "GROUP BY grp",
        f"SELECT grp, count(k) c FROM local_events FULL JOIN (SELECT k FROM {NAMES} WHERE k > 9) ON grp = k "
        "GROUP BY grp",
        f"SELECT k, count(*) c FROM (SELECT grp k FROM local_events UNION ALL SELECT k FROM {NAMES}) GROUP BY k",
        "SELECT grp, count(*) c FROM local_events GROUP BY grp UNION ALL SELECT -1, 10",
        f"SELECT grp, r, name FROM (SELECT grp, id, rank() OVER (PARTITION BY grp ORDER BY id) r "
        f"FROM local_events) JOIN {NAMES} ON r = k",
    ],
)  # fmt: skip
def test_local_rows_beside_a_table(tables: Any, query: str) -> None:
    check(tables, query)
    tables.sql(query).collect()
    assert sundog.last_run().whole, sundog.last_run().fallback_reasons


def test_values_below_a_topk_and_a_window(tables: Any) -> None:
    joined = f"SELECT id, num, name FROM local_events JOIN {NAMES} ON grp = k"
    check(tables, f"{joined} ORDER BY num DESC, id LIMIT 7", ordered=True)
    check(tables, f"SELECT id, sum(num) OVER (ORDER BY id) s, name FROM ({joined})")


def test_nothing_but_local_rows_stays_on_spark(tables: Any) -> None:
    check(tables, f"SELECT name, count(*) FROM {NAMES} GROUP BY name", accelerated=False)
    assert "SOURCE" in sundog.last_run().fallback_reason


def test_long_collections_stay_on_spark(tables: Any) -> None:
    rows = ", ".join(f"({number})" for number in range(LOCAL_ROWS_IN_JSON + 1))
    check(
        tables,
        f"SELECT k, count(*) FROM local_events JOIN (VALUES {rows}) AS n(k) ON grp = k GROUP BY k",
        accelerated=False,
    )


def test_columns_of_other_types_are_left_out(tables: Any) -> None:
    rows = "(VALUES (1, array(1, 2), 'a'), (2, NULL, 'b')) AS n(k, list, name)"
    check(tables, f"SELECT name, count(*) FROM local_events JOIN {rows} ON grp = k GROUP BY name")
    check(tables, f"SELECT list[0] x, count(*) FROM local_events JOIN {rows} ON grp = k GROUP BY 1", accelerated=None)


@pytest.mark.skipif(spark_version().name == "3.5", reason="makes no DataFrame of an Arrow table")
@settings(max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_values_are_those_of_spark(spark: Any, data: st.DataObject) -> None:
    """Of every type, through Catalyst's own rows."""
    dtypes = data.draw(st.lists(st.sampled_from(ALL_TYPES), min_size=1, max_size=70))
    schema = pa.schema([(f"c{at}", dtype) for at, dtype in enumerate(dtypes)])
    table = pa.Table.from_batches([data.draw(record_batches(schema, max_size=4))])
    frame = spark.createDataFrame(table)
    jplan = frame._jdf.queryExecution().optimizedPlan()
    assert jplan.getClass().getSimpleName() == "LocalRelation"
    rows = read_local_rows(spark._jvm, jplan)
    assert isinstance(rows, pa.RecordBatch)
    assert_same(pa.table(rows.columns, table.column_names), frame.toArrow(), ordered=True)
