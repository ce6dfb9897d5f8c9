from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from sundog.errors import InternalError
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.operators.context import TaskContext
from sundog.operators.topk.materialize import assemble, plan_fetch
from sundog.operators.topk.topk_plan import plan_topk
from sundog.operators.topk.topk_scan import TopKSearch
from sundog.parquet.prune.access_plan import plan_access
from sundog.plan.costs import DRIVER
from tests.parquet.files import cut, relation, write_file

LONG = pa.int64()
ROWS = 3000


@pytest.fixture
def files(tmp_path):
    scrambled = np.random.default_rng(3).permutation(ROWS)
    table = pa.table({"x": scrambled, "s": [f"s{n}" for n in scrambled], "d": scrambled / 2, "n": pa.nulls(ROWS, LONG)})
    parts = cut(table, 500)
    paths = [write_file(tmp_path / "a.parquet", parts[:2]), write_file(tmp_path / "b.parquet", parts[2:])]
    return relation(paths, table.schema, [("p", pa.string())], [("one",), ("two",)])


def searched(files, columns, k):
    plan = plan_topk(plan_access(files, columns, None), (SortKey(Column("x", LONG), True, False),), k)
    search = TopKSearch(plan, DRIVER)
    search.work(TaskContext())
    return plan, search.winners()


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("tasks", [1, 2, 5, 40])
@pytest.mark.parametrize("k", [1, 7, 2999])
def test_winners_get_their_columns_in_their_order(files, split, tasks, k):
    plan, winners = searched(files, ("s", "n", "x", "p", "d"), k)
    assert plan.late_columns == ("s", "n", "p", "d")
    fetches = pickle.loads(pickle.dumps(plan_fetch(plan, winners, tasks, split, DRIVER)))
    if not split:
        assert len({fetch.schema for fetch in fetches}) == 1
        assert len(fetches) <= tasks
    batch = assemble(plan, winners, [found for fetch in fetches for found in fetch.read(TaskContext())])
    expected = list(range(ROWS - 1, ROWS - 1 - k, -1))
    assert batch.schema.names == ["s", "n", "x", "p", "d"]
    assert batch.column("x").to_pylist() == expected
    assert batch.column("s").to_pylist() == [f"s{n}" for n in expected]
    assert batch.column("d").to_pylist() == [n / 2 for n in expected]
    assert batch.column("n").null_count == k
    assert set(batch.column("p").to_pylist()) <= {"one", "two"}


def test_a_slice_of_the_winners_is_enough(files):
    plan, winners = searched(files, ("s", "x"), 10)
    part = winners.slice(8, 2)
    fetches = plan_fetch(plan, part, 2, False, DRIVER)
    batch = assemble(plan, part, [found for fetch in fetches for found in fetch.read(TaskContext())])
    assert batch.column("s").to_pylist() == ["s2991", "s2990"]


def test_nothing_to_fetch(files):
    plan, winners = searched(files, ("x",), 3)
    assert plan_fetch(plan, winners, 2, True, DRIVER) == []
    assert assemble(plan, winners, []).column("x").to_pylist() == [2999, 2998, 2997]
    wide, _ = searched(files, ("x", "s"), 3)
    assert plan_fetch(wide, winners.slice(0, 0), 2, True, DRIVER) == []
    assert assemble(wide, winners.slice(0, 0), []).schema.names == ["x", "s"]


def test_a_lost_fetch_is_an_error_not_a_short_answer(files):
    plan, winners = searched(files, ("x", "s"), 100)
    found = [batch for fetch in plan_fetch(plan, winners, 4, False, DRIVER) for batch in fetch.read(TaskContext())]
    with pytest.raises(InternalError):
        assemble(plan, winners, found[1:])


def test_row_groups_materialized_are_counted(files):
    plan, winners = searched(files, ("x", "s"), 1)
    context = TaskContext()
    for fetch in plan_fetch(plan, winners, 1, False, DRIVER):
        list(fetch.read(context))
    assert context.metrics.get("row_groups_materialized") == 1
