"""Golden Catalyst plans with joins -> sundog's `Join`, without a JVM. See `test_match.py` for the golden texts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sundog.config import Settings
from sundog.expr.calls import JoinKind
from sundog.front.catalyst_json import parse_plan
from sundog.front.expressions.reading import Scope
from sundog.front.match import Matches
from sundog.front.shapes.join import match_join
from sundog.plan.logical import Aggregate, Join, Scan
from sundog.plan.rules.order import optimize
from sundog.support import Code, Declined
from sundog.tree import walk
from tests.front.test_match import match
from tests.plans.record_joins import QUERIES
from tests.plans.text import tree_text
from tests.plans.versions import FOLDERS, NEWEST, known_to

CASES = [
    pytest.param(folder, name, id=f"{folder.name}-{name}") for folder in FOLDERS for name in known_to(folder, QUERIES)
]


def matched(name: str, settings: Settings = Settings(), folder: Path = NEWEST) -> Matches:  # noqa: B008
    return match((folder / f"{name}.json").read_text(), settings, folder)


def only_join(name: str) -> Join:
    (join,) = (node for found in matched(name).found for node in walk(found.plan) if isinstance(node, Join))
    return join


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_golden_plan(folder: Path, name: str) -> None:
    matches = matched(name, folder=folder)
    parts = [f"at {list(m.path)}:\n{tree_text(optimize(m.plan))}" for m in matches.found]
    text = "\n".join([QUERIES[name], "", *parts, *(f"* {reason}" for reason in matches.reasons)]) + "\n"
    golden = folder / f"{name}.txt"
    if os.environ.get("SUNDOG_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_the_rules_run_twice_are_the_rules_run_once(folder: Path, name: str) -> None:
    for found in matched(name, folder=folder).found:
        once = optimize(found.plan)
        assert optimize(once) == once


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("join_inner", JoinKind.INNER),
        ("join_cross", JoinKind.INNER),
        ("join_left", JoinKind.LEFT),
        ("join_right", JoinKind.LEFT),
        ("join_full", JoinKind.FULL),
        ("join_semi", JoinKind.SEMI),
        ("join_anti", JoinKind.ANTI),
        ("join_not_in", JoinKind.NULL_AWARE_ANTI),
        ("join_not_in_two", JoinKind.ANTI),
        ("join_existence", JoinKind.EXISTENCE),
    ],
)
def test_every_kind_of_join(name: str, kind: JoinKind) -> None:
    assert only_join(name).kind is kind


def test_equalities_of_the_two_sides_are_keys_and_the_rest_is_the_condition() -> None:
    join = only_join("join_condition")
    assert [key.null_safe for key in join.keys] == [False, True]
    left = set(join.left.schema.names)
    assert all(key.left.name in left and key.right.name not in left for key in join.keys)  # type: ignore[attr-defined]
    assert join.condition is not None


def test_an_equality_with_a_constant_is_no_key() -> None:
    """Of an outer join it stays in the condition: the optimiser pushes it down only where that is the same."""
    join = only_join("join_left")
    assert len(join.keys) == 1
    assert join.condition is not None


def test_a_right_join_has_its_sides_exchanged_and_its_columns_in_place() -> None:
    (found,) = matched("join_right").found
    (join,) = (node for node in walk(found.plan) if isinstance(node, Join))
    assert len(join.left.schema) > len(join.right.schema)
    assert [name.rpartition("#")[0] for name in found.plan.schema.names][:3] == ["id", "s", "id"]


def test_both_columns_of_not_in_leave_no_key() -> None:
    join = only_join("join_not_in_two")
    assert join.keys == ()
    assert join.condition is not None


def test_doubles_of_not_in_are_compared_by_their_bits_in_spark() -> None:
    matches = matched("join_not_in_doubles")
    assert not matches.found
    assert [reason.code for reason in matches.reasons] == [Code.UNSUPPORTED_TYPE]


def test_an_existence_join_adds_its_column() -> None:
    join = only_join("join_existence")
    assert join.exists is not None
    assert join.schema.names == [*join.left.schema.names, join.exists]


def test_the_floats_of_keys_are_not_normalised_twice() -> None:
    assert "normalize" not in tree_text(only_join("join_doubles")).splitlines()[0].split(",")[1]


def test_a_condition_that_raises_stays_a_condition() -> None:
    assert only_join("join_raising_condition").condition is not None


def test_a_semi_join_does_not_test_all_pairs_so_its_condition_must_not_raise() -> None:
    matches = matched("join_semi_raising")
    assert not matches.found
    assert [reason.code for reason in matches.reasons] == [Code.CAN_RAISE]


def test_below_a_join_that_is_declined_the_search_goes_on() -> None:
    matches = matched("join_side_declined")
    assert not any(isinstance(node, Join) for found in matches.found for node in walk(found.plan))
    assert Code.UNKNOWN_EXPRESSION in [reason.code for reason in matches.reasons]


def test_a_join_above_shapes_is_taken_with_them() -> None:
    (found,) = matched("join_of_shapes").found
    assert found.path == ()


@pytest.mark.parametrize("name", ["join_alone", "join_limit"])
def test_a_join_alone_is_no_shape(name: str) -> None:
    assert not matched(name).found


def test_switched_off_joins_say_so_and_stay_with_what_is_above() -> None:
    matches = matched("join_of_shapes", Settings(join_enabled=False))
    assert len(matches.found) == 2
    matches = matched("join_inner", Settings(join_enabled=False))
    assert not matches.found
    assert [reason.code for reason in matches.reasons] == [Code.DISABLED]


def test_except_is_a_null_safe_anti_join_below_an_aggregate() -> None:
    (found,) = matched("except").found
    assert any(isinstance(node, Aggregate) for node in walk(found.plan))
    join = only_join("except")
    assert join.kind is JoinKind.ANTI
    assert all(key.null_safe for key in join.keys)


@pytest.mark.parametrize("name", ["join_inner", "join_existence"])
def test_a_field_of_a_future_version_is_declined(name: str) -> None:
    nodes = json.loads((NEWEST / f"{name}.json").read_text())
    at = next(index for index, node in enumerate(nodes) if node["class"].endswith(".Join"))
    for key in ("joinType", "hint", "left", "right"):
        lost = {k: v for k, v in nodes[at].items() if k != key}
        found = match(json.dumps([*nodes[:at], lost, *nodes[at + 1 :]])).found
        assert not any(isinstance(node, Join) for each in found for node in walk(each.plan)), key
    renamed = {("test" if key == "condition" else key): value for key, value in nodes[at].items()}
    for variant in (renamed, {**nodes[at], "joinType": {"object": "org.apache.spark.sql.LeftFuture$"}}):
        found = match(json.dumps([*nodes[:at], variant, *nodes[at + 1 :]])).found
        assert not any(isinstance(node, Join) for each in found for node in walk(each.plan))


def test_sides_that_share_a_column_are_declined() -> None:
    (node,) = (each for each in parse_plan((NEWEST / "join_inner.json").read_text()).walk() if each.name == "Join")
    side = next(each for each in walk(only_join("join_inner")) if isinstance(each, Scan))
    with pytest.raises(Declined, match="both sides of a join have the column"):
        match_join(node, side, side, Scope({}))
