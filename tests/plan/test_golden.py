"""Every strategy as golden text: what explain says of it on each place, and the plan that ran, with rows of steps.

A case is a logical plan with the costs that choose the strategy. `golden/<case>.txt` has a section for each place: the
explained plan, for which only probes run, and the plan that ran, which says what the data told the planner. Stages on
executors run here, on a thread; only rows that Spark hands over cannot.

SUNDOG_UPDATE_GOLDEN=1 writes the files anew; the difference is then to be read.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

from sundog.config import Settings
from sundog.expr.calls import AggregateCall, Bound, BoundKind, Frame, JoinKind, NamedExpr, WindowCall
from sundog.expr.nodes import Column, Compare, CompareOp, Literal, SubqueryValue
from sundog.metrics import METRICS, Category, OperatorCounts
from sundog.operators.base import Described, Operator, Partitioner
from sundog.operators.context import TaskContext
from sundog.operators.scan.footers import FooterScan
from sundog.operators.sources import BatchSource, HeldBatches, Source
from sundog.parquet.prune.footer_tables import TABLES
from sundog.plan import outputs, stages
from sundog.plan.costs import DRIVER, EXECUTORS
from sundog.plan.explain import Line, outline, steps_of
from sundog.plan.logical import (
    Aggregate,
    Expand,
    Filter,
    Foreign,
    Limit,
    LocalRows,
    LogicalPlan,
    Project,
    RowsEstimate,
    Scan,
    Sort,
    TopK,
    Union,
    Window,
)
from sundog.plan.lower.planner import Planner, Rows, Step
from sundog.plan.outputs import Exchange, Gather, Hold
from sundog.plan.records import StageRecord
from sundog.plan.rules.order import optimize
from sundog.plan.stages import Stage, StageGraph, Summaries
from sundog.plan.subqueries import two_rows_at_most
from sundog.report.explain import counts_of, process_lines, shown_metrics
from sundog.report.wording import plural
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.execute import StageRunner
from tests.plan import test_joins, test_lower
from tests.plan.test_joins import ANYWHERE, CLUSTERED, PART, dimension_as, equals, joined, totals
from tests.plan.test_lower import (
    HERE,
    LONG,
    RANGE_FRAME,
    ROW_FRAME,
    RUNNING,
    SMALL_TASKS,
    WHOLE,
    WILD,
    by,
    count,
    keys,
    over,
    sites,
    total,
)
from tests.plan.test_sharing import copy, groups, twice

scan, fact, dimension, skewed = test_lower.scan, test_joins.fact, test_joins.dimension, test_joins.skewed
FOLDER = Path(__file__).parent / "golden"
ID, KEY, VALUE, TEXT = test_lower.ID, test_lower.KEY, test_lower.VALUE, test_lower.NAME
DIM_ID = test_joins.ID


@dataclass(frozen=True)
class Tables:
    scan: Scan
    fact: Scan
    dimension: Scan
    skewed: Scan


@dataclass(frozen=True)
class Case:
    """`numbers` are costs of both places; `memory` the bytes of a task; `processes` those that the executors run, each
    of two slots; `unread`: no footer is known when the planner begins."""

    tree: Callable[[Tables], LogicalPlan]
    numbers: dict[str, float] = field(default_factory=dict)
    memory: int = 1 << 30
    subquery: Callable[[Tables], LogicalPlan] | None = None
    runs: bool = True
    processes: int = 0
    unread: bool = False


def few(tables: Tables) -> LogicalPlan:
    return Filter(tables.dimension, equals(PART, 1))


def grouped(tables: Tables) -> Aggregate:
    return Aggregate(tables.scan, keys(KEY), (total(),))


def sums(
    tables: Tables, key: Column, frame: Frame, partition: tuple[Column, ...] = (), column: Column = VALUE
) -> Window:
    return over(
        Project(tables.scan, keys(*dict.fromkeys((key, *partition, column)))),
        frame,
        *by(key),
        partition=partition,
        column=column,
    )


def placed(tables: Tables, function: str, *arguments: Column | Literal) -> Window:
    call = WindowCall("win#7", function, arguments, VALUE.dtype, ROW_FRAME if function == "lag" else RUNNING_ROWS)
    return Window(Project(tables.scan, keys(KEY, VALUE)), (call,), (), by(KEY))


def rolled_up(tables: Tables) -> LogicalPlan:
    both, one = (VALUE, TEXT), (VALUE, Literal(None, pa.string()))
    lists = (both, one)
    return Aggregate(
        Expand(Project(tables.scan, keys(VALUE, TEXT)), lists, ("v#30", "s#31")),
        keys(Column("v#30", LONG), Column("s#31", pa.string())),
        (count(Column("v#30", LONG)),),
    )


def rows_of_spark() -> Foreign:
    return Foreign(0, (("k#1", LONG), ("v#2", LONG)), "InMemoryRelation", RowsEstimate(1e8, counted=True))


def side_of_spark() -> Foreign:
    return Foreign(0, ((DIM_ID.name, LONG),), "Filter, CSV", RowsEstimate(100.0), moves_rows=False, collected=True)


def of_spark(shape: str) -> LogicalPlan:
    key, value = Column("k#1", LONG), Column("v#2", LONG)
    if shape == "groups":
        return Aggregate(rows_of_spark(), keys(key), (total(value),))
    return over(rows_of_spark(), ROW_FRAME, *by(value), partition=(key,) if shape == "partitions" else (), column=value)


RUNNING_ROWS = Frame("rows", Bound(BoundKind.UNBOUNDED_PRECEDING), HERE)
EXCHANGED = test_joins.EXCHANGED
MOVED = {**SMALL_TASKS, "max_scattered_reads": 1, "max_clustered_reads": 1}

CASES = {
    "topk": Case(lambda t: TopK(replace(t.scan, columns=("id#1", "s#5")), by(ID, descending=True), 3)),
    "topk-of-groups": Case(lambda t: TopK(grouped(t), by(Column("sum#9", LONG), descending=True), 3)),
    "sort-of-groups": Case(lambda t: Sort(Aggregate(t.scan, keys(VALUE), ()), by(VALUE))),
    "sort": Case(lambda t: Sort(t.scan, by(KEY))),
    "sort-clustered": Case(lambda t: Sort(t.scan, by(ID)), SMALL_TASKS),
    "sort-moved": Case(lambda t: Sort(t.scan, by(KEY)), MOVED),
    "limit-of-table": Case(lambda t: Limit(Project(t.scan, keys(ID)), 2, 1)),
    "limit-of-groups": Case(lambda t: Limit(Aggregate(t.scan, keys(VALUE), ()), 2, 1)),
    "groups": Case(grouped),
    "groups-exchanged": Case(
        grouped, {**SMALL_TASKS, "gather_groups": 10, "shuffle_ns_per_row": 0, "shuffle_ns_per_byte": 0}
    ),
    "groups-in-shares": Case(grouped, {**SMALL_TASKS, "gather_groups": 10, "shuffle_ns_per_row": 1e6}),
    "groups-without-keys": Case(lambda t: Aggregate(t.scan, (), (total(),))),
    "groups-distinct": Case(lambda t: Aggregate(t.scan, keys(VALUE), (count(TEXT, distinct=True), total()))),
    "groups-having": Case(
        lambda t: Filter(grouped(t), Compare(CompareOp.GT, Column("sum#9", LONG), Literal(40, LONG)))
    ),
    "groups-of-groups": Case(
        lambda t: Aggregate(grouped(t), keys(Column("sum#9", LONG)), (count(KEY),)),
    ),
    "rollup": Case(rolled_up),
    "groups-in-processes": Case(
        grouped, {**SMALL_TASKS, "gather_groups": 10, "shuffle_ns_per_row": 0, "shuffle_ns_per_byte": 0}, processes=2
    ),
    "gathered-groups-in-processes": Case(grouped, {**SMALL_TASKS, "min_merged_groups": 0}, processes=2),
    "distinct-in-processes": Case(
        lambda t: Aggregate(t.scan, keys(VALUE), (replace(count(KEY), distinct=True), total())),
        {**SMALL_TASKS, "gather_groups": 0, "few_slots": 1, "max_reads_by_many": 1},
        processes=2,
    ),
    "footers-on-executors": Case(grouped, {"footer_job_files": 1}, unread=True),
    "window-clustered": Case(lambda t: sums(t, ID, RANGE_FRAME), SMALL_TASKS),
    "window-scattered": Case(lambda t: sums(t, KEY, RANGE_FRAME), SMALL_TASKS),
    "window-moved": Case(lambda t: sums(t, KEY, RANGE_FRAME), MOVED),
    "window-rows": Case(lambda t: sums(t, KEY, ROW_FRAME), MOVED),
    "window-running": Case(lambda t: sums(t, ID, RUNNING), SMALL_TASKS),
    "window-running-moved": Case(lambda t: sums(t, KEY, RUNNING), MOVED),
    "window-given-up": Case(lambda t: sums(t, ID, RUNNING, column=WILD), SMALL_TASKS),
    "window-lag": Case(lambda t: placed(t, "lag", VALUE, Literal(1, LONG), Literal(None, LONG)), MOVED),
    "window-in-processes": Case(lambda t: sums(t, KEY, RUNNING), MOVED, processes=2),
    "window-row-number": Case(lambda t: placed(t, "row_number"), MOVED),
    "window-ntile": Case(lambda t: placed(t, "ntile", Literal(4, LONG)), MOVED),
    "window-dense-rank": Case(lambda t: placed(t, "dense_rank"), MOVED),
    "window-without-order": Case(lambda t: over(Project(t.scan, keys(VALUE)), WHOLE)),
    "window-of-groups": Case(
        lambda t: over(Aggregate(t.scan, keys(VALUE), (total(),)), RUNNING, *by(VALUE)), {"task_bytes": 4096}
    ),
    "window-by-key": Case(lambda t: sums(t, ID, ROW_FRAME, (KEY,))),
    "window-inside-keys": Case(lambda t: sums(t, ID, ROW_FRAME, (VALUE,)), SMALL_TASKS, memory=1 << 14),
    "window-running-inside-keys": Case(lambda t: sums(t, ID, RUNNING_ROWS, (VALUE,)), SMALL_TASKS, memory=1 << 14),
    "window-filter": Case(
        lambda t: Filter(
            Window(
                Project(t.scan, keys(ID, KEY)),
                (WindowCall("rank#7", "row_number", (), LONG, RUNNING_ROWS),),
                (KEY,),
                by(ID),
            ),
            Compare(CompareOp.LE, Column("rank#7", LONG), Literal(2, LONG)),
        )
    ),
    "join": Case(lambda t: totals(joined(t.fact, few(t), CLUSTERED, DIM_ID))),
    "join-left": Case(lambda t: totals(joined(t.fact, few(t), ANYWHERE, DIM_ID, JoinKind.LEFT))),
    "join-full": Case(lambda t: totals(joined(t.fact, few(t), ANYWHERE, DIM_ID, JoinKind.FULL))),
    "join-semi": Case(lambda t: totals(joined(t.fact, few(t), ANYWHERE, DIM_ID, JoinKind.SEMI))),
    "join-anti": Case(lambda t: totals(joined(t.fact, few(t), ANYWHERE, DIM_ID, JoinKind.ANTI))),
    "join-star": Case(
        lambda t: totals(
            joined(
                joined(t.fact, Filter(t.dimension, equals(DIM_ID, 5)), CLUSTERED, DIM_ID),
                dimension_as(t.dimension, 21),
                ANYWHERE,
                Column("id#21", LONG),
            )
        )
    ),
    "join-small-left": Case(
        lambda t: Aggregate(
            joined(few(t), t.fact, DIM_ID, CLUSTERED, JoinKind.SEMI), (), (AggregateCall("n#90", "count", (), LONG),)
        )
    ),
    "join-exchanged": Case(lambda t: totals(joined(t.fact, t.dimension, ANYWHERE, DIM_ID)), EXCHANGED),
    "join-hot-key": Case(lambda t: totals(joined(t.skewed, t.dimension, ANYWHERE, DIM_ID)), EXCHANGED),
    "join-exchanged-by-keys": Case(lambda t: totals(joined(t.fact, few(t), ANYWHERE, DIM_ID)), EXCHANGED),
    "join-build-given-up": Case(
        lambda t: totals(joined(t.fact, few(t), CLUSTERED, DIM_ID)), {"max_build_share": 180 / (2 << 30)}
    ),
    "join-build-stopped": Case(lambda t: totals(joined(t.fact, few(t), CLUSTERED, DIM_ID)), {"max_build_share": 0}),
    "join-below-topk": Case(
        lambda t: TopK(joined(t.fact, few(t), CLUSTERED, DIM_ID), by(test_joins.VALUE, descending=True), 3)
    ),
    "join-of-local-rows": Case(
        lambda t: totals(joined(t.fact, LocalRows(pa.record_batch({"id#11": pa.array([1, 2, 3])})), CLUSTERED, DIM_ID))
    ),
    "union": Case(
        lambda t: Aggregate(
            Union((Project(t.scan, keys(KEY)), Project(t.scan, (NamedExpr("k#2", ID),)))), (), (count(KEY),)
        )
    ),
    "union-of-groups": Case(
        lambda t: Aggregate(
            Union((Project(grouped(t), keys(KEY)), Project(t.scan, (NamedExpr("k#2", ID),)))), (), (count(KEY),)
        )
    ),
    "subplan-shared": Case(lambda t: twice(groups(copy(t.scan, 10), 20), groups(copy(t.scan, 50), 60))),
    "subquery": Case(
        lambda t: Aggregate(Filter(t.scan, Compare(CompareOp.GT, ID, SubqueryValue(0, 0, LONG))), (), (count(ID),)),
        subquery=lambda t: Aggregate(t.scan, (), (AggregateCall("avg#9", "max", (VALUE,), LONG),)),
    ),
    "join-of-spark-rows": Case(lambda t: totals(joined(t.fact, side_of_spark(), CLUSTERED, DIM_ID)), runs=False),
    "spark-rows-groups": Case(lambda _: of_spark("groups"), runs=False),
    "spark-rows-partitions": Case(lambda _: of_spark("partitions"), runs=False),
    "spark-rows-window": Case(lambda _: of_spark("window"), runs=False),
}


def _read_by(stage: Stage) -> Iterator[Described]:
    for each in stage.inputs:
        yield from each.steps if isinstance(each, stages.Parts) else ()


class _OnThisThread(StageRunner):
    """Runs every stage on one thread of this process, whatever its place."""

    def rows(self, stage: Stage) -> Rows:
        return [batch for batches in self._driver.gather(stage, self._sources(stage)) for batch in batches]

    def _driver_output(self, stage: Stage) -> list[Source]:
        match stage.output:
            case Gather():
                return [BatchSource(self.rows(stage))]
            case Exchange(is_kept=False) as output:
                return self._driver.exchange(stage, self._sources(stage), output)
            case Exchange(readers=1):
                return self._held_here(stage)[:-1]
            case Exchange() | Hold():
                return self._held_here(stage)
            case _:
                raise AssertionError(f"stage {stage.number} is not read")

    def _sources(self, stage: Stage) -> list[Source]:
        match stage.inputs:
            case (Summaries(stage=before),):
                return self._held_here(before)[-1:]
            case _:
                return super()._sources(stage)

    def _held_here(self, stage: Stage) -> list[Source]:
        if stage.number not in self._held:
            if isinstance(stage.output, Exchange):
                moved = replace(stage.output, partitioner=_AllTargets(stage.output.partitioner))
                sources = self._driver.exchange(stage, self._sources(stage), moved)
                self._held[stage.number] = [HeldBatches(list(source.read(TaskContext()))) for source in sources]
            else:
                self._held[stage.number] = self._driver.hold(stage, self._sources(stage))
        held = self._held[stage.number]
        assert isinstance(held, list)
        return held


@dataclass(frozen=True)
class _AllTargets(Partitioner):
    """A partitioner for which summaries are one partition more, as they are in Spark's shuffle."""

    partitioner: Partitioner

    @property
    def partitions(self) -> int:  # type: ignore[override]
        return self.partitioner.partitions + self.partitioner.summarizes

    @property
    def schema(self) -> pa.Schema:
        return self.partitioner.schema

    def split(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[tuple[int, pa.RecordBatch]]:
        return self.partitioner.split(batches, context)

    @property
    def name(self) -> str:
        return self.partitioner.name

    @property
    def details(self) -> str:
        return self.partitioner.details


@dataclass(frozen=True)
class Found:
    graph: StageGraph
    records: list[StageRecord]

    def lines(self) -> Iterator[str]:
        for line in outline(self.graph):
            yield f"{'  ' * line.depth}{line.text}{self._counted(line)}"
        for stage in steps_of(self.graph) if self.records else ():
            why = re.sub(r"take (at least )?[\d,]+ of the [\d,]+ bytes", r"take \1… of the … bytes", self._why(stage))
            chain = [operator.name for operator in reversed(stage.operators)]
            chain += [step.describe() for step in _read_by(stage) if isinstance(step, FooterScan)]
            yield f"* {', '.join([stage.purpose, *chain])} on {stage.place.value}: {why}"
        yield from process_lines([self.graph])

    def _why(self, stage: Stage) -> str:
        return self.graph.given_up.get(stage.number, "asked by the planner")

    def _counted(self, line: Line) -> str:
        """What is the same on every machine: rows that left, and what was counted in rows, files and row groups."""
        found = counts_of(line, self.records)
        counts = OperatorCounts() if found is None else found[0]
        rows = [plural(counts.rows, "row")] if counts.batches else []
        metrics = [
            f"{name}={value:.0f}"
            for name, value in shown_metrics(counts).items()
            if METRICS[name].category is Category.ROWS
        ]
        text = "; ".join([*rows, *([", ".join(metrics)] if metrics else [])])
        return f"  [{text}]" if text else ""


def plan(case: Case, tables: Tables, place: str, run: bool) -> Found:
    costs = replace(DRIVER, **case.numbers), replace(EXECUTORS, **case.numbers)
    subqueries = {} if case.subquery is None else {0: optimize(two_rows_at_most(case.subquery(tables)))}
    settings = Settings(placement=place)  # type: ignore[arg-type]
    places = sites(*costs, memory=case.memory, slots=2 * max(case.processes, 1), processes=case.processes)
    planner = Planner(optimize(case.tree(tables)), settings, places, subqueries=subqueries)
    if case.unread:
        TABLES.clear()
    runner = _OnThisThread(DriverRuntime(1, 1 << 30))

    def answer(step: Step) -> Rows | None:
        if not case.runs:
            return [pa.record_batch({"key": pa.array(range(1 << 15), LONG)})] if step.is_probe else None
        runner.forget(planner.graph)
        return runner.answer(step.stage) if run or step.is_probe else None

    graph = planner.plan(answer)
    if not run:
        return Found(graph, [])
    assert graph.result is not None
    runner.rows(graph.result)
    return Found(graph, runner.records.in_order())


def found_of(case: Case, tables: Tables) -> dict[str, Found]:
    places = ["driver", "executors"] if case.runs else ["executors"]
    runs = [False, True] if case.runs else [False]
    return {
        f"{place}, {'ran' if run else 'explained'}": plan(case, tables, place, run) for place in places for run in runs
    }


@pytest.fixture(scope="module")
def tables(scan: Scan, fact: Scan, dimension: Scan, skewed: Scan) -> Tables:
    return Tables(scan, fact, dimension, skewed)


@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_the_golden_one(name: str, tables: Tables) -> None:
    sections = [f"-- {title} --\n" + "\n".join(each.lines()) for title, each in found_of(CASES[name], tables).items()]
    text, path = "\n\n".join(sections) + "\n", FOLDER / f"{name}.txt"
    if os.environ.get("SUNDOG_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_every_operator_partitioner_source_input_and_output_is_in_a_golden_plan(tables: Tables) -> None:
    found: set[type] = set()
    for case in CASES.values():
        for each in found_of(case, tables).values():
            found |= {type(line.spec) for line in outline(each.graph)}
            found |= {type(operator) for stage in each.graph.stages for operator in stage.operators}
            found |= {
                type(stage.output.partitioner) for stage in each.graph.stages if isinstance(stage.output, Exchange)
            }
            found |= {type(part) for stage in each.graph.stages for part in (stage.output, *stage.inputs)}
            inputs = [part for stage in each.graph.stages for part in stage.inputs if isinstance(part, stages.Parts)]
            found |= {type(source) for part in inputs for source in part.sources}
    specs = {each for kind in (Operator, Partitioner) for each in _kinds(kind)}
    specs |= {each for each in _kinds(Source) if "steps" in vars(each)}
    specs |= {*get_args(stages.Input), *get_args(outputs.Output)}
    assert {each.__name__ for each in specs - found} == set()


def _kinds(kind: type) -> Iterator[type]:
    """The classes of sundog below this one that can be made."""
    for each in kind.__subclasses__():
        if not inspect.isabstract(each) and each.__module__.startswith("sundog.operators"):
            yield each
        yield from _kinds(each)


def test_no_golden_text_is_left_over() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(CASES)
