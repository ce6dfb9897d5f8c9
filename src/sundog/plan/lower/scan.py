"""Lowering of scans, of unions of them, and of plans that only read, filter and project."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sundog.errors import InternalError
from sundog.expr.nodes import Column, Expr, columns_of, substitute
from sundog.operators.base import Operator
from sundog.operators.expand import ExpandOperator
from sundog.operators.filter import FilterOperator
from sundog.operators.project import ProjectOperator
from sundog.operators.scan.scan import repeated_scans, scan_tasks
from sundog.operators.sources import LocalRead, OperatedSource
from sundog.parquet.prune.access_plan import ParquetAccessPlan
from sundog.plan.logical import Filter, LocalRows, LogicalPlan, Project, Scan, Union
from sundog.plan.lower.sizes import grouping_task_count, scan_task_count
from sundog.plan.stages import Input, Parts, Pipeline, Place, Site

if TYPE_CHECKING:
    from sundog.plan.lower.planner import Planner, Steps


@dataclass(frozen=True, eq=False)
class FilteredScanNote:
    """A scan that the keys of joins pruned, for the report."""

    scan: Scan
    access: ParquetAccessPlan


def lower_local_rows(planner: Planner, plan: LocalRows) -> Pipeline:
    return Pipeline(planner.site.place, "Local rows", (Parts((LocalRead(plan.batch),)),))


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

    `as_stored`: columns that need not be in the form that expressions evaluate. `again`: another stage reads the rows
    too, and counts them. `times`: the number of tasks that each read everything. `is_grouped`: each task groups the
    rows that it reads.
    """
    access, site = planner.facts.access(scan), planner.site
    if access.knows_keys and not again:
        planner.graph.notes.append(FilteredScanNote(scan, access))
    if times > 1:
        tasks = repeated_scans(access, times, site.costs, as_stored)
    else:
        count = grouping_task_count(access, site) if is_grouped else scan_task_count(access, site)
        tasks = scan_tasks(access, count, site.costs, as_stored, again)
    return Pipeline(site.place, "Scan", (Parts(tuple(tasks)),))


def scan_some(scan: Scan, access: ParquetAccessPlan, site: Site, purpose: str, tasks: int) -> Pipeline:
    """Some rows of a scan that another stage reads as well."""
    return Pipeline(site.place, purpose, (Parts(tuple(scan_tasks(access, tasks, site.costs, again=True))),))


def lower_read(planner: Planner, plan: LogicalPlan, again: bool) -> Pipeline:
    """The rows of a plan of nothing but scan, filters and projections. `again`: another stage reads them as well."""
    match plan:
        case Scan():
            return lower_scan(planner, plan, again=again)
        case Project(child, exprs):
            return lower_read(planner, child, again).then(ProjectOperator(exprs))
        case Filter(child, predicate):
            return lower_read(planner, child, again).then(FilterOperator(plan.schema, predicate, planner.site.costs))
        case _:
            raise InternalError(f"{type(plan).__name__} does more than to read")


def narrowed(plan: LogicalPlan, columns: set[str]) -> LogicalPlan | None:
    """The same rows with fewer columns, if that is only a cheaper scan; None if it would repeat real work.

    None as well if a column is not one of the scan, but computed between scan and plan.
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
    """The scan of a plan that only reads and projects; None if there is any other node between."""
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
    """Whether a pipeline does the same in any number of tasks. A window whose ranges read their own rows does not."""
    return all(isinstance(each, Parts) for each in rows.inputs) and all(
        isinstance(each, FilterOperator | ProjectOperator | ExpandOperator) for each in rows.operators
    )


def _chained(rows: Pipeline) -> list[Input]:
    """The sources of a pipeline, each with its operators."""
    if not rows.operators:
        return list(rows.inputs)
    inputs: list[Input] = []
    for each in rows.inputs:
        assert isinstance(each, Parts), "nothing but tables is read"
        done_by = ((),) * len(rows.operators) + each.done_by if each.done_by else ()
        inputs.append(Parts(tuple(OperatedSource(source, rows.operators) for source in each.sources), done_by))
    return inputs
