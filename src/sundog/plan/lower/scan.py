"""Scans, unions of them, and plans that do nothing but read, filter and project."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.nodes import Column, Expr, columns_of, substitute
from sundog.expr.printing import render
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.expand import ExpandOperator
from sundog.operators.filter import FilterOperator
from sundog.operators.project import ProjectOperator
from sundog.operators.scan.scan import repeated_scans, scan_tasks
from sundog.operators.sources import BatchSource, HeldBatches, Source
from sundog.parquet.prune.access_plan import ParquetAccessPlan
from sundog.plan.logical import Filter, LocalRows, LogicalPlan, Project, Scan, Union
from sundog.plan.lower.sizes import grouping_task_count, scan_task_count
from sundog.plan.stages import Described, Input, Parts, Pipeline, Place, Site

if TYPE_CHECKING:
    from sundog.plan.lower.planner import Planner, Steps


@dataclass(frozen=True)
class TableScan:
    """What a task of a scan reads, for explain. `dynamic`: row groups may be pruned while it runs.

    `checks` are expressions that are evaluated for every row because they may raise. `row_groups`: how many there are,
    and how many are left by the WHERE and the keys of joins, once these are known.
    """

    scan: Scan
    dynamic: bool = False
    checks: tuple[Expr, ...] = ()
    row_groups: tuple[int, int] | None = None

    def describe(self) -> str:
        scan = self.scan
        parts = [f"ParquetScan: {scan.table.label}", f"files={len(scan.table.files)}"]
        if scan.table.snapshot is not None:
            parts.append(f"snapshot={scan.table.snapshot}")
        parts.append(f"columns=[{', '.join(scan.columns)}]")
        if scan.predicate is not None:
            parts.append(f"predicate={render(scan.predicate)}")
        if scan.filters:
            parts.append(f"join_filters=[{', '.join(each.describe() for each in scan.filters)}]")
        if self.row_groups is not None:
            parts.append("{} row groups -> {}".format(*self.row_groups))
        if self.dynamic:
            parts.append("dynamic_rg_pruning=eligible")
        if self.checks:
            parts.append(f"must_see=[{', '.join(render(expr) for expr in self.checks)}]")
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class FilteredScanNote:
    """A scan that the keys of joins pruned, for the report. `read` is what explain shows of it."""

    read: TableScan
    access: ParquetAccessPlan


@dataclass(frozen=True)
class HashShares:
    """Every task reads all rows and keeps those whose keys it owns."""

    tasks: int

    def describe(self) -> str:
        return f"HashShares: each of {self.tasks} tasks reads all rows"


@dataclass(frozen=True)
class LocalRead:
    """The only task has the rows with it."""

    rows: LocalRows

    def describe(self) -> str:
        return f"LocalRows: rows={self.rows.batch.num_rows}, columns=[{', '.join(self.rows.schema.names)}]"


def lower_local_rows(planner: Planner, plan: LocalRows) -> Pipeline:
    source = HeldBatches([plan.batch] if plan.batch.num_rows else [])
    return Pipeline(planner.site.place, "Local rows", (Parts((source,), (LocalRead(plan),)),))


def lower_scan(
    planner: Planner,
    scan: Scan,
    *,
    as_stored: frozenset[str] = frozenset(),
    again: bool = False,
    times: int = 1,
    is_grouped: bool = False,
) -> Pipeline:
    """The rows of a scan in balanced tasks.

    `as_stored`: strings that nobody looks into. `again`: the rows are read, and counted, by another stage as well.
    `times`: as many tasks, of which each reads everything. `is_grouped`: each task groups the rows that it reads.
    """
    access, site = planner.facts.access(scan), planner.site
    read = TableScan(scan)
    if any(each.generation for each in scan.filters) and not again:
        access.count_filters(planner.graph.metrics)
        read = replace(read, row_groups=(len(access.verdicts), len(access.left)))
        planner.graph.notes.append(FilteredScanNote(read, access))
    reads: tuple[Described, ...] = (read,)
    if times > 1:
        tasks = repeated_scans(access, times, site.costs, as_stored)
        reads = (HashShares(times), *reads)
    else:
        count = grouping_task_count(access, site) if is_grouped else scan_task_count(access, site)
        tasks = scan_tasks(access, count, site.costs, as_stored, again)
    sources: tuple[Source, ...] = tuple(tasks) or (BatchSource([]),)
    return Pipeline(site.place, "Scan", (Parts(sources, reads),))


def scan_some(scan: Scan, access: ParquetAccessPlan, site: Site, purpose: str, tasks: int) -> Pipeline:
    """Rows of a part of a scan that another stage reads as well."""
    sources = tuple(scan_tasks(access, tasks, site.costs, again=True)) or (BatchSource([]),)
    return Pipeline(site.place, purpose, (Parts(sources, (TableScan(scan),)),))


def lower_read(planner: Planner, plan: LogicalPlan, again: bool) -> Pipeline:
    """The rows of a plan of nothing but scan, filters and projections. `again`: another stage reads them as well."""
    match plan:
        case Scan():
            return lower_scan(planner, plan, again=again)
        case Project(child, exprs):
            return lower_read(planner, child, again).then(ProjectOperator(exprs))
        case Filter(child, predicate):
            return lower_read(planner, child, again).then(FilterOperator(plan.schema, predicate))
        case _:
            raise InternalError(f"{type(plan).__name__} does more than to read")


def narrowed(plan: LogicalPlan, columns: set[str]) -> LogicalPlan | None:
    """The same rows with fewer columns, where that is just a cheaper scan; None where it would repeat real work.

    None as well where a column is not of the scan: something that the caller looks through computes it.
    """
    match plan:
        case Scan() if columns <= set(plan.columns):
            return replace(plan, columns=tuple(name for name in plan.columns if name in columns))
        case Project(child, exprs):
            kept = tuple(named for named in exprs if named.name in columns)
            below = narrowed(child, set().union(*(columns_of(named.expr) for named in kept)))
            return None if below is None else Project(below, kept)
        case Filter(child, predicate):
            below = narrowed(child, columns | columns_of(predicate))
            return None if below is None else Filter(below, predicate)
        case _:
            return None


@dataclass(frozen=True)
class ScanBelow:
    """A scan under nothing but projections; `meaning` has the plan's columns in terms of the scan's."""

    scan: Scan
    meaning: dict[str, Expr]
    projections: tuple[Operator, ...]


def scan_below(plan: LogicalPlan) -> ScanBelow | None:
    """The scan of a plan that only reads and projects; None where there is anything else between."""
    match plan:
        case Scan():
            return ScanBelow(plan, {field.name: Column(field.name, field.type) for field in plan.schema}, ())
        case Project(child, exprs):
            found = scan_below(child)
            if found is None:
                return None
            meaning = {named.name: substitute(named.expr, found.meaning) for named in exprs}
            return ScanBelow(found.scan, meaning, (*found.projections, ProjectOperator(exprs)))
        case _:
            return None


@dataclass(frozen=True)
class ChainedSource:
    """A source with the operators of its branch of a union."""

    source: Source
    operators: tuple[Operator, ...]

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        batches = self.source.read(context)
        for operator in self.operators:
            batches = operator.run(batches, context)
        return batches


def lower_union(planner: Planner, plan: Union) -> Steps[Pipeline]:
    """The rows of all children: one stage with an input for each.

    Children that only read tables are read in the stage itself; others are held until it runs.
    """
    children: list[Pipeline] = []
    for child in plan.inputs:
        children.append((yield from planner.lower(child)))
    if len({rows.place for rows in children}) > 1:
        children = [rows if rows.place is Place.DRIVER else planner.graph.gather(rows, "Union") for rows in children]
    place = children[0].place
    only_reads = [_only_reads(rows) for rows in children]
    in_memory = place is Place.DRIVER
    inputs: list[Input] = []
    for rows, reads in zip(children, only_reads, strict=True):
        if reads and (in_memory or all(only_reads)):
            inputs += _chained(rows)
        else:
            inputs += planner.graph.hold(rows).inputs
    return Pipeline(place, "Scan", tuple(inputs))


def _only_reads(rows: Pipeline) -> bool:
    """Whether a pipeline does the same in a task of any number: a window whose ranges read their own rows does not."""
    return all(isinstance(each, Parts) for each in rows.inputs) and all(
        isinstance(each, FilterOperator | ProjectOperator | ExpandOperator) for each in rows.operators
    )


def _chained(rows: Pipeline) -> list[Input]:
    """The sources of a pipeline, each with its operators."""
    inputs: list[Input] = []
    for each in rows.inputs:
        assert isinstance(each, Parts), "nothing but tables is read"
        sources = tuple(ChainedSource(source, rows.operators) for source in each.sources)
        inputs.append(Parts(sources, (*reversed(rows.operators), *each.reads)))
    return inputs
