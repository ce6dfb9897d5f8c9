from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.arrow import from_arrow, to_arrow
from sundog.columns.key_sets import key_set, rows_passing
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.evaluate import predicate_mask
from sundog.expr.nodes import Column, Compare, CompareOp, IsNull, Literal, Not, conjunction
from sundog.metrics import Metrics
from sundog.operators.context import MemoryBudget, TaskCancelled, TaskContext
from sundog.operators.limit import LimitOperator
from sundog.operators.scan.scan import limit_scan, scan_tasks
from sundog.parquet.decode.reader import FileReader
from sundog.parquet.problems import FileProblem, FileSchemaProblem
from sundog.parquet.prune.access_plan import plan_access
from sundog.plan.costs import DRIVER
from tests.operators.reference import same_rows
from tests.oracle.batches import FILE_TYPES, record_batches, values
from tests.parquet.files import cut, relation, write_file

LONG = pa.int64()


def table(rows=1000):
    numbers = np.arange(rows)
    return pa.table({"x": numbers, "y": numbers % 7, "s": [f"s{n}" for n in numbers]})


def below(name, value):
    return Compare(CompareOp.LT, Column(name, LONG), Literal(value, LONG))


@pytest.fixture
def files(tmp_path):
    parts = cut(table(), 100)
    paths = [write_file(tmp_path / "a.parquet", parts[:4]), write_file(tmp_path / "b.parquet", parts[4:])]
    return relation(paths, table().schema, [("p", pa.string())], [("one",), ("two",)])


def read(files, columns, predicate=None, tasks=3, context=None, costs=DRIVER):
    context = context or TaskContext()
    shipped = pickle.loads(pickle.dumps(scan_tasks(plan_access(files, columns, predicate), tasks, costs)))
    return [batch for task in shipped for batch in task.read(context)]


def rows_of(batches, name):
    return [value for batch in batches for value in batch.column(name).to_pylist()]


def test_reads_everything_in_file_order(files):
    batches = read(files, ("s", "x", "p"))
    assert rows_of(batches, "x") == list(range(1000))
    assert rows_of(batches, "p") == ["one"] * 400 + ["two"] * 600
    assert batches[0].schema.names == ["s", "x", "p"]


@pytest.mark.parametrize("tested", [False, True])
def test_as_much_is_decoded_at_once_as_a_small_budget_allows(tmp_path, tested):
    """Of row groups of 16,000 bytes: several together, one, or a part of one; and it is counted."""
    rows = pa.table({"x": np.arange(10_000), "y": np.arange(10_000) % 7})
    files = relation([write_file(tmp_path / "a.parquet", cut(rows, 1000))], rows.schema)
    predicate = below("y", 3) if tested else None
    for memory, batches in ((1 << 30, 1), (16 * 35_000, 5), (16 * 16_000, 10), (8 * 4400, 40)):
        context = TaskContext(memory=MemoryBudget(memory))
        found = read(files, ("x", "y"), predicate, tasks=1, context=context)
        assert rows_of(found, "x") == [n for n in range(10_000) if not tested or n % 7 < 3]
        assert len(found) == batches
        assert context.memory.used == 0
        assert 0 < context.memory.peak <= 2 * DRIVER.whole_bytes(memory)


@pytest.mark.parametrize("nulls", [False, True])
def test_what_the_statistics_say_of_nulls_is_not_tested(tmp_path, nulls):
    rows = pa.table({"x": np.arange(200), "y": pa.array([None if nulls and n == 150 else n for n in range(200)])})
    files = relation([write_file(tmp_path / "a.parquet", cut(rows, 100))], rows.schema)
    context = TaskContext()
    where = conjunction([Not(IsNull(Column("y", LONG))), Compare(CompareOp.GE, Column("x", LONG), Literal(90, LONG))])
    (task,) = scan_tasks(plan_access(files, ("x", "y"), where), 1, DRIVER)
    assert task.never_null == (frozenset() if nulls else {"y"})
    found = rows_of(task.read(context), "x")
    assert found == [n for n in range(90, 200) if not (nulls and n == 150)]
    assert context.metrics.get("rows_filtered") == 200 - len(found)


def test_filters_and_leaves_other_columns_alone_where_nothing_matches(files):
    context = TaskContext()
    batches = read(files, ("s",), below("x", 250), context=context)
    assert rows_of(batches, "s") == [f"s{n}" for n in range(250)]
    assert context.metrics.get("row_groups_scanned") == 3
    assert context.metrics.get("rows_filtered") == 50
    none = TaskContext()
    nothing = Compare(CompareOp.EQ, Column("y", LONG), Column("x", LONG))
    high = read(files, ("s",), nothing, tasks=1, context=none)
    assert rows_of(high, "s") == [f"s{n}" for n in range(7)]
    whole = TaskContext()
    read(files, ("s", "x", "y"), None, context=whole)
    assert none.metrics.get("bytes_decoded") < whole.metrics.get("bytes_decoded")


@pytest.mark.parametrize("kept", [1, 10, 300, 1000])
def test_strings_of_few_rows_are_plain_and_hold_on_to_no_page(tmp_path, kept):
    """Rows that are mostly dropped are read as views; whoever asked for plain strings gets them, and only those."""
    rows = 1000
    texts = [None if n % 11 == 0 else f"a rather long string, number {n}" for n in range(rows)]
    whole = pa.table({"x": np.arange(rows) * 37 % rows, "s": texts, "few": ["one", "two"] * (rows // 2)})
    path = write_file(tmp_path / "a.parquet", [whole], dictionary_pagesize_limit=5000, write_batch_size=50)
    expected = whole.filter(pa.compute.less(whole.column("x"), kept)).select(["few", "s"])
    batches = read(relation([path], whole.schema), ("few", "s"), below("x", kept), tasks=1)
    found = pa.Table.from_batches(batches)
    assert found.equals(expected)
    stored = scan_tasks(
        plan_access(relation([path], whole.schema), ("few", "s"), below("x", kept)), 1, DRIVER, frozenset("s")
    )
    (batch,) = stored[0].read(TaskContext())
    assert batch.schema.field("few").type == pa.string()
    assert to_arrow(from_arrow(batch.column("s"))).equals(expected.column("s").combine_chunks())


def test_no_columns_still_have_rows(files):
    assert sum(batch.num_rows for batch in read(files, ())) == 1000
    assert sum(batch.num_rows for batch in read(files, (), below("x", 7))) == 7
    assert sum(batch.num_rows for batch in read(files, ("p",))) == 1000


def test_small_row_groups_are_read_together_and_large_ones_apart(files):
    assert len(read(files, ("x",), tasks=1)) == 2
    costs = replace(DRIVER, scan_run_rows=150, scan_run_rows_of_numbers=250)
    assert len(read(files, ("x", "s"), tasks=1, costs=costs)) == 10
    assert len(read(files, ("x", "y"), tasks=1, costs=costs)) == 5
    any_text = Compare(CompareOp.GE, Column("s", pa.string()), Literal("", pa.string()))
    assert len(read(files, ("x", "y"), any_text, tasks=1, costs=costs)) == 10, "strings of the WHERE count too"


@pytest.mark.parametrize("size", [1, 2000])
def test_huge_row_groups_come_in_pieces(files, size):
    costs = replace(DRIVER, scan_run_rows=1, scan_run_rows_of_numbers=1, max_whole_bytes=size)
    assert len(read(files, ("s", "x"), costs=costs)) > len(read(files, ("s", "x")))
    assert rows_of(read(files, ("s", "x"), costs=costs), "x") == list(range(1000))
    even = Compare(CompareOp.EQ, Column("y", LONG), Literal(3, LONG))
    assert rows_of(read(files, ("x",), even, costs=costs), "x") == [n for n in range(1000) if n % 7 == 3]


def test_an_empty_file_and_an_empty_relation(tmp_path):
    empty = relation([write_file(tmp_path / "e.parquet", [table(0)])], table().schema)
    assert read(empty, ("x",)) == []
    assert read(relation([], table().schema), ("x",)) == []


def test_a_file_that_changed_since_planning_is_an_error_not_an_answer(files):
    tasks = scan_tasks(plan_access(files, ("x",), None), 1, DRIVER)
    pq.write_table(table(50), files.files[0].path)
    with pytest.raises(FileProblem):
        list(tasks[0].read(TaskContext()))


def test_cancellation(files):
    context = TaskContext()
    context.cancelled.set()
    with pytest.raises(TaskCancelled):
        read(files, ("x",), context=context)


def limited(files, limit, predicate=None):
    context = TaskContext()
    plan = plan_access(files, ("x", "s"), predicate)
    task = pickle.loads(pickle.dumps(limit_scan(plan, limit, DRIVER)))
    found = list(LimitOperator(task.schema, limit).run(task.read(context), context))
    return rows_of(found, "x"), context.metrics


def test_a_limit_stops_as_soon_as_there_are_enough_rows(files):
    found, metrics = limited(files, 5)
    assert found == [0, 1, 2, 3, 4]
    assert metrics.get("row_groups_scanned") == 1
    assert metrics.get("row_groups_never_reached") == 9


def test_a_limit_takes_the_first_rows_that_match(files):
    found, metrics = limited(files, 150, below("x", 350))
    assert found == list(range(150))
    assert metrics.get("row_groups_scanned") == 2
    assert metrics.get("rows_filtered") == 0
    high = Compare(CompareOp.GE, Column("x", LONG), Literal(350, LONG))
    found, metrics = limited(files, 100, high)
    assert found == list(range(350, 450))
    assert metrics.get("row_groups_scanned") == 2


def test_a_limit_goes_on_to_other_row_groups_where_it_must(files):
    found, metrics = limited(files, 10**6, below("x", 350))
    assert sorted(found) == list(range(350))
    assert metrics.get("row_groups_scanned") == 4
    assert metrics.get("row_groups_never_reached") == 0


@pytest.mark.parametrize("dictionary", [True, False])
def test_strings_may_come_as_they_are_stored(tmp_path, dictionary):
    few = pa.table({"x": np.arange(4000), "s": [f"s{n % 5}" for n in range(4000)], "u": [f"u{n}" for n in range(4000)]})
    files = relation([write_file(tmp_path / "a.parquet", [few], use_dictionary=dictionary)], few.schema)
    for predicate in (None, below("x", 2500)):
        plan = plan_access(files, ("s", "u", "x"), predicate)
        shipped = pickle.loads(pickle.dumps(scan_tasks(plan, 1, DRIVER, frozenset({"s", "u"}))))
        batches = [batch for task in shipped for batch in task.read(TaskContext())]
        for name in ("s", "u"):
            assert pa.types.is_dictionary(batches[0].schema.field(name).type) == dictionary
            assert dictionary or batches[0].schema.field(name).type == pa.string_view()
        rows = 4000 if predicate is None else 2500
        for name in ("s", "u"):
            assert [v for b in batches for v in b.column(name).to_pylist()] == few[name].to_pylist()[:rows]
    tested = Compare(CompareOp.EQ, Column("s", pa.string()), Literal("s3", pa.string()))
    plan = plan_access(files, ("s",), tested)
    (batch,) = (b for task in scan_tasks(plan, 1, DRIVER, frozenset({"s"})) for b in task.read(TaskContext()))
    assert pa.types.is_dictionary(batch.column("s").type) == dictionary
    assert batch.column("s").to_pylist() == ["s3"] * 800
    (batch,) = (b for task in scan_tasks(plan, 1, DRIVER) for b in task.read(TaskContext()))
    assert batch.column("s").equals(pa.array(["s3"] * 800))


cases = st.lists(st.sampled_from(FILE_TYPES), min_size=2, max_size=4).flatmap(
    lambda types: record_batches(pa.schema([(f"c{i}", dtype) for i, dtype in enumerate(types)]), max_size=60)
)


@settings(max_examples=50, deadline=None)
@given(cases, st.integers(1, 15), st.integers(1, 4), st.data())
def test_equals_filtering_the_table(tmp_path_factory, batch, rows, tasks, data):
    whole = pa.Table.from_batches([batch])
    path = write_file(tmp_path_factory.mktemp("s") / "a.parquet", cut(whole, rows))
    field = batch.schema.field(0)
    literal = Literal(data.draw(values(field.type)), field.type)
    predicate = Compare(data.draw(st.sampled_from(list(CompareOp))), Column(field.name, field.type), literal)
    columns = tuple(data.draw(st.permutations(batch.schema.names)))[1:]
    found = read(relation([path], batch.schema), columns, predicate, tasks)
    expected = batch.filter(pa.array(predicate_mask(predicate, batch))) if batch.num_rows else batch
    result = pa.concat_batches(found) if found else expected.select(list(columns)).slice(0, 0)
    assert same_rows(result, expected.select(list(columns)))


@settings(max_examples=60, deadline=None)
@given(cases, st.integers(1, 15), st.sampled_from([1, 2, 1000]), st.data())
def test_equals_filtering_by_several_columns_and_keys(tmp_path_factory, batch, rows, rows_per_late_value, data):
    """However early the other columns are decoded for the rows that are left only."""
    path = write_file(tmp_path_factory.mktemp("s") / "a.parquet", cut(pa.Table.from_batches([batch]), rows))
    tests = []
    for field in batch.schema:
        literal = Literal(data.draw(values(field.type)), field.type)
        tests.append(Compare(data.draw(st.sampled_from(list(CompareOp))), Column(field.name, field.type), literal))
    predicate = conjunction(data.draw(st.permutations(tests))[: data.draw(st.integers(1, len(tests)))])
    columns = tuple(data.draw(st.permutations(batch.schema.names)))[data.draw(st.integers(0, 1)) :]
    key = data.draw(st.sampled_from(batch.schema.names))
    keys = batch.column(key).slice(0, data.draw(st.integers(0, 20)))
    filters = (KeyFilter(key, key_set(keys, DRIVER)),)
    plan = plan_access(relation([path], batch.schema), columns, predicate, filters)
    tasks = scan_tasks(plan, 2, replace(DRIVER, rows_per_late_value=rows_per_late_value))
    found = [each for task in tasks for each in task.read(TaskContext())]
    expected = batch.filter(pa.array(predicate_mask(predicate, batch))) if batch.num_rows else batch
    if expected.num_rows:
        expected = expected.filter(pa.array(rows_passing(filters[0], expected.column(key))))
    result = pa.concat_batches(found) if found else expected.select(list(columns)).slice(0, 0)
    assert same_rows(result, expected.select(list(columns)))


def test_other_columns_are_decoded_for_the_rows_that_are_left_only(tmp_path):
    rng = np.random.default_rng(3)
    stored = pa.table(
        {
            "key": rng.integers(0, 10_000, 100_000),
            "price": pa.array(rng.integers(0, 10**9, 100_000)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(18, 2)),
            "day": pa.array(rng.integers(0, 9999, 100_000), pa.int32()).cast(pa.date32()),
            "measure": rng.random(100_000),
        }
    )
    path = write_file(tmp_path / "a.parquet", [stored], store_decimal_as_integer=True)
    files = relation([path], stored.schema, datetime_rebase_mode="CORRECTED")
    metrics = {}
    for columns in (("key",), tuple(stored.column_names)):
        filters = (KeyFilter("key", key_set(pa.array(range(100)), DRIVER)),)
        context = TaskContext()
        (task,) = scan_tasks(plan_access(files, columns, None, filters), 1, DRIVER)
        found = pa.Table.from_batches(task.read(context))
        assert found.equals(stored.select(columns).filter(pa.compute.less(stored["key"], 100)))
        metrics[columns] = context.metrics.as_numbers()["bytes_decoded"]
    others = metrics[tuple(stored.column_names)] - metrics[("key",)]
    size = sum(stored[name].nbytes for name in ("day", "measure")) + 8 * 100_000
    assert 0 < others < 0.02 * size  # one row in a hundred passes


def test_bytes_that_nobody_calls_utf8_are_checked_under_a_where_too(tmp_path):
    stored = pa.table({"s": pa.array([b"a", b"b", b"\xff"], pa.binary())})
    wanted = pa.schema([("s", pa.string())])
    tested = Compare(CompareOp.EQ, Column("s", pa.string()), Literal("a", pa.string()))
    plain = relation([write_file(tmp_path / "plain.parquet", [stored.slice(0, 2)], use_dictionary=False)], wanted)
    (batch,) = read(plain, ("s",), tested)
    assert batch.column("s").equals(pa.array(["a"]))
    broken = relation([write_file(tmp_path / "broken.parquet", [stored], use_dictionary=False)], wanted)
    with pytest.raises(FileSchemaProblem):
        read(broken, ("s",), tested)


def test_only_strings_come_as_they_are_stored(tmp_path):
    stored = pa.table({"s": pa.array(["a"]), "b": pa.array([b"a"], pa.binary())})
    files = relation([write_file(tmp_path / "a.parquet", [stored])], stored.schema)
    with FileReader.open(files, files.files[0], Metrics()) as reader:
        text, raw = reader.layout.sources
        assert reader.layout.is_text(text)
        assert reader.layout.is_text(raw)
        for dtype in (pa.decimal128(5, 2), pa.string()):
            assert not reader.layout.is_text(replace(raw, dtype=dtype))


@pytest.mark.parametrize(("kept", "given_up"), [(100, 0), (10_000, 1)])
def test_a_task_says_that_it_gave_up_a_filter_by_keys(tmp_path, kept, given_up):
    groups = [pa.table({"key": list(range(10_000))}) for _ in range(4)]
    files = relation([write_file(tmp_path / "a.parquet", groups)], groups[0].schema)
    costs = replace(DRIVER, key_filter_probe_rows=8, scan_run_rows_of_numbers=1)
    wanted = range(0, 10_000, 10_000 // kept)
    (task,) = scan_tasks(
        plan_access(files, ("key",), None, (KeyFilter("key", key_set(pa.array(wanted), DRIVER)),)), 1, costs
    )
    context = TaskContext()
    rows = sum(batch.num_rows for batch in task.read(context))
    assert rows == 4 * kept
    assert context.metrics.get("join_filters_given_up") == given_up
