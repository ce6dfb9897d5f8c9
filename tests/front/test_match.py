"""Golden Catalyst plans -> what sundog takes of them, as text, without a JVM.

`tests/plans/<version>/NAME.json` is Catalyst's JSON as `tests/plans/record.py` recorded it; `NAME.txt` beside it is
what must come out. `SUNDOG_UPDATE_GOLDEN=1` writes the texts anew: look at the difference before you commit it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sundog.config import Settings
from sundog.front.catalyst_json import Node, parse_plan
from sundog.front.expressions.reading import Scope
from sundog.front.match import Match, Matches, match_plan
from sundog.front.relation.columns import internal_name
from sundog.parquet.reading import DataFile, FileColumn
from sundog.plan.logical import Foreign, LogicalPlan
from sundog.plan.rules.order import optimize
from sundog.support import Code, Declined
from sundog.tables.parquet_folder import ParquetFolder
from sundog.types import arrow_type
from tests.plans.record import QUERIES
from tests.plans.recorded import complete_recorded
from tests.plans.text import tree_text
from tests.plans.versions import FOLDERS, NEWEST, known_to, parse_recorded

CASES = [
    pytest.param(folder, name, id=f"{folder.name}-{name}") for folder in FOLDERS for name in known_to(folder, QUERIES)
]


def relation_of(leaf: Node, condition: Node | None) -> ParquetFolder:
    columns = [(a, arrow_type(a["dataType"])) for a in leaf["output"]]
    found = tuple(FileColumn(internal_name(a), a["name"], t) for a, t in columns if t is not None)
    return ParquetFolder((DataFile("/data/events/part-0.parquet", 1, 1),), found, label="events")


def foreign_of(node: Node, collected: bool) -> Foreign:
    raise Declined()  # and no reason beside those of the plan


def match(text: str, settings: Settings = Settings(), folder: Path = NEWEST) -> Matches:  # noqa: B008
    root = complete_recorded(parse_recorded(folder, text))
    return match_plan(root, relation_of, foreign_of, settings, Scope({}, "UTC"))


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_golden_plan(folder: Path, name: str) -> None:
    matches = match((folder / f"{name}.json").read_text(), folder=folder)
    parts = [f"at {list(m.path)}:\n{tree_text(optimize(m.plan))}" for m in matches.found]
    text = "\n".join([QUERIES[name], "", *parts, *(f"* {reason}" for reason in matches.reasons)]) + "\n"
    golden = folder / f"{name}.txt"
    if os.environ.get("SUNDOG_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_the_rules_run_twice_are_the_rules_run_once(folder: Path, name: str) -> None:
    for found in match((folder / f"{name}.json").read_text(), folder=folder).found:
        once = optimize(found.plan)
        assert optimize(once) == once


def covering(found: list[Match], path: tuple[int, ...]) -> dict[tuple[int, ...], LogicalPlan]:
    """What was taken of a plan that holds the node at `path`."""
    return {taken.path: taken.plan for taken in found if path[: len(taken.path)] == taken.path}


def found_in(nodes: list[Any]) -> list[Match]:
    """Nothing where the plan declines, or where reading it fails in a way that the life of an action turns into a
    fallback."""
    with suppress(Declined, LookupError, TypeError, AttributeError, ValueError):
        return match(json.dumps(nodes)).found
    return []


@pytest.mark.parametrize("name", ["topk", "aggregate", "window_range"])
def test_an_operator_of_a_future_version_is_not_taken(name: str) -> None:
    nodes = json.loads((NEWEST / f"{name}.json").read_text())
    paths = [node.path for node in parse_plan(json.dumps(nodes)).walk()]
    for index, node in enumerate(nodes):
        variant = {**node, "class": "org.apache.spark.sql.Future"}
        found = found_in([*nodes[:index], variant, *nodes[index + 1 :]])
        assert not covering(found, paths[index]), node["class"]


@pytest.mark.parametrize("name", ["topk", "aggregate", "window_range"])
def test_a_field_of_a_future_version_declines_or_means_nothing(name: str) -> None:
    """Every field in turn is lost, or is of another kind: what is still taken is what was taken with it."""
    nodes = json.loads((NEWEST / f"{name}.json").read_text())
    paths = [node.path for node in parse_plan(json.dumps(nodes)).walk()]
    whole = match(json.dumps(nodes)).found
    declined = 0
    for index, node in enumerate(nodes):
        for key in set(node) - {"class", "num-children"}:
            lost = {k: v for k, v in node.items() if k != key}
            for variant in (lost, {**node, key: {"object": "org.apache.spark.Future$"}}):
                taken = covering(found_in([*nodes[:index], variant, *nodes[index + 1 :]]), paths[index])
                before = covering(whole, paths[index])
                assert all(before.get(path) == plan for path, plan in taken.items()), (node["class"], key)
                declined += not taken
    assert declined > len(nodes)


def test_a_union_of_shapes_is_taken_as_a_whole() -> None:
    (found,) = match((NEWEST / "topk_union.json").read_text()).found
    assert found.path == ()


def test_switched_off_shapes_say_so() -> None:
    text = (NEWEST / "topk.json").read_text()
    matches = match(text, Settings(topk_enabled=False))
    assert not matches.found
    assert [reason.code for reason in matches.reasons] == [Code.DISABLED]


LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
SHUFFLES = [
    {"class": LOGICAL + "Repartition", "num-children": 1, "numPartitions": 4, "shuffle": True, "child": 0},
    {"class": LOGICAL + "Repartition", "num-children": 1, "numPartitions": 4, "shuffle": False, "child": 0},
    {"class": LOGICAL + "RebalancePartitions", "num-children": 1, "partitionExpressions": [], "child": 0},
]


def repartitioned(name: str, above: str, node: dict[str, Any]) -> str:
    """The recorded plan with a node that moves rows below the first one of a class."""
    nodes = json.loads((NEWEST / f"{name}.json").read_text())
    at = 1 + next(index for index, each in enumerate(nodes) if each["class"] == LOGICAL + above)
    return json.dumps([*nodes[:at], node, *nodes[at:]])


@pytest.mark.parametrize("node", SHUFFLES)
@pytest.mark.parametrize(
    ("name", "above"), [("aggregate", "Aggregate"), ("topk_offset", "Sort"), ("window_range", "Window")]
)
def test_moving_rows_below_a_shape_changes_nothing(name: str, above: str, node: dict[str, Any]) -> None:
    (plain,) = match((NEWEST / f"{name}.json").read_text()).found
    (found,) = match(repartitioned(name, above, node)).found
    assert found.plan == plain.plan


@pytest.mark.parametrize("node", SHUFFLES)
def test_moving_the_rows_of_a_result_is_left_to_spark(node: dict[str, Any]) -> None:
    nodes = json.loads((NEWEST / "aggregate.json").read_text())
    found = match(json.dumps([node, *nodes])).found
    assert [each.path for each in found] == ([] if node.get("shuffle") is False else [(0,)])


def test_moving_rows_by_an_expression_may_raise() -> None:
    def by(*keys: dict[str, Any]) -> list[Any]:
        return match(
            repartitioned("aggregate", "Aggregate", {**SHUFFLES[2], "partitionExpressions": [list(keys)]})
        ).found

    expressions = "org.apache.spark.sql.catalyst.expressions."
    column = {"class": expressions + "AttributeReference", "num-children": 0, "name": "num", "dataType": "integer"}
    order = {"class": expressions + "SortOrder", "num-children": 1}
    negated = {"class": expressions + "UnaryMinus", "num-children": 1}
    assert by(column)
    assert by(order, column)
    assert not by(negated, column)
    assert not by(order, negated, column)
