"""Subplans that a query uses several times are computed once: CTEs used twice, the same groups on both sides of a join.

    WITH v AS (SELECT item, month, sum(sales) s FROM … GROUP BY item, month) SELECT … FROM v JOIN v AS last ON …

Only groups and windows are shared: they are few rows for much work, while a scan or a join is cheaper read again with
the filters of each place. The rows are held until the last reader is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sundog.plan.equal_plans import EqualPlans
from sundog.plan.logical import Aggregate, LogicalPlan, Shared, Window
from sundog.tree import map_children

Path = tuple[int, ...]


@dataclass(frozen=True)
class Occurrence:
    """A subtree and the child indexes that lead to it from the root."""

    path: Path
    node: LogicalPlan


IsWorthIt = Callable[[LogicalPlan, Sequence[Occurrence]], bool]


def share_subplans(tree: LogicalPlan, is_worth_it: IsWorthIt) -> LogicalPlan:
    """The plan with a `Shared` in each place of a subplan that is used several times and that `is_worth_it`, given the
    whole plan and the places."""
    equal = EqualPlans(tree)
    refused: set[int] = set()
    while True:
        found = _repeated(tree, equal, refused)
        unworthy = {number for number, places in found.items() if not is_worth_it(tree, places)}
        if not unworthy:
            return _Sharing(equal, found).rewrite(tree) if found else tree
        refused |= unworthy


def _repeated(tree: LogicalPlan, equal: EqualPlans, refused: set[int]) -> dict[int, list[Occurrence]]:
    """The largest subtrees that occur several times. Below the second of equal ones nothing is looked for."""
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
        children = enumerate(place.node.children)
        waiting += reversed([Occurrence((*place.path, at), child) for at, child in children])
    return {number: places for number, places in found.items() if len(places) > 1}


class _Sharing:
    """Rewrites a plan so that the subplans in `found` are computed once."""

    def __init__(self, equal: EqualPlans, found: dict[int, list[Occurrence]]) -> None:
        self._equal = equal
        self._found = found
        self._order = {number: at for at, number in enumerate(found)}
        self._definitions: dict[int, LogicalPlan] = {}

    def rewrite(self, node: LogicalPlan) -> LogicalPlan:
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
        return Shared(definition, self._order[number], len(self._found[number]), columns)

    def _showing_all(self, number: int) -> LogicalPlan:
        """The first of equal subtrees, with the columns that any of them shows."""
        places = self._found[number]
        first = places[0].node
        if not isinstance(first, Aggregate):
            return first
        shown = {self._equal.of(each.node).names[name] for each in places for name in each.node.schema.names}
        names = self._equal.of(first).names
        return replace(first, hidden=frozenset(name for name in first.hidden if names[name] not in shown))
