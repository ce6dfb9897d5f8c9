"""Golden Catalyst aggregates -> sundog's, as text, without a JVM.

`tests/plans/<version>/aggregates.json` is what `tests/plans/record_aggregates.py` recorded; `aggregates.txt` beside it
is what must come out: keys, calls and the projection above them, or the reasons. `SUNDOG_UPDATE_GOLDEN=1` writes the
text anew: look at the difference before you commit it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sundog.expr.nodes import Column
from sundog.expr.printing import call_text, named_text, render
from sundog.front.catalyst_json import Node, link_of
from sundog.front.expressions.reading import Scope
from sundog.front.shapes.aggregate import match_aggregate
from sundog.operators.aggregate.phases import aggregate_phases
from sundog.plan.costs import DRIVER
from sundog.plan.logical import Aggregate, Foreign, LogicalPlan, Project
from sundog.support import Code, Declined
from sundog.types import arrow_type, spark_name
from tests.plans.record_aggregates import QUERIES, load
from tests.plans.recorded import complete_recorded, internal_of
from tests.plans.versions import FOLDERS, known_to


def recorded(folder: Path) -> dict[str, Node]:
    entries = json.loads((folder / "aggregates.json").read_text())
    return {entry["sql"]: complete_recorded(load(entry["node"])) for entry in entries}


def attributes(node: Node) -> dict[str, pa.DataType]:
    """Every column that the aggregate reads, with a type of ours."""
    found = {}
    for tree in node.trees():
        for expr in tree.walk():
            if expr.name == "AttributeReference" and (dtype := arrow_type(expr["dataType"])) is not None:
                found[f"{expr['name']}#{expr['exprId']['id']}"] = dtype
    return found


def matched(node: Node) -> LogicalPlan:
    columns = attributes(node)
    return match_aggregate(node, Foreign(0, tuple(columns.items())), Scope(columns))


def outcome(node: Node) -> list[str]:
    try:
        plan = matched(node)
    except Declined as declined:
        return [f"declined {reason}" for reason in declined.reasons]
    assert isinstance(plan, Project)
    aggregate = plan.child
    assert isinstance(aggregate, Aggregate)
    return [
        f"keys     {', '.join(map(named_text, aggregate.keys)) or 'none'}",
        *(f"call     {call_text(call)} :: {spark_name(call.dtype)}{_flags(call)}" for call in aggregate.aggregates),
        *(f"output   {named.name} = {render(named.expr)} :: {spark_name(named.expr.dtype)}" for named in plan.exprs),
    ]


def _flags(call: Any) -> str:
    flags = [name for name, on in (("ignore nulls", call.ignore_nulls), ("not ansi", not call.ansi)) if on]
    return f" ({', '.join(flags)})" if flags else ""


def stable(text: str) -> str:
    """Expression ids change with each recording; their order does not matter to anyone."""
    ids: dict[str, str] = {}
    return re.sub(r"#(\d+)", lambda m: f"#{ids.setdefault(m[1], str(len(ids)))}", text)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_golden(folder: Path) -> None:
    nodes = recorded(folder)
    assert list(nodes) == known_to(folder, QUERIES), "record the aggregates again"
    parts = [stable("\n    ".join([sql, *outcome(node)])) for sql, node in nodes.items()]
    text = "\n".join(parts) + "\n"
    golden = folder / "aggregates.txt"
    if os.environ.get("SUNDOG_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_is_matched_can_be_run_and_comes_out_under_spark_names(folder: Path) -> None:
    taken = 0
    for node in recorded(folder).values():
        try:
            plan = matched(node)
        except Declined:
            continue
        taken += 1
        assert isinstance(plan, Project)
        assert isinstance(plan.child, Aggregate)
        phases = aggregate_phases(plan.child.keys, plan.child.aggregates, 4, DRIVER, in_process=False)
        assert phases[-1].operator.schema == plan.child.schema
        outputs = node["aggregateExpressions"] or ()
        assert plan.schema.names == [f"{tree['name']}#{tree['exprId']['id']}" for tree in outputs]
    assert taken > 15


def attribute(name: str, number: int, dtype: str) -> Node:
    return Node("AttributeReference", {"name": name, "exprId": {"id": number}, "dataType": dtype, "metadata": {}})


def alias(name: str, number: int, child: Node) -> Node:
    return Node("Alias", {"name": name, "exprId": {"id": number}}, (child,))


def function(name: str, *children: Node, **fields: Any) -> Node:
    return Node("AggregateExpression", {"isDistinct": False}, (Node(name, fields, children),))


def aggregate(keys: list[Node], outputs: list[Node], path: tuple[int, ...] = ()) -> Node:
    return Node(
        "Aggregate", {"groupingExpressions": tuple(keys), "aggregateExpressions": tuple(outputs)}, (), link_of(path)
    )


X = attribute("x", 1, "double")


def declined(node: Node) -> set[Code]:
    with pytest.raises(Declined) as raised:
        matched(node)
    return {reason.code for reason in raised.value.reasons}


def test_normalised_float_keys_are_the_keys_themselves() -> None:
    wrapped = Node("KnownFloatingPointNormalized", {}, (Node("NormalizeNaNAndZero", {}, (X,)),))
    plan = matched(aggregate([wrapped], [X, alias("n", 2, function("Count", X))]))
    assert isinstance(plan, Project)
    assert plan.exprs[0].is_passthrough
    assert isinstance(plan.child, Aggregate)
    assert plan.child.keys[0].expr == Column("x#1", pa.float64())


def test_all_reasons_are_given() -> None:
    outputs = [
        alias("a", 2, function("Percentile", X)),
        alias("b", 3, function("Sum", X, evalContext=None)),
        alias("c", 4, Node("Unheard", {}, (function("Max", X),))),
        alias("d", 5, function("VariancePop", X, nullOnDivideByZero=False)),
    ]
    assert declined(aggregate([Node("Strange", {}, ())], outputs)) == {
        Code.FUNCTION,
        Code.PLAN_VERSION,
        Code.UNKNOWN_EXPRESSION,
    }


def test_an_output_that_is_neither_key_nor_aggregate() -> None:
    assert declined(aggregate([X], [attribute("y", 9, "long")])) == {Code.PLAN_VERSION}


def test_unexpanded_distinct_lists_are_declined() -> None:
    def distinct(child: Node) -> Node:
        return Node("AggregateExpression", {"isDistinct": True}, (Node("Count", {}, (child,)),))

    outputs = [alias("a", 2, distinct(X)), alias("b", 3, distinct(attribute("y", 4, "long")))]
    assert declined(aggregate([], outputs)) == {Code.FUNCTION}


def test_a_type_that_catalyst_and_sundog_see_differently() -> None:
    odd = function("Sum", X, evalContext="ANSI", dataType="float")
    assert declined(aggregate([], [alias("a", 2, odd)])) == {Code.PLAN_VERSION}


def test_aggregate_without_keys_functions_and_outputs_is_one_row() -> None:
    plan = matched(aggregate([], []))
    assert plan.schema.names == []
    assert isinstance(plan, Project)
    assert isinstance(plan.child, Aggregate)
    assert [call.function for call in plan.child.aggregates] == ["count"]


def test_names_differ_between_nested_aggregates() -> None:
    key = Node(
        "Add",
        {"evalContext": "ANSI"},
        (X, Node("Literal", {"internal": internal_of("1.0", "double", printed=True), "dataType": "double"})),
    )
    plans = [matched(aggregate([key], [alias("k", 2, key)], path)) for path in ((), (0, 0))]
    names = [plan.child.schema.names for plan in plans if isinstance(plan, Project)]
    assert names[0] != names[1]
