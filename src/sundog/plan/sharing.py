"""Subplans that a query uses several times are computed once: CTEs used twice, the same groups on both sides of a join.

    WITH v AS (SELECT item, month, sum(sales) s FROM … GROUP BY item, month) SELECT … FROM v JOIN v AS last ON …

Only groups and windows are shared: they are few rows for much work, while a scan or a join is cheaper read again with
the filters of each place. The rows are held until the last reader is done.

A query and its scalar subqueries are plans of their own. What they have in common is found in all of them together:

    WITH v AS (SELECT item, sum(sales) s FROM … GROUP BY item) SELECT * FROM v WHERE s = (SELECT max(s) FROM v)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sundog.expr.nodes import Expr
from sundog.plan.equal_plans import EqualPlans, own_predicate
from sundog.plan.logical import Aggregate, LogicalPlan, Scan, Shared, Window, subqueries_in
from sundog.tree import map_children, walk

Path = tuple[int, ...]


@dataclass(frozen=True)
class Occurrence:
    """A subtree and the child indexes that lead to it from the root."""

    path: Path
    node: LogicalPlan


IsWorthIt = Callable[[LogicalPlan, Sequence[Occurrence]], bool]
PredicateOf = Callable[[Scan], Expr | None]


@dataclass(frozen=True)
class Plans(LogicalPlan):
    """A query's own plan and those of its subqueries, to be looked at together. Nothing runs it."""

    plans: tuple[LogicalPlan, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([])


def may_be_shared_by_plans(places: Sequence[Occurrence]) -> bool:
    """Whether a subplan of `Plans` is in several of them, and reads no value of a subquery, which may not be known yet
    when the first of them is computed."""
    return len({each.path[0] for each in places}) > 1 and not subqueries_in(places[0].node)


def share_subplans(
    tree: LogicalPlan, is_worth_it: IsWorthIt, numbers: Iterator[int], predicate_of: PredicateOf = own_predicate
) -> LogicalPlan:
    """The plan with a `Shared` in each place of a subplan that is used several times and that `is_worth_it`, given the
    whole plan and the places.

    Each shared subplan takes one of the `numbers`. `predicate_of`: see `EqualPlans`.
    """
    if not _reads_tables_again(tree):
        return tree
    equal = EqualPlans(tree, predicate_of)
    refused: set[int] = set()
    while True:
        found = _repeated(tree, equal, refused)
        unworthy = {number for number, places in found.items() if not is_worth_it(tree, places)}
        if not unworthy:
            return _Sharing(equal, found, numbers).rewrite(tree) if found else tree
        refused |= unworthy


def _reads_tables_again(tree: LogicalPlan) -> bool:
    """Whether any two groups or windows are of the same tables: else none are equal, which takes milliseconds to
    find out."""
    found = [_tables(node) for node in walk(tree) if isinstance(node, Aggregate | Window)]
    return len(set(found)) < len(found)


def _tables(plan: LogicalPlan) -> tuple[str, ...]:
    return tuple(sorted(node.table.label for node in walk(plan) if isinstance(node, Scan)))


def _repeated(tree: LogicalPlan, equal: EqualPlans, refused: set[int]) -> dict[int, list[Occurrence]]:
    """The largest subtrees that occur several times. Below the second of equal ones, and in what is shared already,
    nothing is looked for."""
    found: dict[int, list[Occurrence]] = {}
    waiting = [Occurrence((), tree)]
    while waiting:
        place = waiting.pop()
        number = equal.of(place.node).number
        if isinstance(place.node, Aggregate | Window) and number not in refused:
            known = found.setdefault(number, [])
            known.append(place)
            if len(known) > 1:
                continue
        children = enumerate(() if isinstance(place.node, Shared) else place.node.children)
        waiting += reversed([Occurrence((*place.path, at), child) for at, child in children])
    return {number: places for number, places in found.items() if len(places) > 1}


class _Sharing:
    """Rewrites a plan so that the subplans in `found` are computed once."""

    def __init__(self, equal: EqualPlans, found: dict[int, list[Occurrence]], numbers: Iterator[int]) -> None:
        self._equal = equal
        self._found = found
        self._numbers = dict(zip(found, numbers, strict=False))
        self._definitions: dict[int, LogicalPlan] = {}

    def rewrite(self, node: LogicalPlan) -> LogicalPlan:
        if isinstance(node, Shared):
            return node
        number = self._equal.of(node).number
        if number not in self._found:
            return map_children(node, self.rewrite)
        first = self._found[number][0].node
        if number not in self._definitions:
            self._definitions[number] = map_children(self._showing_all(number), self.rewrite)
        definition = self._definitions[number]
        meaning = self._equal.of(first).names
        sources = {meaning[name]: name for name in definition.schema.names}
        own = self._equal.of(node).names
        columns = tuple((sources[own[name]], name) for name in node.schema.names)
        return Shared(definition, self._numbers[number], len(self._found[number]), columns)

    def _showing_all(self, number: int) -> LogicalPlan:
        """The first of equal subtrees, with the columns that any of them shows."""
        places = self._found[number]
        first = places[0].node
        if not isinstance(first, Aggregate):
            return first
        shown = {self._equal.of(each.node).names[name] for each in places for name in each.node.schema.names}
        names = self._equal.of(first).names
        return replace(first, hidden=frozenset(name for name in first.hidden if names[name] not in shown))
