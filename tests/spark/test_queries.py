"""`tests/queries/*.sql`: each query on plain Spark and on sundog, on driver and executors; same rows, same types.

A file holds queries separated by `;`, each with a header that says what must happen, so that silence cannot pass:

    -- expect: accelerated            sundog takes the query or a part of it
    -- expect: fallback CODE          it does not, and this reason code is among those given
    -- ordered: yes                   compare row by row in order (default: as multisets)
    -- tolerance: 1e-12               relative, for sums of floats, whose order Spark does not fix either
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sundog
from tests.costs import costs
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark
from tests.oracle.tables import events, write_files

pytestmark = pytest.mark.spark
FOLDER = Path(__file__).parent.parent / "queries"


@dataclass(frozen=True)
class Query:
    name: str
    sql: str
    expect: str
    ordered: bool
    tolerance: float


def load(path: Path) -> list[Query]:
    queries = []
    for number, text in enumerate(part for part in path.read_text().split(";") if part.strip()):
        headers = dict(re.findall(r"--\s*(\w+):\s*(.+)", text))
        if "expect" not in headers:
            raise ValueError(f"{path.name} query {number} does not say what to expect")
        sql = re.sub(r"--.*", "", text).strip()
        ordered = headers.get("ordered", "no").strip() == "yes"
        tolerance = float(headers.get("tolerance", "0"))
        queries.append(Query(f"{path.stem}-{number}", sql, headers["expect"].strip(), ordered, tolerance))
    return queries


QUERIES = [query for path in sorted(FOLDER.glob("*.sql")) for query in load(path)]


@pytest.fixture(scope="module")
def tables(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tables")
    enabled.read.parquet(str(write_files(events(), folder / "events"))).createOrReplaceTempView("events")
    empty = write_files(events().slice(0, 0), folder / "empty", files=1)
    enabled.read.parquet(str(empty)).createOrReplaceTempView("nothing")
    enabled.table("events").write.partitionBy("small", "day").parquet(str(folder / "parted"))
    enabled.read.parquet(str(folder / "parted")).createOrReplaceTempView("parted")
    with costs(enabled, task_bytes=4096):  # so that two thousand rows are worth several tasks
        yield enabled


@pytest.fixture(scope="module")
def spark_answers(tables: Any) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize("placement", ["driver", "executors"])
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_same_answer_as_spark(tables: Any, spark_answers: dict[str, Any], query: Query, placement: str) -> None:
    if query.name not in spark_answers:
        with plain_spark(tables):
            spark_answers[query.name] = tables.sql(query.sql).toArrow()
    tables.conf.set("spark.sundog.placement", placement)
    ours = tables.sql(query.sql).toArrow()
    run = sundog.last_run()
    if query.expect == "accelerated":
        assert run.accelerated, run.fallback_reasons
        over_rows_of_spark = "SparkInput" in run.plan
        assert run.placement == ("executors" if over_rows_of_spark else placement)
        assert not any(reason.startswith("EXECUTION") for reason in run.fallback_reasons), run.fallback_reasons
    else:
        code = query.expect.removeprefix("fallback ").strip()
        assert not run.accelerated
        assert any(reason.startswith(code + ":") for reason in run.fallback_reasons), run.fallback_reasons
    assert_same(ours, spark_answers[query.name], query.ordered, query.tolerance)
