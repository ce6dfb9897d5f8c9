"""Scalar subqueries: each is a step of its own, and its single value is a constant in the plan that reads it.

    SELECT … WHERE d_month_seq = (SELECT DISTINCT d_month_seq FROM date_dim WHERE …)

The rest is planned when the values are known, so that `d_month_seq = 1200` prunes row groups and helps to choose the
place like any other constant. Explain does not run subqueries: their values stay placeholders, which prune nothing.

Groups and windows that several of these plans have in common are found before any of them is planned
(`plan/sharing.py`). The first reader, a subquery, has them computed, and they are held where it runs. They are shared
only by plans that run in one place. Few rows that executors computed are held on the driver: reading them again then
takes no Spark job. Of TPC-H's q15 on executors, that is one job of three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sundog.expr.calls import JoinKind
from sundog.expr.nodes import Expr, columns_of
from sundog.parquet.prune.pruning import without_not_null
from sundog.plan.costs import Costs
from sundog.plan.logical import Join, LogicalPlan, Scan, Shared, subqueries_in
from sundog.plan.lower.estimates import estimated_row_bytes, estimated_rows
from sundog.plan.lower.facts import Facts
from sundog.plan.lower.footers import has_many_files
from sundog.plan.sharing import Occurrence, Plans, may_be_shared_by_plans, share_subplans
from sundog.plan.subqueries import subqueries_read, with_values
from sundog.support import Code, Declined, TooManyBytes
from sundog.tree import walk

if TYPE_CHECKING:
    from sundog.plan.lower.planner import Planner, Rows, Steps


def share_with_subqueries(
    planner: Planner, subqueries: Mapping[int, LogicalPlan]
) -> Steps[tuple[LogicalPlan, Mapping[int, LogicalPlan]]]:
    """The planner's tree and the subqueries, with a `Shared` for what several of them read.

    Footers are read only if the plans may have something in common. They are not if a table of many files is filtered
    by a subquery's value, which may rule out most of the files.
    """
    numbers = subqueries_read(planner.tree, subqueries)
    whole = Plans((planner.tree, *(subqueries[number] for number in numbers)))
    scans = [node for node in walk(whole) if isinstance(node, Scan)]
    waits = any(has_many_files(planner, scan) and subqueries_in(scan) for scan in scans)
    if waits or not numbers or not _may_have_common_parts(whole):
        return planner.tree, subqueries
    yield from planner.inside(whole).read_footers()

    @cache
    def planner_of(number: int) -> Planner:
        return planner.inside(whole.plans[number])

    def is_worth_it(tree: LogicalPlan, places: Sequence[Occurrence]) -> bool:
        if not may_be_shared_by_plans(places):
            return False
        readers = [planner_of(each.path[0]) for each in places]
        return len({each.site.place for each in readers}) == 1 and readers[0].is_worth_sharing(tree, places)

    shared = share_subplans(whole, is_worth_it, planner.shared.numbers, planner.facts.tested_predicate)
    tree, *others = shared.children
    if not _has_join_that_gathers(shared):
        for number, plan in enumerate(shared.children):
            shares = [node for node in walk(plan) if isinstance(node, Shared)]
            if shares:
                planner.shared.gathered |= _held_on_driver(shares, planner.facts, planner_of(number).site.costs)
    return tree, {**subqueries, **dict(zip(numbers, others, strict=True))}


def _may_have_common_parts(whole: Plans) -> bool:
    """Whether several plans have a part in common, if columns are never NULL where a WHERE wants that: footers tell."""

    def predicate(scan: Scan) -> Expr | None:
        return None if scan.predicate is None else without_not_null(scan.predicate, columns_of(scan.predicate))

    return share_subplans(whole, lambda _, places: may_be_shared_by_plans(places), count(), predicate) is not whole


def _has_join_that_gathers(whole: LogicalPlan) -> bool:
    """Whether rows on the driver might bring the other side of a join there, however many rows that has: a FULL join
    exchanges both sides, and other joins than inner ones must build their right side."""
    for join in walk(whole):
        if isinstance(join, Join) and join.kind is not JoinKind.INNER:
            sides = join.children if join.kind is JoinKind.FULL else (join.left,)
            if any(isinstance(node, Shared) for side in sides for node in walk(side)):
                return True
    return False


def _held_on_driver(shares: Sequence[Shared], facts: Facts, costs: Costs) -> dict[int, int]:
    """The numbers of shared subplans with few rows by estimate, each with the bytes that its rows may take: the driver
    holds them, also if executors compute them."""
    found = {}
    for node in shares:
        rows, row_bytes = estimated_rows(node.child, facts, costs), estimated_row_bytes(node.child, costs)
        if rows <= costs.gather_groups and rows * row_bytes <= costs.broadcast_bytes:
            found[node.number] = int(costs.max_misjudged_broadcast * costs.gather_groups * row_bytes)
    return found


def compute_subqueries(planner: Planner, subqueries: Mapping[int, LogicalPlan]) -> Steps[LogicalPlan]:
    """The planner's tree with the values of its subqueries, each computed once; unchanged if explain runs nothing."""
    values: dict[int, tuple[Any, ...] | None] = {}
    for number in subqueries_in(planner.tree):
        rows = yield from _rows(planner, number, subqueries[number])
        if rows is not None:
            values[number] = _only_row(rows)
    return with_values(planner.tree, values)


def _rows(planner: Planner, number: int, plan: LogicalPlan) -> Steps[Rows | None]:
    """The rows of a subquery. If shared rows that the driver was to hold are too many, executors hold them."""
    graph, shared = planner.graph, planner.shared
    before, known, held = len(graph.stages), len(graph.subqueries), dict(shared.held)
    try:
        return (yield from _rows_once(planner, number, plan))
    except TooManyBytes as problem:
        if not shared.gathered:
            raise
        graph.give_up(graph.since(before), f"{problem.reasons[0].sentence}: executors hold them")
    del graph.subqueries[known:]
    shared.held, shared.gathered = held, {}
    return (yield from _rows_once(planner, number, plan))


def _rows_once(planner: Planner, number: int, plan: LogicalPlan) -> Steps[Rows | None]:
    pipeline = yield from planner.inside(plan).lower_all()
    return (yield from planner.subquery(pipeline, number))


def _only_row(rows: Rows) -> tuple[Any, ...] | None:
    found = [batch for batch in rows if batch.num_rows]
    if sum(batch.num_rows for batch in found) > 1:
        raise Declined.because(
            Code.EXECUTION, "a scalar subquery gives more than one row, which is an error of Spark's"
        )
    return tuple(_value(column[0]) for column in found[0].columns) if found else None


def _value(scalar: pa.Scalar) -> Any:
    """The value as `Literal` has it: dates, times and intervals as integers."""
    try:
        return scalar.value if pa.types.is_temporal(scalar.type) and scalar.is_valid else scalar.as_py()
    except UnicodeDecodeError as problem:  # Spark compares the bytes, valid UTF-8 or not
        sentence = "a scalar subquery gives a string that is not valid UTF-8"
        raise Declined.because(Code.EXECUTION, sentence) from problem
