"""Top-k over files: always the first k rows of a stable sort of the whole table, whatever was pruned."""

from __future__ import annotations

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from sundog.expr.errors import SparkQueryError
from sundog.expr.evaluate import predicate_mask
from sundog.expr.nodes import And, Arith, ArithOp, Cast, Column, Compare, CompareOp, EvalMode, Expr, Literal, Negate
from sundog.expr.ordering import SortKey
from sundog.metrics import Metrics, OperatorCounts
from sundog.operators.context import TaskContext
from sundog.operators.topk.materialize import Winners, assemble, plan_fetch
from sundog.operators.topk.row_group_search import Switches
from sundog.operators.topk.topk_plan import plan_topk
from sundog.operators.topk.topk_scan import TopKSearch
from sundog.parquet import filesystem
from sundog.parquet.prune.access_plan import plan_access
from sundog.parquet.reading import DataFile
from sundog.plan.costs import DRIVER, Costs
from sundog.tables.parquet_folder import ParquetFolder
from tests.operators.reference import first_rows, same_rows
from tests.oracle.batches import FILE_TYPES, record_batches, values
from tests.parquet.files import cut, relation, write_file

LONG, DOUBLE, STRING = pa.int64(), pa.float64(), pa.string()


@dataclass
class Result:
    batch: pa.RecordBatch
    metrics: dict[str, float]

    def column(self, name: str) -> list:
        return self.batch.column(name).to_pylist()


def run(
    files: ParquetFolder,
    columns,
    order,
    limit,
    offset=0,
    predicate: Expr | None = None,
    threads: int = 0,
    tasks: int = 0,
    switches: Switches = Switches(),  # noqa: B008
    checks=(),
    costs: Costs = DRIVER,
) -> Result:
    """The ten lines that drive a search: on threads that share it, or in rounds of tasks that travel by pickle."""
    metrics = Metrics()
    access = plan_access(files, tuple(columns), predicate)
    plan = plan_topk(access, tuple(order), limit + offset, checks, switches)
    search = TopKSearch(plan, costs)
    if tasks:
        while shipped := search.next_round(tasks):
            for task in pickle.loads(pickle.dumps(shipped)):
                own = OperatorCounts()
                for batch in task.read(TaskContext().counting_into(own)):
                    search.add(batch)
                metrics.merge(own.all_metrics)
    else:
        counts = [OperatorCounts() for _ in range(max(threads, 1))]
        contexts = [TaskContext().counting_into(each) for each in counts]
        if threads:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(search.work, contexts))
        else:
            search.work(contexts[0])
        for each in counts:
            metrics.merge(each.all_metrics)
    winners = search.winners().slice(offset, limit)
    context = TaskContext()
    fetched = [
        batch
        for task in pickle.loads(pickle.dumps(plan_fetch(plan, winners, max(tasks, threads, 1), not tasks, DRIVER)))
        for batch in task.read(context)
    ]
    metrics.merge(context.metrics)
    for step in Winners(search, limit, offset).steps:
        metrics.merge(step.planned_metrics)
    return Result(assemble(plan, winners, fetched), metrics.as_dict())


def down(name="x", dtype=LONG, nulls_first=False) -> SortKey:
    return SortKey(Column(name, dtype), descending=True, nulls_first=nulls_first)


def up(name="x", dtype=LONG, nulls_first=True) -> SortKey:
    return SortKey(Column(name, dtype), descending=False, nulls_first=nulls_first)


def one_file(tmp_path, groups, **options) -> ParquetFolder:
    path = write_file(tmp_path / "a.parquet", groups, **options)
    return relation([path], groups[0].schema)


def numbers(*ranges) -> list[pa.Table]:
    return [
        pa.table({"x": np.arange(low, high + 1), "label": [f"v{v}" for v in range(low, high + 1)]})
        for low, high in ranges
    ]


# ---------------------------------------------------------------- the layers, each by its metric


def test_trace_of_the_issue(tmp_path):
    """RG1 600..900 read, the threshold rises to where RG7 10..50 cannot win: it is never read."""
    groups = [
        pa.table({"x": [600, 700, 800, 900, 500, 510, 520, 530, 540, 550]}),
        pa.table({"x": [700, 800]}),
        pa.table({"x": [10, 50]}),
    ]
    files = one_file(tmp_path, groups)
    result = run(files, ["x"], [down()], 10, switches=Switches(initial_threshold=False))
    assert result.column("x") == [900, 800, 800, 700, 700, 600, 550, 540, 530, 520]
    assert result.metrics["row_groups_scanned"] == 2
    assert result.metrics["row_groups_pruned_dynamic_filter"] == 1
    assert result.metrics["input_rows"] == 12


def test_threshold_from_statistics_prunes_before_anything_is_read(tmp_path):
    files = one_file(tmp_path, numbers((0, 9), (20, 29), (10, 19)))
    result = run(files, ["x"], [down()], 5)
    assert result.column("x") == [29, 28, 27, 26, 25]
    assert result.metrics["row_groups_pruned_initial_threshold"] == 2
    assert result.metrics["row_groups_scanned"] == 1


def test_switching_the_initial_threshold_off_leaves_it_to_the_live_one(tmp_path):
    files = one_file(tmp_path, numbers((0, 9), (20, 29), (10, 19)))
    result = run(files, ["x"], [down()], 5, switches=Switches(initial_threshold=False))
    assert result.metrics["row_groups_pruned_initial_threshold"] == 0
    assert result.metrics["row_groups_pruned_dynamic_filter"] == 2


def test_switching_dynamic_pruning_off_reads_every_row_group(tmp_path):
    files = one_file(tmp_path, numbers((0, 9), (20, 29), (10, 19)))
    result = run(files, ["x"], [down()], 5, switches=Switches.static_only())
    assert result.column("x") == [29, 28, 27, 26, 25]
    assert result.metrics["row_groups_scanned"] == 3


def test_rows_past_the_bar_are_dropped_and_can_be_switched_off(tmp_path):
    files = one_file(tmp_path, numbers((0, 99), (50, 60)))
    kept = run(files, ["x"], [down()], 3, switches=Switches(initial_threshold=False, row_groups=False))
    assert kept.metrics["rows_pruned_dynamic_filter"] == 11
    off = run(files, ["x"], [down()], 3, switches=Switches(False, False, rows=False))
    assert "rows_pruned_dynamic_filter" not in off.metrics
    assert off.column("x") == kept.column("x") == [99, 98, 97]


def test_static_pruning_by_where(tmp_path):
    files = one_file(tmp_path, numbers((0, 9), (20, 29), (10, 19)))
    below = Compare(CompareOp.LT, Column("x", LONG), Literal(15, LONG))
    result = run(files, ["x"], [down()], 3, predicate=below)
    assert result.column("x") == [14, 13, 12]
    assert result.metrics["row_groups_pruned_statistics"] == 1


def test_whole_files_are_pruned(tmp_path):
    paths = [write_file(tmp_path / f"{i}.parquet", numbers((i * 10, i * 10 + 9))) for i in range(4)]
    files = relation(paths, numbers((0, 1))[0].schema)
    result = run(files, ["x"], [down()], 5)
    assert result.column("x") == [39, 38, 37, 36, 35]
    assert result.metrics["files_pruned_dynamic_filter"] == 3
    high = Compare(CompareOp.GE, Column("x", LONG), Literal(20, LONG))
    assert run(files, ["x"], [down()], 5, predicate=high).metrics["files_pruned_statistics"] == 2


def test_late_materialization_reads_other_columns_of_winners_only(tmp_path):
    files = one_file(tmp_path, numbers((0, 999), (2000, 2999), (1000, 1999)))
    late = run(files, ["label", "x"], [down()], 2, switches=Switches.static_only())
    eager = run(files, ["label", "x"], [down()], 2, switches=Switches(False, False, late_materialization=False))
    assert late.column("label") == eager.column("label") == ["v2999", "v2998"]
    assert late.metrics["row_groups_materialized"] == 1
    assert "row_groups_materialized" not in eager.metrics
    assert late.metrics["bytes_decoded"] < 0.7 * eager.metrics["bytes_decoded"]


def test_queue_goes_across_files_best_first(tmp_path):
    paths = [
        write_file(tmp_path / "0.parquet", numbers((0, 9), (40, 49))),
        write_file(tmp_path / "1.parquet", numbers((30, 39), (50, 59))),
    ]
    files = relation(paths, numbers((0, 1))[0].schema)
    plan = plan_topk(plan_access(files, ("x",), None), (down(),), 5)
    assert [c.position for c in plan.candidates] == [(1, 1), (0, 1), (1, 0), (0, 0)]


def test_cost_does_not_grow_with_the_table(tmp_path):
    scanned = []
    for groups in (5, 20, 80):
        ranges = [(i * 10, i * 10 + 9) for i in range(groups)]
        np.random.default_rng(1).shuffle(ranges)
        files = one_file(tmp_path, numbers(*ranges))
        scanned.append(run(files, ["x", "label"], [down()], 15).metrics["row_groups_scanned"])
    assert scanned == [2, 2, 2]


# ---------------------------------------------------------------- what statistics do not show


def test_nulls_first_and_last(tmp_path):
    groups = [
        pa.table({"x": pa.array([5, None])}),
        pa.table({"x": pa.array([9, 8])}),
        pa.table({"x": pa.array([None, 1])}),
    ]
    files = one_file(tmp_path, groups)
    assert run(files, ["x"], [down(nulls_first=True)], 3).column("x") == [None, None, 9]
    assert run(files, ["x"], [up(nulls_first=True)], 3).column("x") == [None, None, 1]
    assert run(files, ["x"], [up(nulls_first=False)], 5).column("x") == [1, 5, 8, 9, None]
    only_nulls = run(files, ["x"], [up(nulls_first=True)], 2)
    assert only_nulls.metrics["row_groups_scanned"] == 2


def test_nan_wins_though_the_bounds_do_not_show_it(tmp_path):
    groups = [pa.table({"x": [100.0, 200.0]}), pa.table({"x": [1.0, math.nan]})]
    files = one_file(tmp_path, groups)
    found = run(files, ["x"], [down(dtype=DOUBLE)], 1).column("x")
    assert math.isnan(found[0])
    assert run(files, ["x"], [up(dtype=DOUBLE)], 2).column("x") == [1.0, 100.0]


def test_minus_zero_keeps_its_sign_and_its_place(tmp_path):
    groups = [pa.table({"x": [0.0, 1.0]}), pa.table({"x": [-0.0, -0.0]}), pa.table({"x": [0.0]})]
    files = one_file(tmp_path, groups)
    found = run(files, ["x"], [up(dtype=DOUBLE)], 3).column("x")
    assert [math.copysign(1, value) for value in found] == [1, -1, -1]


def test_missing_statistics_read_everything(tmp_path):
    files = one_file(tmp_path, numbers((0, 9), (20, 29)), write_statistics=False)
    result = run(files, ["x"], [down()], 3)
    assert result.column("x") == [29, 28, 27]
    assert result.metrics["row_groups_scanned"] == 2


def test_int96_has_no_statistics_and_is_read(tmp_path):
    instant = pa.timestamp("us", "UTC")
    groups = [pa.table({"x": pa.array([v], pa.timestamp("us"))}) for v in (3, 9, 6)]
    path = write_file(tmp_path / "a.parquet", groups, use_deprecated_int96_timestamps=True)
    files = relation([path], pa.schema([("x", instant)]))
    result = run(files, ["x"], [down(dtype=instant)], 2)
    assert result.batch.column("x").view(LONG).to_pylist() == [9, 6]
    assert result.metrics["row_groups_scanned"] == 3


def test_long_strings_with_one_prefix(tmp_path):
    prefix = "https://example.org/" + "p" * 200
    groups = [pa.table({"x": [f"{prefix}{v:03d}" for v in range(low, low + 5)]}) for low in (0, 10, 5)]
    files = one_file(tmp_path, groups)
    result = run(files, ["x"], [down(dtype=STRING)], 3)
    assert [value[-3:] for value in result.column("x")] == ["014", "013", "012"]


def test_ties_on_the_leading_key_stay_alive(tmp_path):
    groups = [
        pa.table({"x": [7, 7, 7], "y": [1.0, 2.0, 3.0]}),
        pa.table({"x": [7, 7, 6], "y": [9.0, 8.0, 99.0]}),
        pa.table({"x": [6, 6, 6], "y": [100.0, 101.0, 102.0]}),
    ]
    files = one_file(tmp_path, groups)
    result = run(files, ["x", "y"], [down(), down("y", DOUBLE)], 3)
    assert result.column("y") == [9.0, 8.0, 3.0]
    assert result.metrics["row_groups_scanned"] == 2


def test_a_single_key_full_of_ties_reads_one_row_group(tmp_path):
    groups = [pa.table({"x": [7] * 10, "label": [f"{g}.{i}" for i in range(10)]}) for g in range(6)]
    files = one_file(tmp_path, groups)
    result = run(files, ["label", "x"], [down()], 4)
    assert result.column("label") == ["0.0", "0.1", "0.2", "0.3"]
    assert result.metrics["row_groups_scanned"] == 1


def test_a_file_rewritten_between_two_queries_gives_the_new_answer(tmp_path):
    path = write_file(tmp_path / "a.parquet", numbers((0, 9)))
    assert run(relation([path], numbers((0, 1))[0].schema), ["x"], [down()], 1).column("x") == [9]
    write_file(path, numbers((0, 9), (90, 99)))
    assert run(relation([path], numbers((0, 1))[0].schema), ["x"], [down()], 1).column("x") == [99]


def test_files_that_are_not_local(tmp_path, monkeypatch):
    """Through Arrow's file systems, with a folder standing in for a bucket."""
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    write_file(bucket / "a b.parquet", numbers((0, 9), (20, 29), (10, 19)))
    stand_in = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setitem(filesystem._MAKERS, "s3a", lambda **arguments: stand_in)
    listed = DataFile("s3a://bucket/a%20b.parquet", (bucket / "a b.parquet").stat().st_size, 1)
    files = replace(
        relation([], numbers((0, 1))[0].schema), files=(listed,), filesystem=(("access.key", str(tmp_path)),)
    )
    result = run(files, ["x", "label"], [down()], 3, threads=2)
    assert result.column("label") == ["v29", "v28", "v27"]
    write_file(bucket / "a b.parquet", numbers((0, 9), (40, 49)))
    listed = replace(listed, size=(bucket / "a b.parquet").stat().st_size, modified_ms=2)
    assert run(replace(files, files=(listed,)), ["x"], [down()], 1, tasks=2).column("x") == [49]


# ---------------------------------------------------------------- expressions, errors, shapes


def test_monotonic_sort_expressions_prune(tmp_path):
    files = one_file(tmp_path, numbers((0, 9), (20, 29), (10, 19)))
    plus = SortKey(Arith(ArithOp.ADD, Column("x", LONG), Literal(5, LONG), LONG), True, False)
    minus = SortKey(Negate(Column("x", LONG), LONG), False, True)
    wider = SortKey(Cast(Column("x", LONG), pa.decimal128(22, 2)), True, False)
    for key in (plus, minus, wider):
        result = run(files, ["x", "label"], [key], 3)
        assert result.column("x") == [29, 28, 27]
        assert result.metrics["row_groups_scanned"] == 1


def test_other_sort_expressions_are_correct_without_pruning(tmp_path):
    files = one_file(tmp_path, numbers((0, 9), (20, 29)))
    parity = SortKey(Arith(ArithOp.MOD, Column("x", LONG), Literal(7, LONG), LONG, EvalMode.LEGACY), True, False)
    result = run(files, ["x"], [parity, up()], 3)
    assert result.column("x") == [6, 20, 27]
    assert result.metrics["row_groups_scanned"] == 2


def test_an_error_in_a_row_that_does_not_make_it_is_raised(tmp_path):
    """x + 1 overflows in the worst row group: plain Spark raises, so it must not be skipped."""
    groups = [pa.table({"x": [-5, -4]}), pa.table({"x": [2**63 - 1, 5]})]
    files = one_file(tmp_path, groups)
    plus = SortKey(Arith(ArithOp.ADD, Column("x", LONG), Literal(1, LONG), LONG), False, True)
    with pytest.raises(SparkQueryError, match="OVERFLOW"):
        run(files, ["x"], [plus], 1)


def test_checks_are_evaluated_for_every_row_that_passes_the_where(tmp_path):
    groups = [pa.table({"x": [9, 8], "y": [1, 2]}), pa.table({"x": [1, 2], "y": [0, 1]})]
    files = one_file(tmp_path, groups)
    division = Arith(ArithOp.INT_DIV, Column("x", LONG), Column("y", LONG), LONG)
    assert run(files, ["x", "y"], [down()], 1).column("x") == [9]
    with pytest.raises(SparkQueryError, match="DIVIDE"):
        run(files, ["x", "y"], [down()], 1, checks=(division,))
    shielded = Compare(CompareOp.GT, Column("y", LONG), Literal(0, LONG))
    result = run(files, ["x", "y"], [down()], 1, predicate=shielded, checks=(division,))
    assert result.column("x") == [9]
    assert result.metrics["row_groups_scanned"] == 2


def test_a_where_that_may_raise_is_evaluated_everywhere(tmp_path):
    groups = [pa.table({"x": [9, 8], "y": [1, 2]}), pa.table({"x": [1, 2], "y": [0, 1]})]
    files = one_file(tmp_path, groups)
    division = Arith(ArithOp.INT_DIV, Column("x", LONG), Column("y", LONG), LONG)
    positive = Compare(CompareOp.GT, division, Literal(0, LONG))
    with pytest.raises(SparkQueryError, match="DIVIDE"):
        run(files, ["x"], [down()], 1, predicate=positive)


def test_offset_and_limits_beyond_the_table(tmp_path):
    files = one_file(tmp_path, numbers((0, 9), (20, 29)))
    assert run(files, ["x", "label"], [down()], 3, offset=9).column("label") == ["v20", "v9", "v8"]
    assert run(files, ["x", "label"], [down()], 100).batch.num_rows == 20
    assert run(files, ["x", "label"], [down()], 5, offset=100).batch.num_rows == 0
    assert run(files, ["x", "label"], [down()], 0).batch.num_rows == 0


def test_no_file_and_no_row(tmp_path):
    schema = pa.schema([("x", LONG), ("label", STRING)])
    empty = one_file(tmp_path, [schema.empty_table()])
    for files in (empty, relation([], schema)):
        result = run(files, ["x", "label"], [down()], 5)
        assert result.batch.num_rows == 0
        assert result.batch.schema.equals(schema)


def test_partition_columns_as_key_and_output(tmp_path):
    paths = [write_file(tmp_path / f"{i}.parquet", numbers((0, 4))) for i in range(3)]
    files = relation(paths, numbers((0, 1))[0].schema, [("p", LONG)], [(1,), (None,), (3,)])
    result = run(files, ["p", "x"], [down("p"), up()], 6)
    assert result.column("p") == [3, 3, 3, 3, 3, 1]
    assert result.column("x") == [0, 1, 2, 3, 4, 0]
    assert result.metrics["files_pruned_dynamic_filter"] == 1


def test_large_row_groups_are_searched_in_parts(tmp_path):
    table = pa.table({"x": np.random.default_rng(5).permutation(500), "label": [f"v{i}" for i in range(500)]})
    files = one_file(tmp_path, [table])
    even = Compare(
        CompareOp.EQ,
        Arith(ArithOp.MOD, Column("x", LONG), Literal(2, LONG), LONG, EvalMode.LEGACY),
        Literal(0, LONG),
    )
    costs = replace(DRIVER, max_whole_bytes=100)
    result = run(files, ["x", "label"], [down()], 3, predicate=even, costs=costs)
    assert result.column("x") == [498, 496, 494]
    row_of = {x: row for row, x in enumerate(table["x"].to_pylist())}
    assert result.column("label") == [f"v{row_of[x]}" for x in (498, 496, 494)]


def test_rounds_grow_and_tasks_are_pure(tmp_path):
    ranges = [(i * 10, 1000) for i in range(30)]  # every row group can win until it is read
    files = one_file(tmp_path, numbers(*ranges))
    plan = plan_topk(plan_access(files, ("x", "label"), None), (down(), down("label", STRING)), 70)
    search = TopKSearch(plan, DRIVER)
    sizes = []
    while tasks := search.next_round(2):
        sizes.append(sum(len(task.candidates) for task in tasks))
        for task in tasks:
            twice = [list(task.read(TaskContext())) for _ in range(2)]
            assert twice[0] == twice[1]
            for batch in twice[0]:
                search.add(batch)
    assert sizes == [2, 28], "the threshold spares nothing: one more round does for all"
    assert search.winners().column("x").to_pylist() == [1000] * 30 + [999] * 30 + [998] * 10
    assert search.counted["topk_rounds"] == 2


def test_row_groups_that_no_threshold_can_rule_out_do_not_wait(tmp_path):
    files = one_file(tmp_path, numbers(*[(i * 10, i * 10 + 9) for i in range(20)]), write_statistics=False)
    search = TopKSearch(plan_topk(plan_access(files, ("x",), None), (down(),), 5), DRIVER)
    tasks = search.next_round(2)
    assert [len(task.candidates) for task in tasks] == [10, 10]
    assert search.next_round(2) == []


def test_rounds_carry_the_threshold_to_later_tasks(tmp_path):
    ranges = [(i * 10, i * 10 + 9) for i in range(20)]
    files = one_file(tmp_path, numbers(*ranges))
    result = run(files, ["x"], [down()], 5, tasks=2, switches=Switches(initial_threshold=False))
    assert result.column("x") == [199, 198, 197, 196, 195]
    assert result.metrics["topk_rounds"] == 1
    assert result.metrics["row_groups_scanned"] == 2


# ---------------------------------------------------------------- everything at random


SORTABLE = [dtype for dtype in FILE_TYPES if not pa.types.is_null(dtype)]


@st.composite
def searches(draw):
    types = draw(st.lists(st.sampled_from(SORTABLE), min_size=2, max_size=4))
    schema = pa.schema([(f"c{i}", dtype) for i, dtype in enumerate(types)])
    batch = draw(record_batches(schema, max_size=60))
    keys = draw(st.integers(1, min(2, len(types))))
    order = [SortKey(Column(f"c{i}", types[i]), draw(st.booleans()), draw(st.booleans())) for i in range(keys)]
    predicate = None
    if draw(st.booleans()):
        field = schema.field(draw(st.integers(0, len(types) - 1)))
        literal = Literal(draw(values(field.type)), field.type)
        predicate = Compare(draw(st.sampled_from(list(CompareOp))), Column(field.name, field.type), literal)
    return batch, order, predicate


@settings(max_examples=120, deadline=None)
@given(
    searches(),
    st.integers(1, 12),
    st.integers(1, 3),
    st.sampled_from([1, 3, 10, 70]),
    st.sampled_from([0, 2]),
    st.sampled_from([{"threads": 0}, {"threads": 2}, {"tasks": 1}, {"tasks": 3}]),
    st.builds(Switches, st.booleans(), st.booleans(), st.booleans(), st.booleans()),
    st.booleans(),
)
def test_equals_a_stable_sort_of_the_table(
    tmp_path_factory, search, group_rows, file_count, limit, offset, where, switches, statistics
):
    batch, order, predicate = search
    folder = tmp_path_factory.mktemp("t")
    table = pa.Table.from_batches([batch])
    groups = cut(table, group_rows)
    shares = [groups[i::file_count] for i in range(file_count)]
    paths = [
        write_file(folder / f"{i}.parquet", share, write_statistics=statistics)
        for i, share in enumerate(shares)
        if share
    ]
    result = run(
        relation(paths, table.schema), table.schema.names, order, limit, offset, predicate, switches=switches, **where
    )
    stored = pa.concat_tables([pq.read_table(path, schema=table.schema) for path in paths]).combine_chunks()
    rows = stored.to_batches()[0] if stored.num_rows else batch.slice(0, 0)
    if predicate is not None and rows.num_rows:
        rows = rows.filter(pa.array(predicate_mask(predicate, rows)))
    assert same_rows(result.batch, first_rows(rows, order, limit, offset))


def test_where_and_order_on_different_columns(tmp_path):
    table = pa.table({"x": np.arange(1000), "y": np.arange(1000) % 10, "label": [f"v{i}" for i in range(1000)]})
    files = one_file(tmp_path, cut(table, 50))
    seven = And(
        Compare(CompareOp.EQ, Column("y", LONG), Literal(7, LONG)),
        Compare(CompareOp.LT, Column("x", LONG), Literal(900, LONG)),
    )
    result = run(files, ["label", "x"], [down()], 3, predicate=seven)
    assert result.column("label") == ["v897", "v887", "v877"]
    assert result.metrics["row_groups_pruned_statistics"] == 2
    assert result.metrics["row_groups_scanned"] == 1
