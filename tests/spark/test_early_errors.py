"""Errors are raised for the rows for which Spark evaluates an expression, which are not always the obvious ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.spark.against_spark import Raised, check

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """x is 0 where n is NULL."""
    folder = Path(tmp_path_factory.mktemp("zeros"))
    columns = {"id": [1, 2, 3, 4], "n": [None, 20, 30, None], "x": [0, 1, 2, 0], "b": [1, 1, 1, 1]}
    pq.write_table(
        pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}), folder / "a.parquet"
    )
    enabled.read.parquet(str(folder)).createOrReplaceTempView("zeros")
    return enabled


@pytest.mark.parametrize(
    ("query", "raises"),
    [
        ("SELECT id FROM zeros WHERE 1 / x > 0 AND n > 10 ORDER BY id LIMIT 3", True),
        ("SELECT count(*) FROM zeros WHERE 1 / x > 0 AND n > 10", True),
        ("SELECT count(*) FROM zeros WHERE n > 10 AND 1 / x > 0", False),
        ("SELECT id FROM zeros WHERE n > 10 AND 1 / x > 0 ORDER BY id LIMIT 3", False),
        ("SELECT count(*) FROM zeros WHERE x <> 0 AND (n IS NULL OR 1 / x > 0) AND 1 / x < 100", False),
        ("SELECT id, x <> 0 AND 1 / x > 0.1 a, x <> 0 AND 1 / x > 0.2 b FROM zeros ORDER BY id LIMIT 3", True),
        ("SELECT id, x <> 0 AND 1 / x > 0.1 a FROM zeros ORDER BY id LIMIT 3", False),
        ("SELECT id, n + 10 div x a, n * (10 div x) b FROM zeros ORDER BY id LIMIT 3", True),
        ("SELECT id, n + 10 div x a FROM zeros ORDER BY id LIMIT 3", False),
        (
            "SELECT id, CASE WHEN x <> 0 THEN 1 / x END a, CASE WHEN x <> 0 THEN 1 / x + 1 END b FROM zeros LIMIT 3",
            False,
        ),
        (
            "SELECT id, if(x <> 0 AND 1 / x > 1, 1, 2) a, if(x <> 0 AND 1 / x > 1, 3, 4) b FROM zeros ORDER BY id "
            "LIMIT 9",
            False,
        ),
        ("SELECT sum(1 / x) FILTER (WHERE x <> 0) a, max(1 / x) FILTER (WHERE x <> 0) b FROM zeros", True),
        ("SELECT sum(1 / x) FILTER (WHERE x <> 0) a FROM zeros", False),
    ],
)
def test_errors_are_raised_where_spark_evaluates(session: Any, query: str, raises: bool) -> None:
    theirs = check(session, query, accelerated=None)
    assert isinstance(theirs, Raised) is raises
    assert raises or sundog.last_run().accelerated or "ORDER BY" not in query


def test_without_generated_code_a_filter_that_can_raise_is_spark_s(session: Any) -> None:
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        check(session, "SELECT count(*) FROM zeros WHERE 1 / x > 0 AND n > 10", accelerated=None)
        session.sql("SELECT count(*) FROM zeros WHERE n > 10 AND 1 / x > 0").collect()
        assert any(reason.startswith("CAN_RAISE") for reason in sundog.last_run().fallback_reasons)
    finally:
        session.conf.unset("spark.sql.codegen.wholeStage")
