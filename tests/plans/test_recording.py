"""What is recorded depends on the query alone."""

from __future__ import annotations

import json
from typing import Any

from tests.plans.analysed import stable_text


def column(name: str, number: int, jvm: str) -> dict[str, Any]:
    return {"class": "AttributeReference", "name": name, "exprId": {"id": number, "jvmId": jvm}}


def test_ids_are_numbered_in_the_order_in_which_they_appear() -> None:
    first = stable_text([column("a", 41, "x"), {"child": [column("b", 7, "x"), column("a", 41, "x")]}])
    second = stable_text([column("a", 3, "y"), {"child": [column("b", 99, "y"), column("a", 3, "y")]}])
    assert first == second
    assert [node["exprId"]["id"] for node in json.loads(first)[1]["child"]] == [1, 0]


def test_a_query_more_changes_no_other_of_the_same_file() -> None:
    entries = [{"sql": "a", "node": column("a", 12, "x")}, {"sql": "b", "node": column("b", 12, "x")}]
    both = json.loads(stable_text(entries))
    assert both[1] == json.loads(stable_text([{"sql": "b", "node": column("b", 40, "x")}]))[0]


def test_what_was_made_stable_stays_as_it_is() -> None:
    once = stable_text([column("a", 41, "x"), column("b", 7, "x")])
    assert stable_text(json.loads(once)) == once
