"""Golden Catalyst expressions -> sundog's, as text, without a JVM.

`tests/plans/<version>/expr_GROUP.json` is what `tests/plans/record_expressions.py` recorded; `expr_GROUP.txt` beside it
is what must come out: the expression and its type, or the reasons. `SUNDOG_UPDATE_GOLDEN=1` writes the texts anew: look
at the difference before you commit it.
"""

from __future__ import annotations

import copy
import json
import math
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sundog.expr.evaluation.zones import Zone
from sundog.expr.nodes import Cast, Column, EvalMode, Literal, StringCall, StringFunction
from sundog.expr.printing import render
from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import Scope
from sundog.front.expressions.translate import SUPPORTED_EXPRESSIONS, translate
from sundog.support import Code, Declined
from sundog.tree import walk
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, spark_name
from sundog.versions import VERSIONS
from tests.plans.record_expressions import GROUPS, SCHEMA
from tests.plans.versions import FOLDERS, NEWEST, known_to, parse_recorded

CASES = [pytest.param(folder, group, id=f"{folder.name}-{group}") for folder in FOLDERS for group in GROUPS]


def load(folder: Path, group: str) -> dict[str, list[dict[str, Any]]]:
    entries = json.loads((folder / f"expr_{group}.json").read_text())
    return {entry["sql"]: entry["nodes"] for entry in entries}


def tree_of(nodes: list[dict[str, Any]], folder: Path = NEWEST) -> Node:
    return parse_recorded(folder, json.dumps(nodes))


def scope_of(tree: Node, **settings: Any) -> Scope:
    """All columns that the tree reads and that have a type; `i#7` under whatever id it was recorded with."""
    names = {f"{n['name']}#{n['exprId']['id']}": n["name"] for n in tree.walk() if n.name == "AttributeReference"}
    types = {name: SCHEMA.field(plain).type for name, plain in names.items() if plain in SCHEMA.names}
    return Scope({name: dtype for name, dtype in types.items() if not pa.types.is_list(dtype)}, **settings)


def outcome(sql: str, nodes: list[dict[str, Any]], folder: Path) -> str:
    tree = tree_of(nodes, folder)
    try:
        expr = translate(tree, scope_of(tree))
    except Declined as declined:
        return "\n".join([sql, *(f"    declined {reason}" for reason in declined.reasons)])
    text = render(expr)
    for node in tree.walk():
        if node.name == "AttributeReference":
            text = text.replace(f"{node['name']}#{node['exprId']['id']}", node["name"])
    return f"{sql}\n    {text} :: {spark_name(expr.dtype)}"


@pytest.mark.parametrize(("folder", "group"), CASES)
def test_golden(folder: Path, group: str) -> None:
    entries = load(folder, group)
    assert list(entries) == known_to(folder, GROUPS[group]), "record the expressions again"
    text = "\n".join(outcome(sql, nodes, folder) for sql, nodes in entries.items()) + "\n"
    golden = folder / f"expr_{group}.txt"
    if os.environ.get("SUNDOG_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_everything_in_the_table_is_met_by_a_golden_expression() -> None:
    met = {node.name for group in GROUPS for nodes in load(NEWEST, group).values() for node in tree_of(nodes).walk()}
    # These stand around keys and sums that only aggregation makes, or in plans of other Spark versions.
    made_elsewhere = {
        "CheckOverflow",
        "GetStructField",
        "KnownFloatingPointNormalized",
        "KnownNotNull",
        "KnownNullable",
        "MakeDecimal",
        "NormalizeNaNAndZero",
        "PromotePrecision",
        "UnscaledValue",
    }
    assert set(SUPPORTED_EXPRESSIONS) - met <= made_elsewhere


def recorded(sql: str) -> list[dict[str, Any]]:
    for group in GROUPS:
        entries = load(NEWEST, group)
        if sql in entries:
            return copy.deepcopy(entries[sql])
    raise KeyError(sql)


def declined_codes(nodes: list[dict[str, Any]], **settings: Any) -> list[Code]:
    tree = tree_of(nodes)
    with pytest.raises(Declined) as declined:
        translate(tree, scope_of(tree, **settings))
    return [reason.code for reason in declined.value.reasons]


@pytest.mark.parametrize(
    ("sql", "field"),
    [("i + 1", "evalContext"), ("cast(l as int)", "evalMode"), ("s like 'a_c'", "escapeChar"), ("-i", "failOnError")],
)
@pytest.mark.parametrize("value", [None, "FUTURE_MODE"])
def test_a_mode_of_unknown_form_declines(sql: str, field: str, value: Any) -> None:
    nodes = recorded(sql)
    for node in nodes:
        if field in node:
            node[field] = value
    assert declined_codes(nodes) == [Code.PLAN_VERSION]


def test_a_long_in_list_without_its_members_declines() -> None:
    nodes = recorded("s in ('a','b','c','d','e','f','g','h','i','j','null',null)")
    for node in nodes:
        if "hset" in node:
            node["hset"] = None
    assert declined_codes(nodes) == [Code.PLAN_VERSION]


@pytest.mark.parametrize("group", list(GROUPS))
def test_a_missing_field_declines_instead_of_crashing(group: str) -> None:
    for sql, complete in load(NEWEST, group).items():
        scope = scope_of(tree_of(complete))
        for number, node in enumerate(complete):
            for field in set(node) - {"class", "num-children"}:
                nodes = copy.deepcopy(complete)
                del nodes[number][field]
                assert_translates_or_declines(nodes, scope, f"{sql} without {field}")


def assert_translates_or_declines(nodes: list[dict[str, Any]], scope: Scope, what: str) -> None:
    try:
        result: Any = translate(tree_of(nodes), scope).dtype
    except Declined as declined:
        result = declined.reasons
    assert result, what


def test_a_column_that_is_not_below_declines() -> None:
    with pytest.raises(Declined) as declined:
        translate(tree_of(recorded("i + 1")), Scope({}))
    assert declined.value.reasons[0].code is Code.PLAN_VERSION


def test_all_reasons_of_a_tree_are_gathered() -> None:
    codes = declined_codes(recorded("rand() > 0.5 and s rlike '(?i)a' and i > 1"))
    assert codes == [Code.NONDETERMINISTIC, Code.UNKNOWN_EXPRESSION]


def test_case_mapping_is_that_of_the_versions_icu() -> None:
    functions = {16: StringFunction.UPPER_OF_UNICODE_16, 17: StringFunction.UPPER}
    tree = tree_of(recorded("upper(s)"))
    for version, unicode in (("4.0", 16), ("4.1", 16), ("4.2", 17), ("4.3", 17)):
        found = translate(tree, scope_of(tree, case_mapping=VERSIONS[version].unicode))
        assert [node.function for node in walk(found) if isinstance(node, StringCall)] == [functions[unicode]]


def test_case_mapping_without_icu_declines() -> None:
    assert declined_codes(recorded("upper(s)"), case_mapping=None) == [Code.UNKNOWN_EXPRESSION]


def zoned(sql: str, zone: str) -> list[dict[str, Any]]:
    nodes = recorded(sql)
    for node in nodes:
        if "timeZoneId" in node:
            node["timeZoneId"] = zone
    return nodes


def test_a_zone_whose_rules_are_unknown_declines() -> None:
    assert declined_codes(zoned("hour(ts)", "Europe/Berlin")) == [Code.UNKNOWN_EXPRESSION]


SUMMER = Zone("Test/Zone", 3600, ((1_585_443_600, 3600, 7200), (1_603_587_600, 7200, 3600)))  # Berlin's 2020


def literal(internal: Any, dtype: Any) -> Any:
    return translate(Node("Literal", {"internal": internal, "dataType": dtype}), Scope({}, "Moon/Sea"))


def test_constants_are_read_from_internal_values_whatever_the_zone() -> None:
    assert literal(1_593_554_400_500_000, "timestamp") == Literal(1_593_554_400_500_000, TIMESTAMP)
    assert literal(-719_162, "date") == Literal(-719_162, pa.date32())
    assert literal(None, "date") == Literal(None, pa.date32())
    assert literal("w7xi", "string") == Literal("üb", pa.string())
    assert literal("Af8=", "binary") == Literal(b"\x01\xff", pa.binary())
    assert literal("1E+2", "decimal(5,1)").value.as_tuple() == Decimal("100.0").as_tuple()
    assert literal(False, "boolean") == Literal(False, pa.bool_())


def test_floats_keep_their_bits() -> None:
    assert math.copysign(1, literal(-(2**31), "float").value) == -1
    assert math.isnan(literal(0x7FF8000000000000, "double").value)
    assert literal(0x3DCCCCCD, "float").value == np.float32(0.1)
    assert literal(1, "double").value == 5e-324


def test_a_string_that_is_no_utf8_declines() -> None:
    with pytest.raises(Declined, match=r"UNKNOWN_EXPRESSION.*not valid UTF-8"):
        literal("/2E=", "string")


@pytest.mark.parametrize(
    ("internal", "dtype"),
    [("1", "integer"), (1, "boolean"), (True, "integer"), (1.5, "double"), ("x", "binary"), ("1.25", "decimal(5,1)")],
)
def test_an_internal_value_of_another_kind_declines(internal: Any, dtype: str) -> None:
    with pytest.raises(Declined, match="PLAN_VERSION"):
        literal(internal, dtype)


def test_a_constant_without_its_internal_value_declines() -> None:
    with pytest.raises(Declined, match="PLAN_VERSION"):
        translate(Node("Literal", {"value": "1", "dataType": "integer"}), Scope({}))


def column_node(name: str, dtype: str) -> dict[str, Any]:
    exprid = {"product-class": "x.ExprId", "id": 1, "jvmId": "jvm"}
    return {"class": "x.AttributeReference", "num-children": 0, "name": name, "dataType": dtype, "exprId": exprid}


def cast_node(dtype: str) -> dict[str, Any]:
    return {
        "class": "x.Cast",
        "num-children": 1,
        "child": 0,
        "dataType": dtype,
        "timeZoneId": "UTC",
        "evalMode": "ANSI",
    }


def test_intervals_are_widened_but_not_cut() -> None:
    scope = Scope({"v#1": DAY_TIME_INTERVAL})
    column = column_node("v", "interval day to second")
    assert translate(tree_of([cast_node("interval day to second"), column]), scope) == Column("v#1", DAY_TIME_INTERVAL)
    with pytest.raises(Declined, match="cuts off"):
        translate(tree_of([cast_node("interval day to hour"), column]), scope)


def test_decimals_of_negative_scale_decline() -> None:
    nodes = [column_node("v", "decimal(5,-2)")]
    with pytest.raises(Declined) as declined:
        translate(tree_of(nodes), Scope({"v#1": pa.decimal128(5, -2)}))
    assert declined.value.reasons[0].code is Code.UNSUPPORTED_TYPE


def test_casts_carry_mode_and_zone() -> None:
    tree = tree_of(recorded("try_cast(l as tinyint)"))
    expr = translate(tree, scope_of(tree))
    assert isinstance(expr, Cast)
    assert expr.mode is EvalMode.TRY
    tree = tree_of(zoned("cast(ts as date)", SUMMER.name))
    expr = translate(tree, scope_of(tree, zones={SUMMER.name: SUMMER}))
    assert isinstance(expr, Cast)
    assert isinstance(expr.child, Column)
    assert expr.zone == SUMMER
