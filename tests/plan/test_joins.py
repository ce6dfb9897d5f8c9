"""Joins as graphs of stages: what is built, which row groups and rows the keys of a build side keep from being read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sundog.config import Settings
from sundog.expr.calls import AggregateCall, JoinKey, JoinKind, NamedExpr, WindowCall
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.errors import SparkQueryError
from sundog.expr.nodes import Arith, ArithOp, Column, Compare, CompareOp, Expr, Literal
from sundog.expr.ordering import SortKey
from sundog.plan.costs import DRIVER
from sundog.plan.logical import Aggregate, Filter, Join, Limit, LogicalPlan, Project, Scan, Union, Window
from sundog.plan.lower.planner import Planner
from sundog.plan.lower.push_filter import push_filter
from sundog.plan.rules.order import optimize
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.execute import StageRunner
from sundog.support import Code, Declined
from sundog.tables.parquet_folder import ParquetFolder
from sundog.tables.table import DataFile, FileColumn, PartitionColumn
from tests.plan.test_lower import RANGE_FRAME, ROW_FRAME, WHOLE, Planned, explain, run, sites

LONG, TEXT = pa.int64(), pa.string()
FACTS = 64_000
DIMENSION = 1000


def column(name: str, dtype: pa.DataType = LONG) -> Column:
    return Column(name, dtype)


def written(folder: Path, label: str, table: pa.Table, files: int, row_group: int, first_id: int) -> Scan:
    folder.mkdir()
    parts = []
    size = -(-table.num_rows // files)
    for part in range(files):
        path = folder / f"part-{part}.parquet"
        pq.write_table(table.slice(part * size, size), path, row_group_size=row_group)
        found = path.stat()
        parts.append(DataFile(str(path), found.st_size, found.st_mtime_ns // 1_000_000))
    names = [f"{field.name}#{first_id + at}" for at, field in enumerate(table.schema)]
    columns = tuple(FileColumn(name, field.name, field.type) for name, field in zip(names, table.schema, strict=True))
    return Scan(ParquetFolder(tuple(parts), columns, label=label), tuple(names))


@pytest.fixture(scope="module")
def fact(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """fact#1 clustered, fact#2 anywhere, fact#3 a value: 64 row groups."""
    ids = np.arange(FACTS)
    table = pa.table({"clustered": ids // 64, "anywhere": ids * 7919 % DIMENSION, "value": ids})
    return written(tmp_path_factory.mktemp("join") / "fact", "fact", table, 4, 1000, 1)


@pytest.fixture(scope="module")
def dimension(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """id#11, name#12, part#13."""
    ids = np.arange(DIMENSION)
    table = pa.table({"id": ids, "name": pa.array([f"name {i % 100}" for i in ids.tolist()]), "part": ids % 100})
    return written(tmp_path_factory.mktemp("join") / "dim", "dim", table, 1, 1000, 11)


def dimension_as(dimension: Scan, first_id: int) -> Scan:
    """The same table under other names, as in a self join."""
    columns = tuple(
        replace(each, name=f"{each.file_name}#{first_id + at}") for at, each in enumerate(dimension.table.file_columns)
    )
    table = replace(dimension.table, label="dim2", file_columns=columns)
    return replace(dimension, table=table, columns=tuple(each.name for each in columns))


CLUSTERED, ANYWHERE, VALUE = column("clustered#1"), column("anywhere#2"), column("value#3")
ID, NAME, PART = column("id#11"), column("name#12", TEXT), column("part#13")


def equals(one: Expr, number: int) -> Expr:
    return Compare(CompareOp.EQ, one, Literal(number, LONG))


def joined(left: LogicalPlan, right: LogicalPlan, one: Column, two: Column, kind: JoinKind = JoinKind.INNER) -> Join:
    return Join(left, right, kind, (JoinKey(one, two),))


def totals(child: LogicalPlan) -> Aggregate:
    calls = (AggregateCall("n#90", "count", (), LONG), AggregateCall("s#91", "sum", (VALUE,), LONG))
    return Aggregate(child, (), calls)


def answer(planned: Planned) -> tuple[Any, ...]:
    [batch] = [batch for batch in planned.rows if batch.num_rows]
    return tuple(value[0].as_py() for value in batch.columns)


def metric(planned: Planned, name: str) -> int:
    return int(planned.graph.planned_metrics().get(name) + sum(record.metrics.get(name) for record in planned.records))


def test_keys_of_a_selective_dimension_prune_row_groups_of_a_clustered_fact(fact: Scan, dimension: Scan) -> None:
    tree = totals(joined(fact, Filter(dimension, Compare(CompareOp.LT, ID, Literal(10, LONG))), CLUSTERED, ID))
    found = run(tree)
    rows = [value for value in range(FACTS) if value // 64 < 10]
    assert answer(found) == (len(rows), sum(rows))
    assert metric(found, "row_groups_pruned_join_filter") == 63  # under 5 % of 64 are read
    assert metric(found, "row_groups_scanned") == 2  # one of the dimension, one of the fact
    assert (
        found.text
        == """\
Aggregate: mode=final, keys=[]
  HashExchange: keys=[]
    Aggregate: mode=partial, keys=[], aggregates=[count(*) AS n#90, sum(value#3) AS s#91]
      HashJoin: inner, clustered#1 = id#11
        BuildSide
          ParquetScan: dim, files=1, columns=[id#11], predicate=(id#11 < 10)
        ParquetScan: fact, files=4, columns=[clustered#1, value#3], \
join_filters=[clustered#1: 10 keys], 64 row groups -> 1"""
    )


def test_explain_shows_the_filter_before_its_keys_are_known(fact: Scan, dimension: Scan) -> None:
    tree = totals(joined(fact, Filter(dimension, equals(PART, 1)), ANYWHERE, ID))
    for place in ("driver", "executors"):
        assert "join_filters=[anywhere#2]" in explain(tree, place)


def test_rows_of_a_random_key_are_dropped_before_other_columns_are_decoded(fact: Scan, dimension: Scan) -> None:
    found = run(totals(joined(fact, Filter(dimension, equals(PART, 7)), ANYWHERE, ID)))
    rows = [value for value in range(FACTS) if value * 7919 % DIMENSION % 100 == 7]
    assert answer(found) == (len(rows), sum(rows))
    assert metric(found, "rows_pruned_join_filter") == FACTS - len(rows)
    assert metric(found, "join_probe_rows") == len(rows)


def test_a_filter_that_drops_little_is_given_up(fact: Scan, dimension: Scan) -> None:
    wide = Compare(CompareOp.LT, ID, Literal(900, LONG))
    tree = totals(joined(fact, Filter(dimension, wide), ANYWHERE, ID))
    rows = [value for value in range(FACTS) if value * 7919 % DIMENSION < 900]
    for most, dropped in ((0.8, FACTS // 4), (0.95, FACTS)):  # the first of four files is enough to judge
        found = run(tree, task_bytes=1 << 30, key_filter_probe_rows=FACTS // 8, max_key_filter_share=most)
        assert answer(found) == (len(rows), sum(rows))
        assert metric(found, "rows_pruned_join_filter") == dropped // 10


def test_a_chain_of_joins_is_one_pass_and_filters_reach_through_it(fact: Scan, dimension: Scan) -> None:
    other = dimension_as(dimension, 21)
    inner = joined(fact, dimension, CLUSTERED, ID)
    tree = totals(joined(inner, Filter(other, equals(column("part#23"), 3)), PART, column("id#21")))
    found = run(tree)
    rows = [value for value in range(FACTS) if (value // 64) % 100 == 3]
    assert answer(found) == (len(rows), sum(rows))
    # The second dimension's key filters the first, whose keys then filter the fact table.
    assert "ParquetScan: dim, files=1, columns=[id#11, part#13], join_filters=[part#13: 10 keys]" in found.text
    assert "join_filters=[clustered#1: 10 keys]" in found.text
    assert found.text.count("HashJoin") == 2
    assert found.text.count("HashExchange") == 1


@pytest.mark.parametrize("kind", [JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI, JoinKind.FULL])
def test_outer_and_semi_joins_count_as_they_should(fact: Scan, dimension: Scan, kind: JoinKind) -> None:
    few = Filter(dimension, Compare(CompareOp.LT, ID, Literal(10, LONG)))
    found = run(totals(joined(few, fact, ID, CLUSTERED, kind)) if kind.shows_right else _counted(few, fact, kind))
    partners = 640
    expected = {JoinKind.LEFT: partners, JoinKind.SEMI: 10, JoinKind.ANTI: 0, JoinKind.FULL: FACTS}[kind]
    assert answer(found)[0] == expected


def _counted(left: LogicalPlan, right: LogicalPlan, kind: JoinKind) -> Aggregate:
    return Aggregate(joined(left, right, ID, CLUSTERED, kind), (), (AggregateCall("n#90", "count", (), LONG),))


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.SEMI])
def test_a_window_whose_join_has_no_build_rows_is_not_read(fact: Scan, dimension: Scan, kind: JoinKind) -> None:
    none = Filter(dimension, Compare(CompareOp.LT, PART, Literal(0, LONG)))
    count = WindowCall("n#91", "count", (), LONG, WHOLE)
    whole = Window(fact, (count,), (VALUE,), ())
    assert run(joined(whole, none, CLUSTERED, ID, kind)).rows == []
    assert metric(run(joined(whole, none, CLUSTERED, ID, kind)), "join_probes_skipped") > 0


def test_keys_of_a_small_kept_side_prune_the_other(fact: Scan, dimension: Scan) -> None:
    """`dim WHERE … AND EXISTS (fact)`: the dimension is read first."""
    found = run(_counted(Filter(dimension, Compare(CompareOp.LT, ID, Literal(3, LONG))), fact, JoinKind.SEMI))
    assert answer(found) == (3,)
    assert metric(found, "row_groups_pruned_join_filter") == 63


def test_two_large_sides_are_exchanged_on_executors(fact: Scan, dimension: Scan) -> None:
    text = explain(totals(joined(fact, dimension, ANYWHERE, ID)), broadcast_bytes=0)
    assert "PartitionedJoin: inner, anywhere#2 = id#11" in text
    assert "HashExchange: keys=[anywhere#2]" in text
    assert "HashExchange: keys=[id#11]" in text


@pytest.fixture(scope="module")
def skewed(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """clustered#1, anywhere#2, value#3: half of the rows have 7 `anywhere`."""
    ids = np.arange(FACTS)
    table = pa.table({"clustered": ids // 64, "anywhere": np.where(ids % 2, 7, ids % DIMENSION), "value": ids})
    return written(tmp_path_factory.mktemp("join") / "skewed", "skewed", table, 4, 1000, 1)


EXCHANGED = {"broadcast_bytes": 0, "task_bytes": 1024}


def test_a_key_of_half_the_rows_is_spread_over_partitions(skewed: Scan, dimension: Scan) -> None:
    for kind in (JoinKind.INNER, JoinKind.LEFT):
        text = explain(totals(joined(skewed, dimension, ANYWHERE, ID, kind)), **EXCHANGED)
        assert "HashExchange: keys=[anywhere#2], 1 hot key spread over up to 2 partitions" in text  # of four
        assert "HashExchange: keys=[id#11], 1 hot key replicated to up to 2 partitions" in text


def test_hot_keys_are_found_below_projections_filters_and_joins(skewed: Scan, dimension: Scan) -> None:
    other = Filter(dimension, Compare(CompareOp.LT, ID, Literal(900, LONG)))
    below = Project(Filter(skewed, Compare(CompareOp.GT, VALUE, Literal(5, LONG))), _columns(ANYWHERE, CLUSTERED))
    inner = Project(joined(below, other, CLUSTERED, ID, JoinKind.LEFT), (NamedExpr("k#55", ANYWHERE),))
    tree = Aggregate(
        joined(inner, dimension_as(dimension, 21), column("k#55"), column("id#21"), JoinKind.LEFT),
        (),
        (AggregateCall("n#90", "count", (), LONG),),
    )
    assert "HashExchange: keys=[k#55], 1 hot key spread" in explain(tree, **EXCHANGED)


def test_no_key_is_hot_where_all_have_few_rows_or_build_rows_are_kept(
    fact: Scan, skewed: Scan, dimension: Scan
) -> None:
    assert "hot key" not in explain(totals(joined(fact, dimension, ANYWHERE, ID)), **EXCHANGED)
    assert "hot key" not in explain(totals(joined(skewed, dimension, ANYWHERE, ID, JoinKind.FULL)), **EXCHANGED)
    few = EXCHANGED | {"min_hot_key_factor": 3.0}
    assert "hot key" not in explain(totals(joined(skewed, dimension, ANYWHERE, ID)), **few)


def test_keys_of_a_build_side_that_is_exchanged_filter_the_other_where_that_spares_more(
    fact: Scan, dimension: Scan
) -> None:
    few = Filter(dimension, equals(PART, 1))  # 5 % of its rows, by a guess
    text = explain(totals(joined(fact, few, ANYWHERE, ID)), **EXCHANGED)
    assert "PartitionedJoin: inner, anywhere#2 = id#11" in text
    assert "Hold" in text
    assert "join_filters=[anywhere#2]" in text
    dear = EXCHANGED | {"hold_per_shuffle": 1e6}
    for tree, costs in (
        (totals(joined(fact, few, ANYWHERE, ID)), dear),
        (totals(joined(fact, few, ANYWHERE, ID)), EXCHANGED | {"gathered_keys": 10}),
        (totals(joined(fact, dimension, ANYWHERE, ID)), EXCHANGED),  # all keys are there
        (totals(joined(fact, few, ANYWHERE, ID, JoinKind.LEFT)), EXCHANGED),  # rows without a partner are kept
        (totals(joined(Limit(fact, 60_000), few, ANYWHERE, ID)), EXCHANGED),  # a filter would change the rows
    ):
        text = explain(tree, **costs)
        assert "PartitionedJoin" in text
        assert "Hold" not in text
        assert "join_filters" not in text


def _columns(*columns: Column) -> tuple[NamedExpr, ...]:
    return tuple(NamedExpr(each.name, each) for each in columns)


@pytest.mark.parametrize("allowed", [0, 100])  # bytes: not even its rows fit; they do, but not with their index
@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI])
def test_a_build_side_that_no_process_may_hold_is_exchanged(
    fact: Scan, dimension: Scan, kind: JoinKind, allowed: int
) -> None:
    tree = _counted(Filter(dimension, Compare(CompareOp.LT, ID, Literal(10, LONG))), fact, kind)
    held, exchanged = run(tree), run(tree, max_build_share=allowed / (2 << 30))
    assert answer(exchanged) == answer(held)
    assert "PartitionedJoin" not in held.text
    assert "PartitionedJoin" in exchanged.text
    assert any("bytes of a process" in reason for reason in exchanged.graph.given_up.values())
    if kind is JoinKind.INNER:
        assert ("join_filters=[clustered#1: 10 keys]" in exchanged.text) is (allowed > 0)


def test_an_exploding_build_side_is_no_longer_gathered_when_it_is_too_large(fact: Scan, dimension: Scan) -> None:
    """Of 80,000 pairs, 64 times as many as the rows that they are made of, a few batches are there when it stops."""
    one_key = Project(dimension, (NamedExpr("one#91", Literal(1, LONG)), NamedExpr("id#11", ID)))
    some = Project(Limit(dimension_as(dimension, 21), 80), (NamedExpr("one#92", Literal(1, LONG)),))
    pairs = joined(one_key, some, column("one#91"), column("one#92"))
    costs = {"max_build_share": 100_000 / (2 << 30), "join_batch_rows": 1000}
    found = run(totals(joined(fact, pairs, ANYWHERE, ID)), **costs)
    assert answer(found) == (80 * FACTS, 80 * sum(range(FACTS)))
    stopped = [record for record in found.records if record.number in found.graph.given_up]
    gathered = sum(record.operators[-2].rows for record in stopped if record.purpose == "Build side")
    assert 6_000 < gathered < 20_000


@pytest.mark.parametrize("kind", [JoinKind.SEMI, JoinKind.LEFT])
def test_keys_of_held_rows_filter_nothing_where_they_are_too_many_to_gather(
    fact: Scan, dimension: Scan, kind: JoinKind
) -> None:
    few = Filter(dimension, Compare(CompareOp.LT, ID, Literal(10, LONG)))
    tree = _counted(few, fact, kind)
    known, unknown = run(tree), run(tree, max_misjudged_broadcast=1e-6)
    assert answer(known) == answer(unknown)
    assert "join_filters=[clustered#1: 10 keys]" in known.text
    assert "join_filters=[clustered#1: " not in unknown.text
    assert any("no filter by these keys" in reason for reason in unknown.graph.given_up.values())


def test_rows_between_stages_may_not_take_more_of_the_driver_than_allowed(fact: Scan, dimension: Scan) -> None:
    """A join whose build side is too large is exchanged; where that is too much as well, Spark has the query."""
    tree = totals(joined(fact, dimension, ANYWHERE, ID))
    assert answer(run(tree, max_output_bytes=1 << 20)) == answer(run(tree))
    with pytest.raises(Declined) as declined:
        run(tree, max_output_bytes=1 << 10, max_build_share=0)
    assert declined.value.reasons[0].code is Code.TOO_LARGE
    assert "more than 1,024 bytes" in declined.value.reasons[0].sentence


def test_all_build_sides_of_a_plan_are_held_together(fact: Scan, dimension: Scan) -> None:
    """Each fits by itself; the last does not beside the others."""
    other = dimension_as(dimension, 21)
    tree = totals(joined(joined(fact, dimension, ANYWHERE, ID), other, ANYWHERE, column("id#21")))
    [size] = set(run(totals(joined(fact, dimension, ANYWHERE, ID))).graph.built_bytes.values())
    found = run(tree, max_build_share=1.5 * size / (2 << 30))
    assert answer(found) == (FACTS, sum(range(FACTS)))
    assert (found.text.count("HashJoin"), found.text.count("PartitionedJoin")) == (1, 1)


def test_not_in_a_list_that_no_process_may_hold_is_left_to_spark(fact: Scan, dimension: Scan) -> None:
    tree = _counted(dimension, fact, JoinKind.NULL_AWARE_ANTI)
    with pytest.raises(Declined) as declined:
        run(tree, max_build_share=0)
    assert declined.value.reasons[0].code is Code.COST


def test_a_union_of_a_join_and_an_aggregate_is_taken(fact: Scan, dimension: Scan) -> None:
    one = Project(joined(fact, Filter(dimension, equals(ID, 5)), CLUSTERED, ID), (NamedExpr("value#3", VALUE),))
    two = Project(totals(fact), (NamedExpr("value#3", column("n#90")),))
    found = run(totals(Union((one, two))))
    assert answer(found) == (65, sum(range(320, 384)) + FACTS)
    assert "Hold" in found.text


# --- where a filter may go --------------------------------------------------------------------------------------------


def filtered(plan: LogicalPlan, name: str) -> bool:
    """Whether a filter on the column gets to some scan."""
    return push_filter(plan, KeyFilter(name)) != plan


def test_a_filter_stops_where_a_dropped_row_could_matter(fact: Scan, dimension: Scan) -> None:
    division = Arith(ArithOp.INT_DIV, Literal(1, LONG), VALUE, LONG)
    left_outer = joined(fact, dimension, CLUSTERED, ID, JoinKind.LEFT)
    assert filtered(fact, "clustered#1")
    assert not filtered(Limit(fact, 5), "clustered#1")
    assert not filtered(Filter(fact, Compare(CompareOp.EQ, division, Literal(0, LONG))), "clustered#1")
    assert not filtered(Project(fact, (NamedExpr("clustered#1", CLUSTERED), NamedExpr("d#5", division))), "clustered#1")
    assert filtered(left_outer, "clustered#1")
    assert not filtered(left_outer, "id#11")
    assert not filtered(joined(fact, dimension, CLUSTERED, ID, JoinKind.FULL), "clustered#1")
    by_key = replace(totals(fact), keys=(NamedExpr("clustered#1", CLUSTERED),))
    assert not filtered(by_key, "clustered#1")  # the sum of bigints may overflow for a group that is dropped
    assert filtered(replace(by_key, aggregates=by_key.aggregates[:1]), "clustered#1")
    assert not filtered(replace(by_key, aggregates=by_key.aggregates[:1]), "n#90")
    count = WindowCall("n#91", "count", (), LONG, WHOLE)
    window = Window(fact, (count,), (CLUSTERED,), ())
    assert filtered(window, "clustered#1")
    assert not filtered(window, "value#3")
    reaching = replace(window, calls=(replace(count, frame=RANGE_FRAME),), order_by=(SortKey(VALUE),))
    assert not filtered(reaching, "clustered#1")  # key and offset may leave the type, in a partition that is dropped
    assert filtered(replace(reaching, calls=(replace(count, frame=ROW_FRAME),)), "clustered#1")
    raising = replace(count, filter=Compare(CompareOp.EQ, division, Literal(0, LONG)))
    assert not filtered(replace(window, calls=(raising,)), "clustered#1")
    raising_key = replace(left_outer, keys=(JoinKey(division, ID),))
    assert not filtered(raising_key, "clustered#1")


def test_a_key_that_may_raise_is_computed_for_every_row(fact: Scan, dimension: Scan) -> None:
    division = Arith(ArithOp.INT_DIV, Literal(1, LONG), VALUE, LONG)
    keys = (JoinKey(CLUSTERED, ID), JoinKey(division, PART))
    tree = totals(Join(fact, Filter(dimension, equals(ID, 3)), JoinKind.INNER, keys))
    assert "join_filters" not in explain(tree, "driver")
    with pytest.raises(SparkQueryError, match="DIVIDE_BY_ZERO"):
        run(tree)


def test_a_filter_goes_to_both_sides_of_an_equality(fact: Scan, dimension: Scan) -> None:
    found = push_filter(joined(fact, dimension, CLUSTERED, ID), KeyFilter("id#11"))
    assert isinstance(found, Join)
    assert isinstance(found.left, Scan)
    assert isinstance(found.right, Scan)
    assert [each.column for each in (*found.left.filters, *found.right.filters)] == ["clustered#1", "id#11"]
    kept = push_filter(joined(fact, dimension, CLUSTERED, ID, JoinKind.NULL_AWARE_ANTI), KeyFilter("clustered#1"))
    assert isinstance(kept, Join)
    assert kept.right == dimension  # a NULL of the right side decides for all rows


def test_keys_of_a_join_rule_out_folders_of_a_partitioned_table(dimension: Scan, tmp_path: Path) -> None:
    """`SELECT day, count(*) FROM facts JOIN dim ON day = id WHERE part = 7 GROUP BY day`: no file of another day is
    read. A day of NULL has no partner."""
    days = [*range(40), None]
    files = []
    for number, day in enumerate(days):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"value": np.arange(100)}), path, row_group_size=50)
        found = path.stat()
        files.append(DataFile(str(path), found.st_size, found.st_mtime_ns // 1_000_000, (day,)))
    columns, parted = (FileColumn("value#1", "value", LONG),), (PartitionColumn("day#2", 0, LONG),)
    facts = Scan(ParquetFolder(tuple(files), columns, parted, label="facts"), ("value#1", "day#2"))
    day = column("day#2")
    both = Join(facts, Filter(dimension, equals(PART, 7)), JoinKind.INNER, (JoinKey(day, ID),))
    found = run(Aggregate(both, (NamedExpr("day#2", day),), (AggregateCall("n#90", "count", (), LONG),)))
    assert [row for batch in found.rows for row in batch.to_pylist()] == [{"day#2": 7, "n#90": 100}]
    assert metric(found, "files_pruned_join_filter") == len(days) - 1
    assert metric(found, "row_groups_pruned_join_filter") == 0  # of files that are left
    assert metric(found, "row_groups_scanned") == 3  # those of the day, and the dimension's


@pytest.mark.parametrize("memory", [1 << 30, 1 << 20], ids=["in memory", "spilled"])
def test_a_full_outer_join_without_equal_keys_knows_the_unmatched_rows_of_both_sides(
    fact: Scan, dimension: Scan, memory: int
) -> None:
    """`SELECT count(*), count(id), count(value) FROM dim FULL JOIN fact ON id > value + 990`"""
    few = Filter(dimension, Compare(CompareOp.GE, ID, Literal(900, LONG)))
    later = Compare(CompareOp.GT, ID, Arith(ArithOp.ADD, VALUE, Literal(990, LONG), LONG))
    both = Join(few, fact, JoinKind.FULL, (), later)
    calls = [AggregateCall(f"n#{at}", "count", of, LONG) for at, of in ((90, ()), (91, (ID,)), (92, (VALUE,)))]
    planner = Planner(optimize(Aggregate(both, (), tuple(calls))), Settings(), sites(DRIVER, memory=memory))
    runner = StageRunner(DriverRuntime(2, memory))
    planner.plan(lambda step: runner.answer(step.stage))
    assert planner.graph.result is not None
    found = Planned(planner.graph, runner.rows(planner.graph.result), runner.records.in_order())
    pairs = sum(range(1, 10))
    ids_alone, values_alone = 100 - 9, FACTS - 9
    assert answer(found) == (pairs + ids_alone + values_alone, pairs + ids_alone, pairs + values_alone)
    assert (metric(found, "spill_count") > 0) == (memory == 1 << 20)


def test_a_full_outer_join_of_many_pairs_stays_on_spark(fact: Scan, dimension: Scan) -> None:
    later = Compare(CompareOp.GT, ID, VALUE)
    tree = Aggregate(Join(dimension, fact, JoinKind.FULL, (), later), (), (AggregateCall("n#90", "count", (), LONG),))
    with pytest.raises(Declined, match="1,000 times 64,000 pairs for one task; 1,000,000 are compared"):
        run(tree, max_unkeyed_pairs=1_000_000)
    [batch] = [batch for batch in run(tree).rows if batch.num_rows]
    assert batch.column(0)[0].as_py() == sum(range(1000)) + 1 + (FACTS - 999)
