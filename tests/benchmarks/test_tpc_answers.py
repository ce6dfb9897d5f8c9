"""sundog's answers to the queries of TPC-H are Spark's, and it takes no less of them than before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sundog.benchmarks.cases.model import DataRef
from sundog.benchmarks.cases.tpc import CASES
from sundog.benchmarks.check import check_cases
from sundog.benchmarks.results import Taken
from tests.benchmarks.record_taken import GOLDEN, TAKEN_ORDER, read_golden


@pytest.mark.spark
@pytest.mark.long
def test_answers_are_sparks_and_no_less_is_taken_than_before(spark: Any, tpc_folders: dict[DataRef, Path]) -> None:
    """TPC-H's queries in both placements. All of TPC-DS would take longer than the rest of the tests together.

    `python -m tests.benchmarks.record_taken` runs everything in both placements and writes down what is taken now.
    """
    before = read_golden(GOLDEN)
    checked = list(check_cases(spark, [case for case in CASES if case.group == "tpch"], tpc_folders))
    assert [one for one in checked if one.difference] == []
    taken = {(one.case, one.placement): one.taken for one in checked}
    less = [
        f"{case} on {placement}: {now.value}, was {before[case, placement].value}"
        for (case, placement), now in taken.items()
        if TAKEN_ORDER.index(now) < TAKEN_ORDER.index(before[case, placement])
    ]
    assert less == []


def test_the_golden_file_names_every_query() -> None:
    golden = read_golden(GOLDEN)
    assert {case for case, _ in golden} == {case.name for case in CASES}
    assert set(golden.values()) <= set(Taken)
