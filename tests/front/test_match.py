"""Golden Catalyst plans -> what sundog takes of them, as text, without a JVM.

`tests/plans/<version>/NAME.json` is Catalyst's JSON as `tests/plans/record.py` recorded it; `NAME.txt` beside it is what
must come out. `SUNDOG_UPDATE_GOLDEN=1` writes the texts anew: look at the difference before you commit it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from sundog.config import Settings
from sundog.front.catalyst_expr import Scope
from sundog.front.catalyst_json import Node, parse_plan
from sundog.front.match import Matches, match_plan
from sundog.front.relation import internal_name
from sundog.parquet.relation import DataFile, FileColumn, Relation
from sundog.plan.logical import Foreign
from sundog.plan.physical import lower
from sundog.plan.rules.order import optimize
from sundog.report.explain import render_plan
from sundog.support import Code, Declined
from sundog.types import arrow_type
from tests.plans.record import QUERIES
from tests.plans.recorded import complete_recorded

FOLDERS = sorted(path for path in (Path(__file__).parent.parent / "plans").iterdir() if path.name[0].isdigit())
CASES = [pytest.param(folder, name, id=f"{folder.name}-{name}") for folder in FOLDERS for name in QUERIES]


def relation_of(leaf: Node, condition: Node | None) -> Relation:
    columns = [(a, arrow_type(a["dataType"])) for a in leaf["output"]]
    found = tuple(FileColumn(internal_name(a), a["name"], t) for a, t in columns if t is not None)
    return Relation((DataFile("/data/events/part-0.parquet", 1, 1),), found, label="events")


def foreign_of(node: Node) -> Foreign:
    raise Declined.because(Code.UNKNOWN_NODE, "no Spark here", node.name)


def match(text: str, settings: Settings = Settings()) -> Matches:  # noqa: B008
    return match_plan(complete_recorded(parse_plan(text)), relation_of, foreign_of, settings, Scope({}, "UTC"))


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_golden_plan(folder: Path, name: str) -> None:
    matches = match((folder / f"{name}.json").read_text())
    parts = [f"at {list(m.path)}:\n{render_plan(lower(optimize(m.plan), Settings()))}" for m in matches.found]
    text = "\n".join([QUERIES[name], "", *parts, *(f"* {reason}" for reason in matches.reasons)]) + "\n"
    golden = folder / f"{name}.txt"
    if os.environ.get("SUNDOG_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_the_rules_run_twice_are_the_rules_run_once(folder: Path, name: str) -> None:
    for found in match((folder / f"{name}.json").read_text()).found:
        once = optimize(found.plan)
        assert optimize(once) == once


@pytest.mark.parametrize("name", ["topk", "aggregate", "window_range"])
def test_a_plan_of_a_future_version_falls_back_and_does_not_crash(name: str) -> None:
    """Every node in turn gets an unknown class, loses a field, or has a field of another kind.

    What is raised then need not be Declined: the life of an action leaves the query to Spark after any error.
    """
    nodes = json.loads((FOLDERS[-1] / f"{name}.json").read_text())
    for index, node in enumerate(nodes):
        variants = [{**node, "class": "org.apache.spark.sql.Future"}]
        for key in set(node) - {"class", "num-children"}:
            variants.append({k: v for k, v in node.items() if k != key})
            variants.append({**node, key: {"object": "org.apache.spark.Future$"}})
        for variant in variants:
            with suppress(Declined, LookupError, TypeError, AttributeError, ValueError):
                match(json.dumps([*nodes[:index], variant, *nodes[index + 1 :]]))


def test_switched_off_shapes_say_so() -> None:
    text = (FOLDERS[-1] / "topk.json").read_text()
    matches = match(text, Settings(topk_enabled=False))
    assert not matches.found
    assert [reason.code for reason in matches.reasons] == [Code.DISABLED]
