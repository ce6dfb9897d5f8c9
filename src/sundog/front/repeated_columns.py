"""Columns that Catalyst repeats: `SELECT id, id`.

Catalyst names a column by its id, and an operator may have the same id at several places of its output. A sundog plan
finds its columns by name, so each of its nodes has every column once. The repetition is made where rows enter or leave.
A projection on top of a plan gives each place a name of its own (`id#0`, `id#0.2`); an input from Spark is read under
such names. Nothing else reads these names, since results are handed over by position.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from sundog.expr.calls import NamedExpr
from sundog.expr.nodes import Column
from sundog.plan.logical import LogicalPlan, Project
from sundog.support import Code, Declined

_REPETITION = re.compile(r"(.*#\d+)\.\d+", re.DOTALL)


def each_once(named: Iterable[NamedExpr], node: str) -> tuple[NamedExpr, ...]:
    """The first of each name. Declines two expressions under one name: a plan of unknown form."""
    found: dict[str, NamedExpr] = {}
    for entry in named:
        if found.setdefault(entry.name, entry) != entry:
            raise Declined.because(Code.PLAN_VERSION, f"two expressions under the name {entry.name}", node)
    return tuple(found.values())


def names_of_places(names: Sequence[str]) -> list[str]:
    """Unique names for places whose columns may repeat: the first keeps its own."""
    seen: Counter[str] = Counter()
    places = []
    for name in names:
        seen[name] += 1
        places.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
    return places


def column_name(place: str) -> str:
    """The inverse: the column at a place."""
    found = _REPETITION.fullmatch(place)
    return place if found is None else found[1]


def spelt_below(name: str, columns: Collection[str]) -> str:
    """The column as spelt in `columns`: for `SELECT K … GROUP BY k` the optimiser leaves one column in two
    spellings."""
    if name in columns:
        return name
    return next((column for column in columns if column.lower() == name.lower()), name)


def at_places(plan: LogicalPlan, names: Sequence[str]) -> LogicalPlan | None:
    """The plan with its columns at the places where Catalyst has them; None if it lacks one of them."""
    schema = plan.schema
    if schema.names == list(names):
        return plan
    below = [spelt_below(name, schema.names) for name in names]
    if not set(below) <= set(schema.names):
        return None
    columns = [Column(name, schema.field(name).type) for name in below]
    return Project(plan, tuple(map(NamedExpr, names_of_places(names), columns)))
