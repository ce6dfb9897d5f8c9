"""`tests/queries/*.sql`: each query on plain Spark and on sundog, on driver and executors; same rows, same types.

A file holds queries separated by `;`, each with a header that says what must happen, so that silence cannot pass:

    -- expect: accelerated            sundog takes the query or a part of it
    -- expect: fallback CODE          it does not, and this reason code is among those given
    -- 3.5: fallback CODE             so on this Spark instead: `upper` is computed from 4.0 on
    -- before 4.3: raises             this Spark cannot answer it, and so it is with sundog
    -- ordered: yes                   compare row by row in order (default: as multisets)
    -- tolerance: 1e-12               relative, for sums of floats, whose order Spark does not fix either

On executors `make test` runs the first query of a file with each set of `STAGE_WORDS`, `make test-matrix` every one:
these words decide which stages a query has, while the expressions in it are evaluated by the same code in both
placements.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import sundog
from sundog.versions import VERSIONS, spark_version
from tests.costs import costs
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark
from tests.oracle.tables import events, write_files

pytestmark = pytest.mark.spark
FOLDER = Path(__file__).parent.parent / "queries"
DAYS = "DATE'2024-01-02', DATE'2024-02-10', DATE'2024-02-17'"  # of the partitioned table: 63 folders; all make 932
STAGE_WORDS = (
    *("GROUP BY", "DISTINCT", "FILTER", "HAVING", "ROLLUP", "CUBE", "GROUPING SETS", "ORDER BY", "LIMIT", "OFFSET"),
    *("OVER", "PARTITION BY", "RANGE", "ROWS", "UNION", "INTERSECT", "EXCEPT", "(SELECT", "parted", "nothing"),
    *("JOIN", "LEFT", "RIGHT", "FULL", "CROSS", " IN (SELECT", "NOT IN (SELECT", " EXISTS", "NOT EXISTS"),
)


@dataclass(frozen=True)
class Query:
    name: str
    sql: str
    expect: str
    ordered: bool
    tolerance: float

    @property
    def stages(self) -> tuple[str, str, tuple[str, ...]]:
        """The same for queries of one file that differ in their expressions only."""
        return self.name.partition("-")[0], self.expect, tuple(word for word in STAGE_WORDS if word in self.sql)


_OF_OLDER = [f"before {name}" for name in list(VERSIONS)[list(VERSIONS).index(spark_version().name) + 1 :]]
"""Headers that are about the Spark of this environment, as it is older."""


def load(path: Path) -> list[Query]:
    queries = []
    for number, text in enumerate(part for part in path.read_text().split(";") if part.strip()):
        headers = dict(re.findall(r"--\s*([\w. ]+?):\s*(.+)", text))
        if "expect" not in headers:
            raise ValueError(f"{path.name} query {number} does not say what to expect")
        sql = re.sub(r"--.*", "", text).strip()
        ordered = headers.get("ordered", "no").strip() == "yes"
        tolerance = float(headers.get("tolerance", "0"))
        of_versions = (headers.get(name) for name in (spark_version().name, *_OF_OLDER))
        expect = next((text for text in of_versions if text), headers["expect"]).strip()
        queries.append(Query(f"{path.stem}-{number}", sql, expect, ordered, tolerance))
    return queries


QUERIES = [query for path in sorted(FOLDER.glob("*.sql")) for query in load(path)]
FIRST_OF_STAGES = {query.stages: query for query in reversed(QUERIES)}
PLACED = [
    pytest.param(query, placement, id=f"{query.name}-{placement}", marks=marks)
    for query in QUERIES
    for placement in ("driver", "executors")
    for marks in ([pytest.mark.matrix] if placement == "executors" and FIRST_OF_STAGES[query.stages] != query else [],)
]


@pytest.fixture(scope="module")
def tables(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tables")
    enabled.read.parquet(str(write_files(events(), folder / "events"))).createOrReplaceTempView("events")
    empty = write_files(events().slice(0, 0), folder / "empty", files=1)
    enabled.read.parquet(str(empty)).createOrReplaceTempView("nothing")
    few = enabled.table("events").where(f"day IS NULL OR day IN ({DAYS})")
    few.write.partitionBy("small", "day").parquet(str(folder / "parted"))
    enabled.read.parquet(str(folder / "parted")).createOrReplaceTempView("parted")
    with costs(enabled, task_bytes=4096):  # so that two thousand rows are worth several tasks
        yield enabled


@pytest.fixture(scope="module")
def spark_answers(tables: Any) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize(("query", "placement"), PLACED)
def test_same_answer_as_spark(tables: Any, spark_answers: dict[str, Any], query: Query, placement: str) -> None:
    if query.expect == "raises":
        with pytest.raises((PySparkException, Py4JError)) as theirs, plain_spark(tables):
            tables.sql(query.sql).toArrow()
        with pytest.raises(type(theirs.value)):
            tables.sql(query.sql).toArrow()
        return
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
