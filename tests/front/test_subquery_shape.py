"""Golden Catalyst plans with scalar subqueries, of several Sparks, without a JVM. See `test_match.py` for the golden
texts.

A subquery's plan is inside the JSON of the expression that reads its value, so what `read_query.py` asks the JVM for is
there too.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from sundog.config import Settings
from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import Scope, Subquery, struct_values
from sundog.front.match import Matches, convert_subquery, match_plan
from sundog.plan.logical import LogicalPlan
from sundog.plan.rules.order import optimize
from tests.front.test_match import foreign_of, relation_of
from tests.plans.record_subqueries import QUERIES
from tests.plans.recorded import complete_recorded
from tests.plans.text import tree_text
from tests.plans.versions import FOLDERS, NEWEST, known_to, parse_recorded

CASES = [
    pytest.param(folder, name, id=f"{folder.name}-{name}") for folder in FOLDERS for name in known_to(folder, QUERIES)
]


class Recorded:
    """A recorded query, read as `QueryReader` reads one: equal subqueries are one, numbered as they are met."""

    def __init__(self, folder: Path, name: str) -> None:
        self.subqueries: list[LogicalPlan] = []
        self._known: list[tuple[Node, Subquery]] = []
        self._scope = replace(Scope({}, "UTC"), subquery=self._subquery)
        root = complete_recorded(parse_recorded(folder, (folder / f"{name}.json").read_text()))
        self.matches: Matches = match_plan(root, relation_of, foreign_of, Settings(), self._scope)

    def _subquery(self, node: Node) -> Subquery:
        root = complete_recorded(node["plan"])
        for known, subquery in self._known:
            if known == root:
                return subquery
        plan = convert_subquery(root, relation_of, foreign_of, Settings(), self._scope)
        found = Subquery(len(self.subqueries), tuple(plan.schema.types), struct_values(root) is not None)
        self.subqueries.append(plan)
        self._known.append((root, found))
        return found


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_golden_plan(folder: Path, name: str) -> None:
    query = Recorded(folder, name)
    parts = [f"at {list(m.path)}:\n{tree_text(optimize(m.plan))}" for m in query.matches.found]
    below = [f"subquery {number}:\n{tree_text(optimize(plan))}" for number, plan in enumerate(query.subqueries)]
    reasons = [f"* {reason}" for reason in query.matches.reasons]
    text = "\n".join([QUERIES[name], "", *parts, *below, *reasons]) + "\n"
    golden = folder / f"{name}.txt"
    if os.environ.get("SUNDOG_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_subqueries_that_read_the_same_rows_are_one_with_several_values(folder: Path) -> None:
    query = Recorded(folder, "subquery_merged")
    (subquery,) = query.subqueries
    assert len(subquery.schema.types) == 2
    assert [found.path for found in query.matches.found] == [()]


def test_a_subquery_inside_one_is_read_before_it() -> None:
    inner, outer = Recorded(NEWEST, "subquery_nested").subqueries
    assert "subquery0" in tree_text(optimize(outer))
    assert "subquery" not in tree_text(optimize(inner))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("name", [name for name in QUERIES if name != "subquery_of_sparks"])
def test_a_query_with_subqueries_is_taken_whole(folder: Path, name: str) -> None:
    query = Recorded(folder, name)
    assert [found.path for found in query.matches.found] == [()], query.matches.reasons
