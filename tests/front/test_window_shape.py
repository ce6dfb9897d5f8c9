"""Catalyst's windows -> logical windows, from golden plans, without a JVM.

`tests/plans/<version>/window_NAME.json` is what `tests/plans/record_windows.py` recorded, `window_NAME.txt` what must
come out. `SUNDOG_UPDATE_GOLDEN=1` writes the texts anew: look at the difference before you commit it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sundog.config import Settings
from sundog.expr.calls import Bound, WindowCall
from sundog.expr.evaluation.zones import Zone
from sundog.expr.printing import render, render_order
from sundog.front.catalyst_json import Node, parse_plan
from sundog.front.expressions.reading import Scope
from sundog.front.match import Matches, match_plan
from sundog.front.shapes.window import match_window
from sundog.plan.logical import Foreign, LogicalPlan, Project, Window
from sundog.support import Code, Declined
from sundog.tree import walk
from sundog.types import arrow_type
from tests.front.test_match import covering, found_in, relation_of
from tests.plans.record_windows import WINDOWS
from tests.plans.recorded import complete_recorded
from tests.plans.versions import FOLDERS, NEWEST, known_to, parse_recorded

CASES = [
    pytest.param(folder, name, id=f"{folder.name}-{name}") for folder in FOLDERS for name in known_to(folder, WINDOWS)
]
BERLIN = Zone("Europe/Berlin", 3600, ((828_234_000, 3600, 7200),))


def no_spark(node: Node) -> Foreign:
    raise Declined()  # and no reason beside those of the plan


def match(text: str, zone: str = "UTC", folder: Path = NEWEST) -> Matches:
    scope = Scope({}, zone, {"Europe/Berlin": BERLIN})
    return match_plan(complete_recorded(parse_recorded(folder, text)), relation_of, no_spark, Settings(), scope)


def text_of(plan: LogicalPlan) -> Iterator[str]:
    for node in walk(plan):
        if isinstance(node, Project):
            named = [named for named in node.exprs if not named.is_passthrough]
            yield from (f"Project {render(n.expr)} AS {n.name}" for n in named)
        elif isinstance(node, Window):
            keys = ", ".join(render(key) for key in node.partition_by)
            yield f"Window partition=[{keys}] order=[{render_order(node.order_by)}]"
            yield from (f"  {call_text(call)}" for call in node.calls)


def call_text(call: WindowCall) -> str:
    args = ", ".join(render(arg) for arg in call.args)
    more = [f"FILTER {render(call.filter)}"] if call.filter is not None else []
    more += ["IGNORE NULLS"] if call.ignore_nulls else []
    more += [] if call.ansi else ["not ANSI"]
    bounds = " .. ".join(bound_text(bound) for bound in (call.frame.start, call.frame.end))
    return " ".join([f"{call.name} {call.dtype} = {call.function}({args})", *more, call.frame.units, bounds])


def bound_text(bound: Bound) -> str:
    return bound.kind.value if bound.offset is None else f"{bound.offset!r} {bound.unit or ''}".strip()


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_golden_window(folder: Path, name: str) -> None:
    matches = match((folder / f"window_{name}.json").read_text(), folder=folder)
    lines = [line for found in matches.found for line in text_of(found.plan)]
    text = "\n".join([*lines, *(f"* {reason}" for reason in matches.reasons)]) + "\n"
    golden = folder / f"window_{name}.txt"
    if os.environ.get("SUNDOG_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def reasons_in(zone: str) -> list[Code]:
    return [reason.code for reason in match((NEWEST / "window_zone.json").read_text(), zone).reasons]


def test_a_day_on_timestamps_is_declined_where_clocks_change() -> None:
    """24 hours is one day to Spark; 23 hours, and any interval on a timestamp without a zone, is only a distance."""
    assert reasons_in("UTC") == reasons_in("+05:30") == []
    found = match((NEWEST / "window_zone.json").read_text(), "Europe/Berlin")
    assert [reason.code for reason in found.reasons] == [Code.FRAME]
    assert "a day or more" in found.reasons[0].sentence


def test_months_on_timestamps_need_utc() -> None:
    text = (NEWEST / "window_range_interval.json").read_text()
    assert match(text, "UTC").found
    for zone in ("+05:30", "Europe/Berlin", "Mars/Olympus"):
        sentences = " ".join(reason.sentence for reason in match(text, zone).reasons)
        assert "an interval of months" in sentences


def test_a_window_under_a_limit_on_ranks_stays_on_spark() -> None:
    plan = parse_plan((NEWEST / "window_group_limit.json").read_text())
    window = next(node for node in plan.walk() if node.name == "Window")
    below = Foreign(0, (("id#1", pa.int64()),))
    with pytest.raises(Declined, match="COST"):
        match_window(window, below, Scope({}))


def test_partition_by() -> None:
    plan = complete_recorded(parse_plan((NEWEST / "window_partitioned.json").read_text()))
    window = next(node for node in plan.walk() if node.name == "Window")
    attributes = [
        a for a in next(n for n in plan.walk() if not n.children)["output"] if a["name"] in ["id", "k", "s", "d"]
    ]
    columns = {f"{a['name']}#{a['exprId']['id']}": arrow_type(a["dataType"]) for a in attributes}
    below = Foreign(0, tuple(columns.items()))
    lines = list(text_of(match_window(window, below, Scope(columns))))
    assert [re.sub(r"#\d+", "", line) for line in lines] == [
        "Window partition=[k, s] order=[id DESC NULLS LAST, d ASC NULLS LAST]",
        "  a double = min(d) rows -3 .. CURRENT ROW",
    ]


@pytest.mark.parametrize("name", ["range_numbers", "shifts", "sums"])
def test_a_window_of_a_future_version_declines_or_is_the_same(name: str) -> None:
    """Every part of a call in turn gets an unknown class, loses its children or a field, or has a field of another
    kind."""
    nodes = json.loads((NEWEST / f"window_{name}.json").read_text())
    paths = [node.path for node in parse_plan(json.dumps(nodes)).walk()]
    before = match(json.dumps(nodes)).found
    declined = 0
    for index, node in enumerate(nodes):
        if not node["class"].endswith(".Window"):
            continue
        for number, tree in enumerate(node["windowExpressions"]):
            for place, part in enumerate(tree):
                if part["class"].endswith((".MakeDecimal", ".AttributeReference", ".SortOrder")):
                    # read by front.expressions, which has a test like this of its own, or from the window's own keys
                    continue
                variants = [{**part, "class": "org.apache.spark.sql.Future"}]
                variants += [{**part, "num-children": 0}] if part["num-children"] else []
                unreadable = len(variants)
                for key in set(part) - {"class", "num-children", "exprId", "name"}:
                    variants.append({k: v for k, v in part.items() if k != key})
                    variants.append({**part, key: {"object": "org.apache.spark.Future$"}})
                for count, variant in enumerate(variants):
                    trees = list(node["windowExpressions"])
                    trees[number] = [*tree[:place], variant, *tree[place + 1 :]]
                    changed = [*nodes[:index], {**node, "windowExpressions": trees}, *nodes[index + 1 :]]
                    taken = covering(found_in(changed), paths[index])
                    whole = covering(before, paths[index])
                    assert not taken or count >= unreadable, (part["class"], variant)
                    assert all(whole.get(path) == plan for path, plan in taken.items()), (part["class"], variant)
                    declined += not taken
    assert declined > 10
