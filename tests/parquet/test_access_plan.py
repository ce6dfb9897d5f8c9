from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.nodes import And, Arith, ArithOp, Column, Compare, CompareOp, EvalMode, IsNull, Literal, Not
from sundog.parquet.problems import FileProblem
from sundog.parquet.prune.access_plan import RowGroupRun, plan_access
from sundog.parquet.prune.pruning import Verdict, without_not_null
from tests.parquet.files import relation, write_file

LONG = pa.int64()
SKIP, SCAN, ALL = Verdict.SKIP, Verdict.SCAN, Verdict.ALL_ROWS_MATCH


def tables(*lows, rows=10):
    return [pa.table({"x": list(range(low, low + rows)), "y": ["y" * 50] * rows}) for low in lows]


def at_least(value):
    return Compare(CompareOp.GE, Column("x", LONG), Literal(value, LONG))


@pytest.fixture
def files(tmp_path):
    paths = [
        write_file(tmp_path / "a.parquet", tables(0, 10, 20, 30, 40)),
        write_file(tmp_path / "b.parquet", tables(0)),
        write_file(tmp_path / "c.parquet", tables(50, 5)),
    ]
    return relation(paths, tables(0)[0].schema)


def test_static_scans_read_coalesced_runs(files):
    plan = plan_access(files, ("x",), at_least(15))
    assert plan.split_runs() == [RowGroupRun(0, (1,), SCAN), RowGroupRun(0, (2, 3, 4), ALL), RowGroupRun(2, (0,), ALL)]


def test_a_dynamic_filter_forces_a_run_per_row_group(files):
    plan = plan_access(files, ("x",), at_least(15))
    runs = plan.split_runs(force_per_row_group=True)
    assert [run.row_groups for run in runs] == [(1,), (2,), (3,), (4,), (0,)]
    assert [run.verdict for run in runs] == [SCAN, ALL, ALL, ALL, ALL]


def test_a_gap_ends_a_run(tmp_path):
    path = write_file(tmp_path / "a.parquet", tables(20, 30, 0, 20, 30))
    plan = plan_access(relation([path], tables(0)[0].schema), ("x",), at_least(15))
    assert [run.row_groups for run in plan.split_runs()] == [(0, 1), (3, 4)]


def test_a_thinned_plan_is_spread_over_what_is_left(files):
    plan = plan_access(files, ("x",), at_least(15))
    assert plan.rows() == 50
    assert [(run.file, run.row_groups) for run in plan.thinned(2).split_runs(True)] == [(0, (2,)), (0, (4,))]
    assert plan.thinned(2).rows() == 20
    assert plan.thinned(3).split_runs() == plan.thinned(99).split_runs() == plan.split_runs()


def test_the_plan_prints(files):
    assert str(plan_access(files, ("x",), at_least(15))) == (
        "a.parquet: 5 row groups -> [1] SCAN, [2..4] ALL_ROWS_MATCH\n"
        "b.parquet: 1 row groups -> nothing\n"
        "c.parquet: 2 row groups -> [0] ALL_ROWS_MATCH"
    )


def test_it_counts_what_it_prunes(files):
    assert plan_access(files, ("x",), at_least(15)).scanned.counted == {
        "files_total": 3,
        "files_pruned_statistics": 1,
        "row_groups_total": 8,
        "row_groups_pruned_statistics": 3,
    }


def test_partition_values_rule_files_out_before_they_are_opened(tmp_path):
    paths = [write_file(tmp_path / f"{i}.parquet", tables(0)) for i in range(3)]
    files = relation(paths, tables(0)[0].schema, [("p", LONG)], [(1,), (2,), (None,)])
    paths[0].write_bytes(b"not a parquet file at all")
    is_two = And(Compare(CompareOp.EQ, Column("p", LONG), Literal(2, LONG)), at_least(0))
    plan = plan_access(files, ("x", "p"), is_two)
    assert [file.path for file in plan.files] == [str(paths[1])]
    assert plan.scanned.counted["files_pruned_statistics"] == 2
    with pytest.raises(FileProblem):
        plan_access(files, ("x",), None)


def test_files_that_spark_passes_over_are_no_trouble(tmp_path):
    paths = [write_file(tmp_path / f"{i}.parquet", tables(0)) for i in range(2)]
    files = relation(paths, tables(0)[0].schema, ignore_missing_files=True)
    paths[0].unlink()
    plan = plan_access(files, ("x",), None)
    assert plan.split_runs() == [RowGroupRun(1, (0,), ALL)]
    assert len(plan.tasks(4, 0)) == 1


def test_only_the_columns_needed_are_resolved(files):
    plan = plan_access(files, ("x",), at_least(0))
    assert [column.name for column in plan.reading.file_columns] == ["x"]
    both = plan_access(files, ("y",), at_least(0))
    assert both.columns_read() == ("y", "x")
    assert both.column_bytes() > plan.column_bytes() > 0
    assert plan_access(files, ("x",), at_least(10**6)).column_bytes() == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=6), min_size=1, max_size=4), st.integers(1, 9))
def test_tasks_share_the_work_out_once_and_in_order(tmp_path_factory, sizes, count):
    folder = tmp_path_factory.mktemp("t")
    paths = [
        write_file(folder / f"{i}.parquet", [pa.table({"x": list(range(rows))}) for rows in groups])
        for i, groups in enumerate(sizes)
    ]
    plan = plan_access(relation(paths, pa.schema([("x", LONG)])), ("x",), None)
    tasks = plan.tasks(count, 0)
    assert 1 <= len(tasks) <= count
    read = [(part.file.path, group) for task in tasks for part in task for group in part.row_groups]
    assert read == [
        (str(path), group) for path, groups in zip(paths, sizes, strict=True) for group in range(len(groups))
    ]


def test_tasks_are_balanced_by_bytes(tmp_path):
    groups = [pa.table({"x": list(range(20_000))}) for _ in range(12)]
    path = write_file(tmp_path / "a.parquet", groups)
    plan = plan_access(relation([path], groups[0].schema), ("x",), None)
    assert [len(part.row_groups) for task in plan.tasks(4, 0) for part in task] == [3, 3, 3, 3]
    assert plan_access(relation([path], groups[0].schema), ("x",), at_least(10**6)).tasks(4, 0) == []


def not_null(name):
    return Not(IsNull(Column(name, LONG)))


def test_columns_without_a_null_in_the_row_groups_to_read(tmp_path):
    with_null = pa.table({"x": [None, 1], "y": [1, 2], "z": [3, 4]}, pa.schema([(name, LONG) for name in "xyz"]))
    parts = [pa.table({"x": [10, 11], "y": [1, None], "z": [3, 4]}, with_null.schema), with_null]
    files = relation([write_file(tmp_path / "a.parquet", parts)], with_null.schema)
    wanted = And(And(not_null("x"), not_null("y")), not_null("z"))
    assert plan_access(files, ("x",), wanted).never_null == {"z"}
    later = And(wanted, at_least(5))  # the second row group is not read
    assert plan_access(files, ("x",), later).never_null == {"x", "z"}
    assert without_not_null(later, {"x", "z"}) == And(not_null("y"), at_least(5))
    assert without_not_null(not_null("x"), {"x"}) is None
    by_zero = Arith(ArithOp.MOD, Column("z", LONG), Literal(0, LONG), LONG, EvalMode.ANSI)
    raising = And(wanted, Compare(CompareOp.EQ, by_zero, Literal(0, LONG)))
    assert plan_access(files, ("x",), raising).never_null == frozenset()


def test_a_row_group_of_nulls_only_needs_the_test_that_rules_it_out(tmp_path):
    schema = pa.schema([("x", LONG), ("y", LONG)])
    parts = [pa.table({"x": x, "y": [10, 20]}, schema) for x in ([10, 11], [None, None])]
    files = relation([write_file(tmp_path / "a.parquet", parts)], schema)
    plan = plan_access(files, ("y",), not_null("x"))
    assert plan.never_null == {"x"}  # of the row group that is read
    assert plan.least_predicate == not_null("x")  # else it would equal a scan without a WHERE, which reads both
    late = Compare(CompareOp.GE, Column("x", LONG), Literal(10, LONG))
    assert plan_access(files, ("y",), And(not_null("x"), late)).least_predicate == late
    both = And(not_null("x"), not_null("y"))
    assert plan_access(files, ("y",), both).least_predicate == both


def test_nothing_is_known_of_nulls_without_statistics(tmp_path):
    path = write_file(tmp_path / "a.parquet", tables(0), write_statistics=False)
    assert plan_access(relation([path], tables(0)[0].schema), ("x",), not_null("x")).never_null == frozenset()
