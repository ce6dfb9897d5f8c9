"""No plan reads its table more than twice where there are more than four slots, whatever the costs say."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.config import Settings
from sundog.expr.calls import AggregateCall, Bound, BoundKind, Frame, NamedExpr, WindowCall
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.operators.aggregate.key_probe import ProbeKeys
from sundog.operators.scan.scan import ScanTask
from sundog.operators.sources import Source
from sundog.operators.window.ranges.scans import RangeScan
from sundog.plan.costs import DRIVER, EXECUTORS, Costs
from sundog.plan.logical import Aggregate, LogicalPlan, Scan, Window
from sundog.plan.lower.planner import Planner, Rows, Sites, Step
from sundog.plan.rules.order import optimize
from sundog.plan.stages import Parts, Place, Site, StageGraph
from sundog.simulate.synthetic import SyntheticColumn, SyntheticTable

LONG = pa.int64()
KEY, VALUE = Column("key#1", LONG), Column("value#2", LONG)
EAGER = replace(
    EXECUTORS, max_scattered_reads=1000.0, max_clustered_reads=1000.0, max_shares=1000, shuffle_ns_per_row=1e9
)
ROWS_OF_KEYS = 1000


def table(clustering: float) -> SyntheticTable:
    columns = (SyntheticColumn("key", LONG, 8.0, clustering), SyntheticColumn("value", LONG, 8.0))
    return SyntheticTable.of(rows=20_000_000, row_groups=200, files=20, columns=columns)


def window(scan: Scan) -> LogicalPlan:
    frame = Frame("range", Bound(BoundKind.OFFSET, -1000), Bound(BoundKind.CURRENT_ROW))
    return Window(scan, (WindowCall("sum#9", "sum", (VALUE,), LONG, frame),), (), (SortKey(KEY, False, True),))


def groups(scan: Scan) -> LogicalPlan:
    return Aggregate(scan, (NamedExpr("key#1", KEY),), (AggregateCall("sum#9", "sum", (VALUE,), LONG),))


def answer(step: Step) -> Rows | None:
    """A probe finds that every key is new; nothing else is run."""
    probe = step.stage.operators[-1] if step.stage.operators else None
    if not isinstance(probe, ProbeKeys):
        return None
    return [pa.RecordBatch.from_pylist([{"gives_up": True, "groups": ROWS_OF_KEYS, "new_share": 1.0}], probe.schema)]


def planned(made: SyntheticTable, tree: LogicalPlan, slots: int, costs: Costs, executors: int = 0) -> StageGraph:
    site = Site(Place.EXECUTORS, slots, 1 << 30, costs, executors)
    sites = Sites(Site(Place.DRIVER, 2, 1 << 30, DRIVER), lambda: site)
    planner = Planner(optimize(tree), Settings(placement="executors"), sites)
    planner.facts.footers.know(made.footers)
    return planner.plan(answer)


def slices_of(source: Source) -> list[tuple[str, int]]:
    if isinstance(source, RangeScan):
        return [each for part in source.parts for each in slices_of(part)]
    if isinstance(source, ScanTask):
        return [(part.file.path, group) for part in source.slices for group in part.row_groups]
    return []


def reads_of(graph: StageGraph) -> float:
    """Row groups that tasks read on executors over those of the table: samples and probes are on the driver."""
    found = [
        each
        for stage in graph.stages
        if stage.place is Place.EXECUTORS
        for given in stage.inputs
        if isinstance(given, Parts)
        for source in given.sources
        for each in slices_of(source)
    ]
    return len(found) / max(len(set(found)), 1)


@settings(max_examples=40)
@given(
    shape=st.sampled_from([window, groups]),
    clustering=st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.98, 1.0]),
    slots=st.sampled_from([5, 8, 16, 64, 200]),
    costs=st.sampled_from([EXECUTORS, EAGER]),
    executors=st.sampled_from([0, 2, 5]),
)
def test_with_many_slots_no_table_is_read_more_than_twice(
    shape: type, clustering: float, slots: int, costs: Costs, executors: int
) -> None:
    made = table(clustering)
    scan = Scan(made.table, ("key#1", "value#2"))
    graph = planned(made, shape(scan), slots, costs, executors)
    assert 1.0 <= reads_of(graph) <= 2.0


@pytest.mark.parametrize("shape", [window, groups])
def test_few_slots_may_each_read_it(shape: type) -> None:
    made = table(0.0)
    scan = Scan(made.table, ("key#1", "value#2"))
    assert reads_of(planned(made, shape(scan), 4, EAGER)) >= 4.0
    assert reads_of(planned(made, shape(scan), 5, EAGER)) == 1.0
