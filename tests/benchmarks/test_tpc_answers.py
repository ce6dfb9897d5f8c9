"""sundog's answers to the queries of TPC-H are Spark's, and it takes no less of them and of TPC-DS than before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sundog.benchmarks.cases.model import DataRef
from sundog.benchmarks.cases.tpc import CASES
from sundog.benchmarks.check import PLACEMENTS, check_cases
from sundog.benchmarks.data.tpc import TPCDS
from sundog.benchmarks.results import Taken
from sundog.config import Settings
from sundog.front.session.session_conf import SessionConf
from sundog.query import plan_frame
from sundog.run import Run
from tests.benchmarks.record_taken import GOLDEN, TAKEN_ORDER, read_golden

# An aggregate, a chain of joins with a top-k, and each kind of join: outer, anti, semi, both with a condition.
ON_EXECUTORS = ("tpch/q01", "tpch/q03", "tpch/q13", "tpch/q16", "tpch/q18", "tpch/q21")


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(("placement", "names"), [("driver", None), ("executors", ON_EXECUTORS)], ids=PLACEMENTS)
def test_answers_are_sparks_and_no_less_is_taken_than_before(
    spark: Any, tpc_folders: dict[DataRef, Path], placement: str, names: tuple[str, ...] | None
) -> None:
    """TPC-H's queries, some of them on executors. All of TPC-DS would take longer than the rest of the tests together.

    `python -m tests.benchmarks.record_taken` runs everything in both placements and writes down what is taken now.
    """
    before = read_golden(GOLDEN)
    cases = [case for case in CASES if case.group == "tpch" and (names is None or case.name in names)]
    checked = list(check_cases(spark, cases, tpc_folders, [placement]))
    assert len(checked) == len(names or cases)
    assert [one for one in checked if one.difference] == []
    taken = {(one.case, one.placement): one.taken for one in checked}
    less = [
        f"{case} on {placement}: {now.value}, was {before[case, placement].value}"
        for (case, placement), now in taken.items()
        if TAKEN_ORDER.index(now) < TAKEN_ORDER.index(before[case, placement])
    ]
    assert less == []


@pytest.mark.spark
def test_no_less_of_tpcds_is_planned_than_before(spark: Any, tpc_folders: dict[DataRef, Path]) -> None:
    """Planned only, which takes a fraction of a second for a query. q12 and q90 divide by zero on so few rows, so that
    Spark has them in the record."""
    before, conf = read_golden(GOLDEN), SessionConf.of(spark)
    cases = [case for case in CASES if case.group == "tpcds"]
    for name, folder in TPCDS.folders(tpc_folders[DataRef(TPCDS.name)]).items():
        spark.read.parquet(str(folder)).createOrReplaceTempView(name)
    less = []
    for case in cases:
        run = Run()
        planned = plan_frame(spark.sql(case.sql), run, conf, Settings(), collected=True)
        now = Taken.of(planned is not None, planned is not None and planned.leaves_nothing)
        if TAKEN_ORDER.index(now) < TAKEN_ORDER.index(before[case.name, "driver"]):
            less.append(f"{case.name}: {now.value}, was {before[case.name, 'driver'].value}: {run.fallback_reason}")
    assert len(cases) == 103
    assert less == []


def test_the_golden_file_names_every_query() -> None:
    golden = read_golden(GOLDEN)
    assert {case for case, _ in golden} == {case.name for case in CASES}
    assert set(golden.values()) <= set(Taken)
