"""The JSON of a plan becomes a tree; what is not such JSON, or of a future form, declines and never crashes."""

from __future__ import annotations

import json

import pytest

from sundog.front.catalyst_json import Node, object_name, parse_plan
from sundog.support import Code, Declined


def node(name: str, children: int = 0, **fields: object) -> dict[str, object]:
    return {"class": f"org.apache.spark.{name}", "num-children": children, **fields}


def test_a_tree_is_rebuilt_from_preorder_with_paths() -> None:
    plan = parse_plan(json.dumps([node("Join", 2, left=0, right=1), node("A", 1), node("B"), node("C")]))
    assert [n.name for n in plan.walk()] == ["Join", "A", "B", "C"]
    assert [n.path for n in plan.walk()] == [(), (0,), (0, 0), (1,)]


def test_fields_with_trees_become_nodes() -> None:
    one, several = [node("Not", 1), node("X")], [[node("Y")], [node("Z")]]
    plan = parse_plan(json.dumps([node("Filter", 0, condition=one, projectList=several, names=["a"], empty=[])]))
    assert isinstance(plan["condition"], Node)
    assert plan["condition"].child.name == "X"
    assert [tree.name for tree in plan["projectList"]] == ["Y", "Z"]
    assert [tree.name for tree in plan.trees()] == ["Not", "Y", "Z"]
    assert plan["names"] == ["a"]
    assert plan["empty"] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "{}",
        "[]",
        "[1]",
        json.dumps([node("A", 1)]),
        json.dumps([node("A"), node("B")]),
    ],
)
def test_anything_else_declines(text: str) -> None:
    with pytest.raises(Declined) as caught:
        parse_plan(text)
    assert caught.value.reasons[0].code is Code.PLAN_VERSION


def test_a_field_that_is_not_there_declines() -> None:
    plan = parse_plan(json.dumps([node("A")]))
    with pytest.raises(Declined, match="has no field 'limitExpr'"):
        plan["limitExpr"]
    with pytest.raises(Declined):
        _ = plan.child
    with pytest.raises(Declined):
        plan.child_at(0)
    assert plan.get("limitExpr", 3) == 3


def test_names_of_objects() -> None:
    assert object_name({"object": "org.x.Descending$"}) == "Descending"
    assert object_name({"product-class": "org.x.ExprId"}) == "ExprId"
    assert object_name("org.x.Y$") == "Y"
    assert object_name({}) == ""
