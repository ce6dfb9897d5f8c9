"""No plan reads a table more than twice for each scan where there are more than four slots, whatever the costs say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.config import Settings
from sundog.expr.calls import AggregateCall, Bound, BoundKind, Frame, JoinKey, JoinKind, NamedExpr, WindowCall
from sundog.expr.nodes import Column, Compare, CompareOp, SubqueryValue
from sundog.expr.ordering import SortKey
from sundog.operators.aggregate.key_probe import ProbeKeys
from sundog.operators.scan.scan import ScanTask
from sundog.operators.sources import Source
from sundog.operators.window.ranges.scans import RangeScan
from sundog.parquet.meta.table_footers import TableFooters
from sundog.plan.costs import DRIVER, EXECUTORS, Costs
from sundog.plan.logical import Aggregate, Filter, Join, LogicalPlan, Scan, Window
from sundog.plan.lower.planner import Planner, Rows, Step
from sundog.plan.rules.order import optimize
from sundog.plan.sites import Sites
from sundog.plan.stages import Parts, Place, Site, StageGraph
from sundog.simulate.synthetic import SyntheticColumn, SyntheticTable

LONG = pa.int64()
KEY, VALUE = Column("key#1", LONG), Column("value#2", LONG)
EAGER = replace(
    EXECUTORS, max_scattered_reads=1000.0, max_clustered_reads=1000.0, max_shares=1000, shuffle_ns_per_row=1e9
)
ROWS_OF_KEYS = 1000
FOLDER = "/synthetic"


def table(clustering: float, rows: int = 20_000_000) -> SyntheticTable:
    columns = (SyntheticColumn("key", LONG, 8.0, clustering), SyntheticColumn("value", LONG, 8.0))
    return SyntheticTable.of(rows=rows, row_groups=200, files=20, columns=columns)


def window(child: LogicalPlan) -> LogicalPlan:
    """Over the first two columns of the child, as the following."""
    frame = Frame("range", Bound(BoundKind.OFFSET, -1000), Bound(BoundKind.CURRENT_ROW))
    key, value = (Column(name, LONG) for name in child.schema.names[:2])
    return Window(child, (WindowCall("sum#9", "sum", (value,), LONG, frame),), (), (SortKey(key, False, True),))


def groups(child: LogicalPlan) -> LogicalPlan:
    key, value = (Column(name, LONG) for name in child.schema.names[:2])
    number = 9 if key == KEY else 19
    return Aggregate(child, (NamedExpr(key.name, key),), (AggregateCall(f"sum#{number}", "sum", (value,), LONG),))


def answer(step: Step) -> Rows | None:
    """A probe finds that every key is new; nothing else is run."""
    probe = step.stage.operators[-1] if step.stage.operators else None
    if not isinstance(probe, ProbeKeys):
        return None
    return [pa.RecordBatch.from_pylist([{"gives_up": True, "groups": ROWS_OF_KEYS, "new_share": 1.0}], probe.schema)]


class OfSynthetic(Planner):
    """Plans over tables that are not there: `known` are their footers, also for subqueries."""

    known: Sequence[TableFooters] = ()

    def know(self, tables: Sequence[SyntheticTable]) -> None:
        self.known = [made.footers for made in tables]
        for footers in self.known:
            self.facts.footers.know(footers)

    def inside(self, plan: LogicalPlan) -> Planner:
        planner = super().inside(plan)
        for footers in self.known:
            planner.facts.footers.know(footers)
        return planner


def planned(
    made: Sequence[SyntheticTable],
    tree: LogicalPlan,
    slots: int,
    costs: Costs,
    executors: int = 0,
    subqueries: Mapping[int, LogicalPlan] = MappingProxyType({}),
) -> StageGraph:
    site = Site(Place.EXECUTORS, slots, 1 << 30, costs, executors)
    sites = Sites(Site(Place.DRIVER, 2, 1 << 30, DRIVER), lambda: site)
    plans = {number: optimize(plan) for number, plan in subqueries.items()}
    planner = OfSynthetic(optimize(tree), Settings(placement="executors"), sites, subqueries=plans)
    planner.know(made)
    return planner.plan(answer)


def slices_of(source: Source) -> list[tuple[str, int]]:
    if isinstance(source, RangeScan):
        return [each for part in source.parts for each in slices_of(part)]
    if isinstance(source, ScanTask):
        return [(part.file.path, group) for part in source.slices for group in part.row_groups]
    return []


def reads_of(graph: StageGraph) -> dict[str, float]:
    """Of each folder, row groups that tasks read on executors over those of the table: samples and probes are on the
    driver."""
    found = [
        each
        for stage in graph.stages
        if stage.place is Place.EXECUTORS
        for given in stage.inputs
        if isinstance(given, Parts)
        for source in given.sources
        for each in slices_of(source)
    ]
    folders = {path.rpartition("/")[0] for path, _ in found}
    of_folder = {folder: [each for each in found if each[0].startswith(f"{folder}/")] for folder in folders}
    return {folder: len(each) / len(set(each)) for folder, each in of_folder.items()}


CLUSTERINGS = [0.0, 0.5, 0.9, 0.95, 0.98, 1.0]
SLOTS = [5, 8, 16, 64, 200]


@settings(max_examples=40)
@given(
    shape=st.sampled_from([window, groups]),
    clustering=st.sampled_from(CLUSTERINGS),
    slots=st.sampled_from(SLOTS),
    costs=st.sampled_from([EXECUTORS, EAGER]),
    executors=st.sampled_from([0, 2, 5]),
)
def test_with_many_slots_no_table_is_read_more_than_twice(
    shape: type, clustering: float, slots: int, costs: Costs, executors: int
) -> None:
    made = table(clustering)
    scan = Scan(made.table, ("key#1", "value#2"))
    graph = planned([made], shape(scan), slots, costs, executors)
    assert 1.0 <= reads_of(graph)[FOLDER] <= 2.0


@pytest.mark.parametrize("shape", [window, groups])
def test_few_slots_may_each_read_it(shape: type) -> None:
    made = table(0.0)
    scan = Scan(made.table, ("key#1", "value#2"))
    assert reads_of(planned([made], shape(scan), 4, EAGER))[FOLDER] >= 4.0
    assert reads_of(planned([made], shape(scan), 5, EAGER))[FOLDER] == 1.0


def copied(made: SyntheticTable, folder: str, first: int) -> tuple[SyntheticTable, Scan]:
    """The same in another folder, read under columns of such numbers."""
    files = tuple(replace(file, path=file.path.replace(FOLDER, folder)) for file in made.table.files)
    columns = tuple(
        replace(each, name=f"{each.file_name}#{first + at}") for at, each in enumerate(made.table.file_columns)
    )
    footers = replace(made.footers, paths=tuple(file.path for file in files))
    table = replace(made.table, files=files, file_columns=columns)
    return replace(made, table=table, footers=footers), Scan(table, tuple(each.name for each in columns))


def joined(left: LogicalPlan, right: LogicalPlan, kind: JoinKind = JoinKind.INNER) -> LogicalPlan:
    """By the first column of each."""
    keys = (Column(each.schema.names[0], LONG) for each in (left, right))
    return Join(left, right, kind, (JoinKey(*keys),))


@settings(max_examples=60, deadline=None)
@given(
    shape=st.sampled_from([None, window, groups]),
    rows=st.sampled_from([1000, 200_000, 20_000_000]),
    kind=st.sampled_from([JoinKind.INNER, JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI]),
    clustering=st.sampled_from(CLUSTERINGS),
    slots=st.sampled_from(SLOTS),
    costs=st.sampled_from([EXECUTORS, EAGER]),
    executors=st.sampled_from([0, 2, 5]),
)
def test_with_many_slots_no_side_of_a_join_is_read_more_than_twice(
    shape: Callable[[Scan], LogicalPlan] | None,
    rows: int,
    kind: JoinKind,
    clustering: float,
    slots: int,
    costs: Costs,
    executors: int,
) -> None:
    """Whether it is built in each process, or both move."""
    fact, (other, right) = table(clustering), copied(table(0.0, rows), "/other", 11)
    left = Scan(fact.table, ("key#1", "value#2"))
    tree = joined(left, right, kind)
    tree = tree if shape is None else shape(tree)
    reads = reads_of(planned([fact, other], tree, slots, costs, executors))
    assert 1.0 <= reads[FOLDER] <= 2.0
    assert reads.get("/other", 1.0) <= 2.0, "or on the driver alone"
    assert "/other" in reads or rows < 20_000_000


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("costs", [EXECUTORS, EAGER])
def test_with_many_slots_both_readers_of_a_subplan_read_its_table_once(slots: int, costs: Costs) -> None:
    """The groups of a table, joined with themselves."""
    made = table(0.0)
    tree = joined(groups(Scan(made.table, ("key#1", "value#2"))), groups(copied(made, FOLDER, 11)[1]))
    sharing = replace(costs, shared_bytes=1 << 40, min_shared_reads=1.0)
    graph = planned([made], tree, slots, sharing)
    assert graph.planned_metrics().as_numbers().get("subplans_shared") == 1
    assert 1.0 <= reads_of(graph)[FOLDER] <= 2.0
    apart = planned([made], tree, slots, replace(costs, shared_bytes=1))
    assert 2.0 <= reads_of(apart)[FOLDER] <= 4.0, "twice for each of two scans"


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("costs", [EXECUTORS, EAGER])
@pytest.mark.parametrize("shape", [window, groups])
def test_with_many_slots_the_table_of_a_subquery_is_read_no_more_than_twice(
    shape: Callable[[LogicalPlan], LogicalPlan], costs: Costs, slots: int
) -> None:
    """`WHERE value < (SELECT max(…) …)`, over the groups of another table."""
    fact, (other, right) = table(0.0), copied(table(0.0), "/other", 11)
    value = Compare(CompareOp.LT, VALUE, SubqueryValue(0, 0, LONG))
    tree = shape(Filter(Scan(fact.table, ("key#1", "value#2")), value))
    largest = Aggregate(groups(right), (), (AggregateCall("max#29", "max", (Column("sum#19", LONG),), LONG),))
    reads = reads_of(planned([fact, other], tree, slots, costs, subqueries={0: largest}))
    assert set(reads) == {FOLDER, "/other"}
    assert all(1.0 <= each <= 2.0 for each in reads.values())
