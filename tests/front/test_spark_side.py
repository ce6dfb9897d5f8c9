"""Which side of a join may be foreign rows (computed by Spark), on trees written here."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from sundog.front.catalyst_json import Node
from sundog.front.shapes.spark_side import changed_by_running_twice, sides_of_join
from sundog.plan.logical import Foreign, LocalRows, LogicalPlan, Scan
from sundog.support import Code, Declined
from sundog.tables.parquet_folder import ParquetFolder

TABLE, ROWS, UNKNOWN = Node("table", {}), Node("rows", {}), Node("unknown", {})
SCAN = Scan(ParquetFolder((), (), label="t"), ())
LOCAL = LocalRows(pa.record_batch({"a#1": [1]}))
SIDE = Foreign(0, (("k#1", pa.int64()),), collected=True)


def join(kind: str, left: Node, right: Node) -> Node:
    return Node("Join", {"joinType": {"object": f"org.apache.spark.sql.catalyst.plans.{kind}$"}}, (left, right))


def convert(node: Node) -> LogicalPlan:
    if node is UNKNOWN:
        raise Declined.because(Code.UNKNOWN_NODE, "stays on Spark", node.name)
    return SCAN if node is TABLE else LOCAL


def collect(node: Node) -> Foreign:
    assert node is UNKNOWN
    return SIDE


@pytest.mark.parametrize(
    ("kind", "sides"),
    [
        ("Inner", {"left", "right"}),
        ("Cross", {"left", "right"}),
        ("LeftOuter", {"right"}),
        ("RightOuter", {"left"}),
        ("FullOuter", set()),
        ("LeftSemi", {"right"}),
        ("LeftAnti", {"right"}),
        ("ExistenceJoin", {"right"}),
    ],
)
def test_only_a_side_that_the_operator_can_build_is_collected(kind: str, sides: set[str]) -> None:
    taken = set()
    for side, node in (("left", join(kind, UNKNOWN, TABLE)), ("right", join(kind, TABLE, UNKNOWN))):
        with suppress(Declined):
            plans, why = sides_of_join(node, convert, collect)
            assert plans == ([SIDE, SCAN] if side == "left" else [SCAN, SIDE])
            assert [reason.code for reason in why] == [Code.UNKNOWN_NODE]
            taken.add(side)
    assert taken == sides


def test_the_other_side_reads_a_table() -> None:
    assert sides_of_join(join("Inner", TABLE, ROWS), convert, collect) == ([SCAN, LOCAL], ())
    for node in (join("Inner", ROWS, UNKNOWN), join("Inner", UNKNOWN, UNKNOWN)):
        with pytest.raises(Declined) as declined:
            sides_of_join(node, convert, collect)
        assert len(declined.value.reasons) == 1


def test_reasons_of_both_are_told() -> None:
    def refuse(node: Node) -> Foreign:
        raise Declined.because(Code.UNSUPPORTED_TYPE, "an array")

    with pytest.raises(Declined) as declined:
        sides_of_join(join("Inner", TABLE, UNKNOWN), convert, refuse)
    assert [reason.code for reason in declined.value.reasons] == [Code.UNKNOWN_NODE, Code.UNSUPPORTED_TYPE]


@pytest.mark.parametrize(
    ("name", "fields", "code"),
    [
        ("ScriptTransformation", {}, Code.NONDETERMINISTIC),
        ("Project", {"projectList": Node("CallMethodViaReflection", {})}, Code.NONDETERMINISTIC),
        ("Project", {"projectList": Node("PythonUDF", {"udfDeterministic": False})}, Code.NONDETERMINISTIC),
        ("Filter", {"condition": Node("OuterReference", {})}, Code.UNKNOWN_NODE),
        ("Project", {"projectList": Node("PythonUDF", {"udfDeterministic": True})}, None),
        ("Project", {"projectList": Node("Rand", {"deterministic": False})}, None),
    ],
)
def test_what_would_show_that_it_ran_twice(name: str, fields: dict[str, Any], code: Code | None) -> None:
    found = changed_by_running_twice(Node("Filter", {}, (Node(name, fields),)))
    assert (None if found is None else found.code) is code
