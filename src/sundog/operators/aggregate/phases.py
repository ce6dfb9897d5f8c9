"""An aggregation as the chain of phases that runs it: what the planner needs to know, in one place.

    without DISTINCT    partial ─► by keys ─► final
    with DISTINCT       partial ─► by keys and values ─► distinct ─► by keys ─► final

Each phase is an operator that ends a stage with a partitioner, but the last. Without keys the last phase has one task.
Where every task reads all rows and takes its share of the keys, the first exchange falls away.

Order: partial groups keep the order of their rows, and an exchange that carries a call to which order matters delivers
them in the order of the tasks (`HashPartition.ordered`), so picks are those of the rows in file order. DISTINCT groups
by its values in between and loses that order, in Spark too.
"""

from __future__ import annotations

from dataclasses import dataclass

from sundog.errors import InternalError
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.expr.nodes import Expr
from sundog.operators.aggregate.distinct_operator import DistinctAggregate
from sundog.operators.aggregate.final_operator import BestGroups, FinalAggregate
from sundog.operators.aggregate.hash_partition import HashPartition
from sundog.operators.aggregate.partial_operator import PartialAggregate
from sundog.operators.base import Operator, Partitioner
from sundog.operators.costs import GroupingCosts


@dataclass(frozen=True)
class Phase:
    """An operator, and how its rows move on. `partitioner` is None where they stay: after the last, and in shares."""

    operator: Operator
    partitioner: Partitioner | None


def aggregate_phases(
    keys: tuple[NamedExpr, ...],
    aggregates: tuple[AggregateCall, ...],
    partitions: int,
    costs: GroupingCosts,
    *,
    in_process: bool,
    shares: int = 1,
    parts: int = 1,
    merged: bool = False,
    hidden: frozenset[str] = frozenset(),
    best: BestGroups | None = None,
) -> tuple[Phase, ...]:
    """The phases of GROUP BY `keys`, with `partitions` tasks after each exchange.

    `in_process`: all of them run in this process, and exchanges hand over batches as they are. `shares`: as many tasks
    read all rows, and each takes a share of the keys, which waits in `parts`. `merged`: tasks of the first phase share
    processes, and their groups are merged before they leave one. `hidden` and `best`: what of the result nobody wants.
    """
    last = partitions if keys else 1
    values = distinct_values(aggregates)
    if not values:
        partial = PartialAggregate(keys, aggregates, costs, in_process or shares > 1 or merged, shares)
        final = FinalAggregate(keys, aggregates, costs, in_process or shares > 1, hidden, best, parts)
        return (Phase(partial, _exchange(partial, last, merged)), Phase(final, None))
    middle = DistinctAggregate(keys, values, aggregates, costs, in_process, parts)
    stays = in_process or shares > 1 or merged
    partial = PartialAggregate(middle.inner_keys, middle.inner_aggregates, costs, stays, shares)
    final = FinalAggregate(keys, middle.outer_aggregates, costs, in_process, hidden, best)
    return (
        Phase(partial, _exchange(partial, partitions, merged)),
        Phase(middle, HashPartition(middle.layout, last, costs)),
        Phase(final, None),
    )


def grouped_by(keys: tuple[NamedExpr, ...], aggregates: tuple[AggregateCall, ...]) -> tuple[NamedExpr, ...]:
    """What the first phase groups by."""
    return (*keys, *distinct_values(aggregates))


def _exchange(partial: PartialAggregate, partitions: int, merged: bool) -> Partitioner | None:
    return HashPartition(partial.layout, partitions, partial.costs, merged) if partial.shares == 1 else None


def distinct_values(aggregates: tuple[AggregateCall, ...]) -> tuple[NamedExpr, ...]:
    """What DISTINCT is about: the arguments of the calls with DISTINCT, which must be the same for all of them."""
    calls = [call for call in aggregates if call.distinct]
    if any(call.filter is not None for call in calls) or len({frozenset(call.args) for call in calls}) > 1:
        raise InternalError("DISTINCT over several argument lists or with FILTER has to be expanded before")
    unique: dict[Expr, None] = dict.fromkeys(arg for call in calls for arg in call.args)
    return tuple(NamedExpr(f"__distinct{index}", arg) for index, arg in enumerate(unique))
