"""Filters that Spark adds as hints are left out; a filter that only looks like one is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sundog.front.catalyst_json import Node
from sundog.front.shapes.runtime_filters import conjunct_nodes, reads_subquery, without_runtime_filters
from sundog.plan.logical import Join, Scan
from sundog.plan.rules.order import optimize
from sundog.tree import walk
from tests.front.test_match import match
from tests.plans.record_joins import RUNTIME_FILTERS
from tests.plans.text import tree_text
from tests.plans.versions import FOLDERS, NEWEST, parse_recorded

EACH_FOLDER = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def conditions(name: str, folder: Path = NEWEST) -> list[Node]:
    root = parse_recorded(folder, (folder / f"{name}.json").read_text())
    return [node["condition"] for node in root.walk() if node.name == "Filter"]


def only(name: str, kind: str, folder: Path = NEWEST) -> Node:
    """The one conjunct of a recorded plan of this kind."""
    (found,) = (
        part for condition in conditions(name, folder) for part in conjunct_nodes(condition) if part.name == kind
    )
    return found


@EACH_FOLDER
def test_the_recorded_plans_have_hints(folder: Path) -> None:
    assert only("join_dynamic_pruning", "DynamicPruningSubquery", folder)
    assert only("join_bloom_filter", "BloomFilterMightContain", folder)


@EACH_FOLDER
@pytest.mark.parametrize("name", ["join_dynamic_pruning", "join_pruning_only", "join_bloom_filter"])
def test_a_join_with_hints_is_taken_without_them(name: str, folder: Path) -> None:
    (found,) = match((folder / f"{name}.json").read_text(), folder=folder).found
    assert found.path == ()
    assert any(isinstance(node, Join) for node in walk(found.plan))
    text = tree_text(optimize(found.plan))
    assert "might_contain" not in text
    assert "subquery" not in text


def test_the_other_conditions_stay() -> None:
    (found,) = match((NEWEST / "join_dynamic_pruning.json").read_text()).found
    scans = [node for node in walk(optimize(found.plan)) if isinstance(node, Scan)]
    assert "> 3" in tree_text(scans[0])


def test_a_filter_of_hints_only_is_no_filter() -> None:
    hint = only("join_dynamic_pruning", "DynamicPruningSubquery")
    assert without_runtime_filters(hint) is None
    assert without_runtime_filters(Node("And", {}, (hint, hint))) is None


def test_a_hint_that_is_no_conjunct_is_kept() -> None:
    hint = only("join_dynamic_pruning", "DynamicPruningSubquery")
    for kept in (Node("Not", {}, (hint,)), Node("Or", {}, (hint, hint))):
        assert without_runtime_filters(kept) is kept


def test_a_bloom_filter_of_another_form_is_kept() -> None:
    hint = only("join_bloom_filter", "BloomFilterMightContain")
    made, value = hint.children
    assert without_runtime_filters(hint) is None
    plan = made["plan"]
    others = [
        replace(hint, children=(made, value.child)),  # of the value itself, not of its hash
        replace(hint, children=(Node("Literal", {"value": "x", "dataType": "binary"}), value)),
        replace(hint, children=(replace(made, fields={**made.fields, "plan": plan.child}), value)),
        replace(hint, children=(replace(made, children=(value,)), value)),  # correlated
        replace(hint, name="FutureMightContain"),
    ]
    for other in others:
        assert without_runtime_filters(other) is other


@EACH_FOLDER
def test_a_partition_filter_with_a_subquery_is_not_for_listing_files(folder: Path) -> None:
    parts = [part for condition in conditions("partition_subquery", folder) for part in conjunct_nodes(condition)]
    assert [part.name for part in parts if reads_subquery(part)] == ["EqualTo"]
    assert reads_subquery(only("join_dynamic_pruning", "DynamicPruningSubquery", folder))


def test_every_recorded_query_is_tested() -> None:
    assert set(RUNTIME_FILTERS) == {
        "join_dynamic_pruning",
        "join_pruning_only",
        "join_bloom_filter",
        "partition_subquery",
    }
