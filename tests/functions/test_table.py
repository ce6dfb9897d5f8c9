"""The table of functions holds what it declares, and nothing else in sundog knows a function by its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sundog
from sundog.columns.arrow import from_arrow, to_arrow
from sundog.expr.calls import AggregateCall, Bound, BoundKind, Frame, WindowCall
from sundog.expr.nodes import Column, Expr, Literal
from sundog.functions.declaration import ANY_NUMBER, Function, Nulls, Reach
from sundog.functions.framed import Inputs
from sundog.functions.grouped import one_group
from sundog.functions.table import FUNCTIONS, accumulator_for, frame_function, of_catalyst
from tests.oracle.batches import ALL_TYPES

SOURCE = Path(sundog.__file__).parent
WHOLE = Frame("rows", Bound(BoundKind.UNBOUNDED_PRECEDING), Bound(BoundKind.UNBOUNDED_FOLLOWING))


def typed(function: Function) -> Iterator[tuple[pa.DataType, pa.DataType]]:
    """Argument types that the declaration takes, with the type of the result."""
    for dtype in ALL_TYPES:
        result = function.result(dtype)
        if result is not None and not (function.internal and not pa.types.is_decimal(dtype)):
            yield dtype, result


def arguments(function: Function, dtype: pa.DataType) -> tuple[Expr, ...]:
    number = 1 if function.arguments == ANY_NUMBER else function.arguments
    args: list[Expr] = [Column(f"x{at}", dtype) for at in range(number)]
    if function.constant is not None:
        args[function.constant] = Literal(1, pa.int32())
    return tuple(args)


def names(of: str) -> list[str]:
    return [function.name for function in FUNCTIONS.values() if getattr(function, of) is not None]


def test_every_function_has_a_face() -> None:
    assert [function.name for function in FUNCTIONS.values() if not (function.grouped or function.over_windows)] == []


def test_a_class_of_catalyst_is_one_function() -> None:
    classes = [function.catalyst for function in FUNCTIONS.values() if function.catalyst]
    assert len(set(classes)) == len(classes)
    assert all(of_catalyst(name) is not None for name in classes)


def test_what_a_function_is_under_try_is_declared() -> None:
    for function in FUNCTIONS.values():
        assert function.tried_as is None or FUNCTIONS[function.tried_as].result == function.result


@pytest.mark.parametrize("name", names("grouped"))
def test_a_group_without_rows_has_the_declared_types_and_rules(name: str) -> None:
    function = FUNCTIONS[name]
    for dtype, result in typed(function):
        call = AggregateCall("a", name, arguments(function, dtype), result)
        part, whole = accumulator_for(call), accumulator_for(call)
        part.update([from_arrow(pa.array([], arg.dtype)) for arg in call.args], None, one_group(0))
        states = part.state()
        assert [state.dtype for state in states] == list(part.state_types)
        assert part.count_columns <= set(range(len(states)))
        whole.merge(states, one_group(1))
        found = to_arrow(whole.evaluate(), result)
        assert found.type == result
        assert found.to_pylist() == [0 if function.nulls is Nulls.SKIPPED_ZERO else None]


@pytest.mark.parametrize("name", names("framed"))
def test_a_frame_without_rows_has_the_declared_types_and_rules(name: str) -> None:
    function = FUNCTIONS[name]
    if function.reach is Reach.NEIGHBOUR:
        return  # it has no frame
    nothing = np.zeros(1, np.int32)
    for dtype, result in typed(function):
        call = WindowCall("w", name, arguments(function, dtype), result, WHOLE)
        made = frame_function(call)
        elements = made.elements(Inputs(0, tuple(pa.array([], arg.dtype) for arg in call.args)))
        found = made.evaluate(elements, nothing, nothing)
        assert found.type == result
        assert found.to_pylist() == [0 if function.nulls is Nulls.SKIPPED_ZERO else None]
        assert made.summary(elements).count <= 2


def names_asked_for(source: str) -> list[int]:
    """Lines that look at the name of a call's function instead of at its declaration."""

    def is_name(node: ast.AST) -> bool:
        match node:
            case ast.Attribute(attr="function"):
                return True
            case ast.Attribute(attr="name", value=ast.Name(id=owner) | ast.Attribute(attr=owner)):
                return owner.endswith("function")
        return False

    def is_known(node: ast.AST) -> bool:
        return any(isinstance(each, ast.Constant) and each.value in FUNCTIONS for each in ast.walk(node))

    def asks(node: ast.AST) -> bool:
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                has_name = any(isinstance(each, ast.Attribute) and each.attr == "name" for each in sides)
                return any(map(is_name, sides)) or (has_name and any(map(is_known, sides)))
            case ast.Match(subject=subject):
                return is_name(subject)
            case ast.Call(func=ast.Attribute(value=value)):
                return is_name(value)
        return False

    return [node.lineno for node in ast.walk(ast.parse(source)) if asks(node)]  # type: ignore[attr-defined]


def test_nothing_looks_at_the_name_of_a_call() -> None:
    """`expr` lies below the functions; what is called `function` there is another thing."""
    paths = [path for path in SOURCE.rglob("*.py") if "expr" not in path.relative_to(SOURCE).parts]
    found = {str(path.relative_to(SOURCE)): names_asked_for(path.read_text()) for path in paths}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_only_two_places_name_a_class_of_catalyst() -> None:
    """As `declaration.py` says. `benchmarks` and `demo` have texts of their own."""
    classes = {function.catalyst for function in FUNCTIONS.values()} - {""}
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(("functions/", "benchmarks/", "demo/")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and node.value in classes:
                    found.setdefault(name, set()).add(str(node.value))
    assert found == {"front/jvm/expression_details.py": {"Average"}, "versions/spark_4_0.py": {"Sum"}}


@pytest.mark.parametrize(
    "source",
    [
        "call.function == 'sum'",
        "'sum' != call.function",
        "call.function in ('lag', 'lead')",
        "self.call.function.endswith('avg')",
        "match call.function:\n    case 'sum': pass",
        "function.name == 'corr' and may_raise",
        "'corr' == self.function.name",
        "declared.name == 'corr'",
        "declared.name in ('lag', 'lead')",
        "function.name.startswith('regr_')",
    ],
)
def test_a_name_that_is_looked_at_is_seen(source: str) -> None:
    assert names_asked_for(source) == [1]


def test_a_node_that_is_no_function_may_be_asked_for_its_name() -> None:
    assert names_asked_for("node.name == 'Literal' or column.name == wanted") == []


NULL = pa.null()


@pytest.mark.parametrize(
    ("name", "types", "grouped", "over_window"),
    [
        ("count", [], pa.int64(), pa.int64()),
        ("count", [NULL], pa.int64(), pa.int64()),
        ("row_number", [], pa.int32(), pa.int32()),
        ("first", [NULL], None, NULL),
        ("max_by", [pa.string(), NULL], None, pa.string()),
        ("corr", [pa.float64(), pa.float64()], pa.float64(), pa.float64()),
        ("corr", [pa.float64(), NULL], None, pa.float64()),
        ("sum", [pa.string()], None, None),
    ],
)
def test_the_type_of_a_result_is_declared(
    name: str, types: list[pa.DataType], grouped: pa.DataType | None, over_window: pa.DataType | None
) -> None:
    function = FUNCTIONS[name]
    assert function.result_of(types, over_window=False) == grouped
    assert function.result_of(types, over_window=True) == over_window


def test_functions_whose_division_spark_does_not_always_guard() -> None:
    assert [name for name, function in FUNCTIONS.items() if function.divides_unguarded] == ["corr"]
