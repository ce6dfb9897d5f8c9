"""Every shape and strategy as the graph of stages that runs it: golden texts, from files and made-up sites, without
Spark.

On the driver the plan also runs, and the text is that of what ran. On executors it is explained: only probes run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sundog.config import Settings
from sundog.expr.calls import AggregateCall, Bound, BoundKind, Frame, NamedExpr, WindowCall
from sundog.expr.nodes import Column, Compare, CompareOp, Expr, Literal
from sundog.expr.ordering import SortKey
from sundog.operators.window.ranges.halo import RangeRepartition
from sundog.plan.costs import DRIVER, EXECUTORS, Costs
from sundog.plan.explain import outline, render_plan, steps_of
from sundog.plan.logical import Aggregate, Filter, Limit, LogicalPlan, Project, Scan, Sort, TopK, Union, Window
from sundog.plan.lower.planner import Planner, Rows
from sundog.plan.outputs import Exchange
from sundog.plan.records import StageRecord
from sundog.plan.rules.order import optimize
from sundog.plan.sites import Sites
from sundog.plan.stages import Place, Site, StageGraph
from sundog.report.explain import analyzed_text, counts_of
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.execute import StageRunner
from sundog.support import Declined
from sundog.tables.parquet_folder import ParquetFolder
from sundog.tables.table import DataFile, FileColumn

LONG, DOUBLE, TEXT = pa.int64(), pa.float64(), pa.string()
ID, KEY, VALUE, WILD, NAME = (
    Column(name, dtype)
    for name, dtype in (("id#1", LONG), ("k#2", LONG), ("v#3", LONG), ("w#4", DOUBLE), ("s#5", TEXT))
)
ROWS = 8000
SMALL_TASKS = {"task_bytes": 1024}
HERE = Bound(BoundKind.CURRENT_ROW)
ROW_FRAME = Frame("rows", Bound(BoundKind.OFFSET, -2), HERE)
RANGE_FRAME = Frame("range", Bound(BoundKind.OFFSET, -5), HERE)
RUNNING = Frame("range", Bound(BoundKind.UNBOUNDED_PRECEDING), HERE)
WHOLE = Frame("rows", Bound(BoundKind.UNBOUNDED_PRECEDING), Bound(BoundKind.UNBOUNDED_FOLLOWING))


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """Four files of four row groups: `id` ascends, `k` is anywhere, `w` has doubles that lose rows when added up."""
    folder = tmp_path_factory.mktemp("table")
    ids = np.arange(ROWS)
    table = pa.table(
        {
            "id": ids,
            "k": ids * 7919 % 1000,
            "v": ids % 10,
            "w": np.where(ids % 2 == 0, 1e308, -1e308),
            "s": pa.array([f"name {number % 50}" for number in ids.tolist()]),
        }
    )
    files = []
    for part in range(4):
        path = folder / f"part-{part}.parquet"
        pq.write_table(table.slice(part * ROWS // 4, ROWS // 4), path, row_group_size=ROWS // 16)
        found = path.stat()
        files.append(DataFile(str(path), found.st_size, found.st_mtime_ns // 1_000_000))
    columns = tuple(
        FileColumn(each.name, each.name.partition("#")[0], each.dtype) for each in (ID, KEY, VALUE, WILD, NAME)
    )
    return Scan(ParquetFolder(tuple(files), columns, label="t"), ("id#1", "k#2", "v#3", "w#4", "s#5"))


@dataclass(frozen=True)
class Planned:
    graph: StageGraph
    rows: Rows
    records: list[StageRecord]

    @property
    def text(self) -> str:
        return render_plan(self.graph)

    @property
    def steps(self) -> list[str]:
        """What was run for the planner alone."""
        return [stage.purpose for stage in steps_of(self.graph)]


def sites(
    costs: Costs,
    executors: Costs = EXECUTORS,
    problem: str | None = None,
    memory: int = 1 << 30,
    slots: int = 2,
    processes: int = 0,
) -> Sites:
    remote = Site(Place.EXECUTORS, slots, memory, executors, processes)
    return Sites(Site(Place.DRIVER, 2, memory, costs), lambda: remote, problem)


def run(tree: LogicalPlan, max_output_bytes: int | None = None, **numbers: float) -> Planned:
    """Plan and run on driver threads. `max_output_bytes`: of the rows that a stage puts out."""
    planner = Planner(optimize(tree), Settings(placement="driver"), sites(replace(DRIVER, **numbers)))
    runner = StageRunner(DriverRuntime(2, 1 << 30, max_output_bytes=max_output_bytes))
    planner.plan(lambda step: runner.answer(step.stage))
    assert planner.graph.result is not None
    rows = runner.rows(planner.graph.result)
    return Planned(planner.graph, rows, runner.records.in_order())


def explain(tree: LogicalPlan, place: str = "executors", **numbers: float) -> str:
    """Plan for a place, running nothing but probes."""
    costs = replace(DRIVER, **numbers), replace(EXECUTORS, **numbers)
    planner = Planner(optimize(tree), Settings(placement=place), sites(*costs))  # type: ignore[arg-type]
    runner = StageRunner(DriverRuntime(2, 1 << 30))
    return render_plan(planner.plan(lambda step: runner.answer(step.stage) if step.is_probe else None))


def by(*columns: Column, descending: bool = False) -> tuple[SortKey, ...]:
    return tuple(SortKey(column, descending, not descending) for column in columns)


def keys(*columns: Column) -> tuple[NamedExpr, ...]:
    return tuple(NamedExpr(column.name, column) for column in columns)


def total(column: Column = VALUE, distinct: bool = False) -> AggregateCall:
    return AggregateCall("sum#9", "sum", (column,), LONG, distinct=distinct)


def count(column: Column, distinct: bool = False) -> AggregateCall:
    return AggregateCall("count#8", "count", (column,), LONG, distinct=distinct)


def over(
    child: LogicalPlan, frame: Frame, *order: SortKey, partition: tuple[Expr, ...] = (), column: Column = VALUE
) -> Window:
    call = WindowCall("win#7", "sum", (column,), column.dtype, frame)
    return Window(child, (call,), partition, order)


def column_of(rows: Rows, name: str) -> list[object]:
    return [value for batch in rows for value in batch.column(name).to_pylist()]


# --- top-k ---------------------------------------------------------------------------------------------------------


TOPK = """\
LateMaterialize: columns=[s#5]
  TopK: fetch=3, order=[id#1 DESC NULLS LAST]
    ParquetScan: t, files=4, columns=[id#1], dynamic_rg_pruning=eligible"""


def topk(scan: Scan) -> LogicalPlan:
    return TopK(replace(scan, columns=("id#1", "s#5")), by(ID, descending=True), 3)


@pytest.mark.parametrize("place", ["driver", "executors"])
def test_a_topk_is_tied_to_its_scan(scan: Scan, place: str) -> None:
    assert explain(topk(scan), place) == TOPK


def test_the_stages_of_a_topk_belong_to_the_lines_of_its_plan(scan: Scan) -> None:
    found = run(topk(scan))
    assert found.text == TOPK
    assert column_of(found.rows, "id#1") == [ROWS - 1, ROWS - 2, ROWS - 3]
    taken = {line.name: [stage.purpose for stage in line.stages] for line in outline(found.graph)}
    assert taken == {"LateMaterialize": ["Materialize"], "TopK": ["TopK search"], "ParquetScan": ["TopK search"]}
    assert found.steps == []


def test_a_topk_over_results_chooses_groups_before_it_looks_up_their_keys(scan: Scan) -> None:
    groups = Aggregate(scan, keys(KEY), (total(),))
    assert (
        run(TopK(groups, by(Column("sum#9", LONG), descending=True), 3)).text
        == """\
TopK: fetch=3, order=[sum#9 DESC NULLS LAST]
  Gather
    TopK: fetch=3, order=[sum#9 DESC NULLS LAST]
      Aggregate: mode=final, keys=[k#2], fetch=3, order=[sum#9 DESC NULLS LAST]
        HashExchange: keys=[k#2]
          Aggregate: mode=partial, keys=[k#2], aggregates=[sum(v#3) AS sum#9]
            ParquetScan: t, files=4, columns=[k#2, v#3]"""
    )


def test_sort_and_limit_end_on_the_driver(scan: Scan) -> None:
    groups = Aggregate(scan, keys(VALUE), ())
    assert run(Sort(groups, by(VALUE))).text.startswith(
        "Sort: [v#3 ASC NULLS FIRST]\n  Gather\n    Aggregate: mode=final"
    )
    assert run(Limit(groups, 2, 1)).text.startswith(
        "Limit: fetch=2, skip=1\n  Gather\n    Limit: fetch=3\n      Aggregate"
    )
    narrow = Project(scan, keys(ID))
    assert run(Limit(narrow, 2)).text == "Limit: fetch=2\n  ParquetScan: t, files=4, columns=[id#1]"


# --- aggregate -----------------------------------------------------------------------------------------------------


EXCHANGED = """\
Aggregate: mode=final, keys=[k#2]
  HashExchange: keys=[k#2]
    Aggregate: mode=partial, keys=[k#2], aggregates=[sum(v#3) AS sum#9]
      ParquetScan: t, files=4, columns=[k#2, v#3]"""


SHARES = """\
Aggregate: mode=final, keys=[k#2]
  Aggregate: mode=partial, keys=[k#2], aggregates=[sum(v#3) AS sum#9]
    ParquetScan: t, files=4, columns=[k#2, v#3], read by each of 2 tasks"""


def grouped(scan: Scan) -> LogicalPlan:
    return Aggregate(scan, keys(KEY), (total(),))


def test_groups_on_the_driver_are_exchanged(scan: Scan) -> None:
    found = run(grouped(scan))
    assert found.text == explain(grouped(scan), "driver") == EXCHANGED
    assert sum(column_of(found.rows, "sum#9")) == sum(number % 10 for number in range(ROWS))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({}, EXCHANGED.replace("HashExchange: keys=[k#2]", "Gather: few groups are merged on the driver")),
        ({**SMALL_TASKS, "gather_groups": 10, "shuffle_ns_per_row": 0, "shuffle_ns_per_byte": 0}, EXCHANGED),
        ({**SMALL_TASKS, "gather_groups": 10, "shuffle_ns_per_row": 1e6, "max_scattered_reads": 1}, SHARES),
        (
            {**SMALL_TASKS, "gather_groups": 10, "shuffle_ns_per_row": 1e6, "few_slots": 1, "max_reads_by_many": 1},
            EXCHANGED,
        ),
    ],
    ids=["gather", "exchange", "shares", "too many slots for shares"],
)
def test_on_executors_costs_choose_how_groups_come_together(
    scan: Scan, numbers: dict[str, float], expected: str
) -> None:
    assert explain(grouped(scan), **numbers) == expected


def test_distinct_has_three_phases(scan: Scan) -> None:
    found = run(Aggregate(scan, keys(VALUE), (count(NAME, distinct=True),)))
    assert (
        found.text
        == """\
Aggregate: mode=final, keys=[v#3]
  HashExchange: keys=[v#3]
    Aggregate: mode=distinct, keys=[v#3], distinct=[s#5 AS __distinct0]
      HashExchange: keys=[v#3, __distinct0]
        Aggregate: mode=partial, keys=[v#3, s#5 AS __distinct0], aggregates=[]
          ParquetScan: t, files=4, columns=[v#3, s#5]"""
    )
    assert column_of(found.rows, "count#8") == [5] * 10


def test_without_keys_executors_send_one_row_each(scan: Scan) -> None:
    assert "Gather: few groups are merged on the driver" in explain(Aggregate(scan, (), (total(),)))


def test_many_computed_sums_without_keys_are_left_to_spark(scan: Scan) -> None:
    calls = tuple(
        AggregateCall(f"count#{number}", "count", (Compare(CompareOp.GT, VALUE, Literal(number, LONG)),), LONG)
        for number in range(3)
    )
    assert column_of(run(Aggregate(scan, (), calls), max_computed_sums=3).rows, "count#1") == [ROWS]
    with pytest.raises(Declined, match="3 computed arguments and no keys"):
        run(Aggregate(scan, (), calls), max_computed_sums=2)
    assert column_of(run(Aggregate(scan, keys(VALUE), calls), max_computed_sums=2).rows, "count#1") == [ROWS // 10] * 10


# --- window --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["driver", "executors"])
def test_ranges_of_a_clustered_key_read_their_own_rows(scan: Scan, place: str) -> None:
    tree = over(Project(scan, keys(ID, VALUE)), RANGE_FRAME, *by(ID))
    assert (
        explain(tree, place, **SMALL_TASKS)
        == """\
HaloDrop
  Window: [sum(v#3) RANGE BETWEEN -5 AND CURRENT ROW AS win#7]
    Sort: [id#1 ASC NULLS FIRST]
      RangeRead: order=[id#1 ASC NULLS FIRST], by row-group statistics, rows_read=1.19x
        ParquetScan: t, files=4, columns=[id#1, v#3]"""
    )


SCATTERED = """\
HaloDrop
  Window: [sum(v#3) RANGE BETWEEN -5 AND CURRENT ROW AS win#7]
    Sort: [k#2 ASC NULLS FIRST]
      RangeRepartition: order=[k#2 ASC NULLS FIRST], {cut}, reading by statistics instead would read rows 2.00x
        ParquetScan: t, files=4, columns=[k#2, v#3]"""


def scattered(scan: Scan) -> LogicalPlan:
    return over(Project(scan, keys(KEY, VALUE)), RANGE_FRAME, *by(KEY))


def test_rows_of_a_scattered_key_are_moved_on_the_driver(scan: Scan) -> None:
    found = run(scattered(scan), **SMALL_TASKS)
    assert explain(scattered(scan), "driver", **SMALL_TASKS) == SCATTERED.format(cut="cut by a sample")
    assert found.text == SCATTERED.format(cut="ranges=4")
    assert found.steps == ["Sample"]
    assert len(column_of(found.rows, "win#7")) == ROWS


def moves_of(graph: StageGraph) -> list[RangeRepartition]:
    outputs = [stage.output for stage in graph.stages]
    exchanges = [output.partitioner for output in outputs if isinstance(output, Exchange)]
    return [move for move in exchanges if isinstance(move, RangeRepartition)]


def test_rows_that_are_moved_on_threads_carry_nothing_but_their_columns(scan: Scan) -> None:
    """The exchange keeps the order of the rows, so that ties need no numbers; a ROWS frame needs no halo."""
    found = run(over(Project(scan, keys(KEY, VALUE, ID)), ROW_FRAME, *by(KEY)), **SMALL_TASKS, sort_range_rows=1000)
    (move,) = moves_of(found.graph)
    assert move.partitions == 8
    assert move.ordered
    assert move.schema.names == ["k#2", "v#3", "id#1"]
    ids = sorted(range(ROWS), key=lambda number: number * 7919 % 1000)
    assert column_of(found.rows, "id#1") == ids
    sums = [sum(number % 10 for number in ids[max(row - 2, 0) : row + 1]) for row in range(ROWS)]
    assert column_of(found.rows, "win#7") == sums


def test_a_range_frame_marks_its_halo(scan: Scan) -> None:
    (move,) = moves_of(run(scattered(scan), **SMALL_TASKS).graph)
    assert move.schema.names == ["k#2", "v#3", "__halo"]
    assert not move.ordered  # all rows of a key have one sum


def test_few_ranges_of_a_scattered_key_read_their_own_rows_on_executors(scan: Scan) -> None:
    text = explain(scattered(scan), **SMALL_TASKS)
    assert "RangeRead: order=[k#2 ASC NULLS FIRST], cut by a sample, rows_read=2.00x" in text
    assert "RangeRepartition" in explain(scattered(scan), **SMALL_TASKS, max_scattered_reads=1)


def test_a_running_total_holds_its_ranges_and_reads_them_twice(scan: Scan) -> None:
    found = run(over(Project(scan, keys(ID, VALUE)), RUNNING, *by(ID)), **SMALL_TASKS)
    assert found.text.splitlines()[2:4] == [
        "    Hold: computed once, read twice",
        "      Sort: [id#1 ASC NULLS FIRST]",
    ]
    assert found.steps == ["Summarize"]
    assert column_of(found.rows, "win#7")[-1] == sum(number % 10 for number in range(ROWS))


def test_ranges_that_do_not_add_up_are_given_up_and_the_plan_shows_what_ran(scan: Scan) -> None:
    """Sums of doubles whose partial sums may overflow depend on where they are cut."""
    tree = over(Project(scan, keys(ID, WILD)), RUNNING, *by(ID), column=WILD)
    found = run(tree, **SMALL_TASKS)
    assert "RangeRead" in explain(tree, "driver", **SMALL_TASKS)
    assert "RangeRead" not in found.text
    assert "RangeRepartition: order=[id#1 ASC NULLS FIRST], ranges=1" in found.text
    given_up = [record for record in found.records if record.number in found.graph.given_up]
    assert given_up
    assert set(found.graph.given_up.values()) == {"adding up range by range would not give Spark's answer"}
    text = analyzed_text([(found.graph, found.records)], [], {}, "driver", 0.1)
    assert text.count("given up: adding up range by range") == len(given_up)
    assert column_of(found.rows, "win#7") == [1e308, 0.0] * (ROWS // 2)


def test_a_window_with_keys_moves_rows_by_their_hash(scan: Scan) -> None:
    tree = over(Project(scan, keys(ID, KEY, VALUE)), ROW_FRAME, *by(ID), partition=(KEY,))
    assert (
        run(tree).text
        == explain(tree)
        == """\
CountOutput: as many rows as went in
  Window: [sum(v#3) ROWS BETWEEN -2 AND CURRENT ROW AS win#7]
    Sort: [k#2, id#1 ASC NULLS FIRST]
      HashExchange: keys=[k#2]
        ParquetScan: t, files=4, columns=[id#1, k#2, v#3]"""
    )


def test_a_window_without_order_sorts_and_moves_nothing(scan: Scan) -> None:
    assert (
        run(over(Project(scan, keys(VALUE)), WHOLE)).text
        == """\
CountOutput: as many rows as went in
  Window: [sum(v#3) ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING AS win#7]
    Hold: computed once, read twice
      CountInput: every row is a peer of all others
        ParquetScan: t, files=4, columns=[v#3]"""
    )


# --- union, places, counts -------------------------------------------------------------------------------------------


def test_a_union_is_one_stage_with_several_inputs(scan: Scan) -> None:
    small = Project(Filter(scan, Compare(CompareOp.LT, VALUE, Literal(3, LONG))), keys(KEY, VALUE))
    other = Project(scan, (NamedExpr("k#2", ID), NamedExpr("v#3", VALUE)))
    found = run(Aggregate(Union((small, other)), (), (total(), count(KEY))))
    assert (
        found.text
        == """\
Aggregate: mode=final, keys=[]
  HashExchange: keys=[]
    Aggregate: mode=partial, keys=[], aggregates=[sum(v#3) AS sum#9, count(k#2) AS count#8]
      Union
        ParquetScan: t, files=4, columns=[k#2, v#3], predicate=(v#3 < 3)
        Project: [id#1 AS k#2, v#3]
          ParquetScan: t, files=4, columns=[id#1, v#3]"""
    )
    assert column_of(found.rows, "count#8") == [ROWS + ROWS * 3 // 10]
    assert column_of(found.rows, "sum#9") == [ROWS // 10 * (3 + 45)]
    read = [line for line in outline(found.graph) if any(each.input is not None for each in line.counters)]
    counted = [counts_of(line, found.records) for line in read]
    assert [None if each is None else each[0].rows for each in counted] == [ROWS * 3 // 10, ROWS, ROWS]


@pytest.mark.parametrize(
    ("settings", "problem", "expected"),
    [
        (Settings(), None, Place.DRIVER),
        (Settings(driver_max_bytes=1), None, Place.EXECUTORS),
        (Settings(driver_max_bytes=1), "no Python there", Place.DRIVER),
        (Settings(placement="executors"), "no Python there", "no Python there"),
    ],
)
def test_the_place_follows_settings_size_and_problems(
    scan: Scan, settings: Settings, problem: str | None, expected: Place | str
) -> None:
    planner = Planner(grouped(scan), settings, sites(DRIVER, problem=problem))
    if isinstance(expected, Place):
        assert planner.site.place is expected
    else:
        with pytest.raises(Declined, match=expected):
            _ = planner.site


@pytest.mark.parametrize(
    ("memory", "factor", "expected"),
    [
        (None, 1, Place.EXECUTORS),  # of a cluster
        (1 << 40, 0.26, Place.DRIVER),
        (1 << 40, 0.24, Place.EXECUTORS),
        (1 << 10, 0.9, Place.EXECUTORS),  # a small machine takes no more than is set
        (1 << 10, 1.1, Place.DRIVER),
    ],
)
def test_a_local_session_reads_more_on_the_driver(
    scan: Scan, memory: int | None, factor: float, expected: Place
) -> None:
    """`factor`: what is set over what the query reads, which is a little less than the bound itself."""
    tree = optimize(grouped(scan))
    size = Planner(tree, Settings(), sites(DRIVER)).facts.size(tree)
    assert size is not None
    settings = Settings(driver_max_bytes=int(size.column_bytes * factor) - (memory is None))
    places = replace(sites(DRIVER), local_memory_bytes=memory)
    assert Planner(tree, settings, places).site.place is expected
    window = optimize(over(Project(scan, keys(ID, VALUE)), RUNNING, *by(ID)))
    assert Planner(window, Settings(driver_max_bytes=1 << 10), places).site.place is Place.EXECUTORS


def test_what_each_operator_counted_stands_beside_it(scan: Scan) -> None:
    found = run(grouped(scan))
    text = analyzed_text([(found.graph, found.records)], [], {"input_rows": ROWS}, "driver", 0.25)
    lines = text.splitlines()
    assert lines[1].startswith("Aggregate: mode=final, keys=[k#2]  [1,000 rows, 15.6 KiB, ")
    assert lines[4].strip().startswith("ParquetScan: t, files=4, columns=[k#2, v#3]  [8,000 rows, ")
    assert "-- ran on driver in 0.250 s --" in lines
    assert lines[6:8] == ["input_rows=8000", "-- stages --"]
    assert lines[-1].startswith("2. Merge groups on driver: 1 task, 1,000 rows, ")


def test_few_rows_above_a_group_by_are_one_range(scan: Scan) -> None:
    """How many groups there are is known only when they are sampled; one range needs no summary of others."""
    tree = over(Aggregate(scan, keys(VALUE), (total(),)), RUNNING, *by(VALUE))
    found = run(tree, task_bytes=4096)
    assert "ranges=1" in found.text
    assert found.steps == ["Sample"]
    assert sum(batch.num_rows for batch in found.rows) == 10
    many = run(over(Aggregate(scan, keys(ID), (total(),)), RUNNING, *by(ID), column=ID), task_bytes=4096)
    assert "ranges=1" not in many.text
    assert many.steps == ["Sample", "Summarize"]
