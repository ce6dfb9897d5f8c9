"""The operators of an aggregation and the exchanges between them: all that the planner needs, in one place.

    without DISTINCT    partial ─► by keys ─► final
    with DISTINCT       partial ─► by keys and values ─► distinct ─► by keys ─► final

Each phase but the last is an operator that ends its stage with a partitioner. Without keys the last has one task. Where
every task reads all rows and takes its share of the keys, there is no first exchange.

Order: partial groups keep the order of their rows. If the result of a call depends on the order, the exchange delivers
groups in the order of the tasks (`HashPartition.ordered`), so picks are those of the rows in file order. DISTINCT
groups by its values in between and loses that order, in Spark too.
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
from sundog.operators.base import Operator
from sundog.operators.costs import GroupingCosts


@dataclass(frozen=True)
class Phase:
    """An operator, and how its rows move on. `partitioner` is None if they stay: after the last phase, and in
    shares."""

    operator: Operator
    partitioner: HashPartition | None


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
    merged_again: bool = False,
    hidden: frozenset[str] = frozenset(),
    best: BestGroups | None = None,
) -> tuple[Phase, ...]:
    """The phases of GROUP BY `keys`, with `partitions` tasks after each exchange.

    `in_process`: all of them run in this process, and exchanges hand over batches as they are. `shares`: the number of
    tasks that each read all rows and take a share of the keys, collected in `parts`. `merged`: tasks of the partial
    aggregation share processes, and their groups are merged before they leave one; `merged_again`: those that count
    distinct values. `hidden`: keys that are not put out. `best`: the only groups that are wanted.
    """
    last = partitions if keys else 1
    values = distinct_values(aggregates)
    if not values:
        partial = PartialAggregate(keys, aggregates, costs, in_process or shares > 1 or merged, shares)
        final = FinalAggregate(keys, aggregates, costs, in_process or shares > 1, hidden, best, parts)
        return (Phase(partial, _exchange(partial, last, merged)), Phase(final, None))
    middle = DistinctAggregate(keys, values, aggregates, costs, in_process, parts, merged_again)
    stays = in_process or shares > 1 or merged
    partial = PartialAggregate(middle.inner_keys, middle.inner_aggregates, costs, stays, shares)
    final = FinalAggregate(keys, middle.outer_aggregates, costs, in_process, hidden, best)
    return (
        Phase(partial, _exchange(partial, partitions, merged)),
        Phase(middle, HashPartition(middle.layout, last, costs, merged_again)),
        Phase(final, None),
    )


def grouped_by(keys: tuple[NamedExpr, ...], aggregates: tuple[AggregateCall, ...]) -> tuple[NamedExpr, ...]:
    """The keys of the partial aggregation: those of the GROUP BY, and the distinct values."""
    return (*keys, *distinct_values(aggregates))


def _exchange(partial: PartialAggregate, partitions: int, merged: bool) -> HashPartition | None:
    return HashPartition(partial.layout, partitions, partial.costs, merged) if partial.shares == 1 else None


def distinct_values(aggregates: tuple[AggregateCall, ...]) -> tuple[NamedExpr, ...]:
    """The arguments of the calls with DISTINCT, which must be the same for all of them."""
    calls = [call for call in aggregates if call.distinct]
    if any(call.filter is not None for call in calls) or len({frozenset(call.args) for call in calls}) > 1:
        raise InternalError("DISTINCT over several argument lists or with FILTER has to be expanded before")
    unique: dict[Expr, None] = dict.fromkeys(arg for call in calls for arg in call.args)
    return tuple(NamedExpr(f"__distinct{index}", arg) for index, arg in enumerate(unique))
