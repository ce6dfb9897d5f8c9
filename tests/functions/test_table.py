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
        assert made.essence(elements).count <= 2


def names_asked_for(source: str) -> list[int]:
    """Lines that look at the name of a call's function instead of at its declaration."""

    def is_name(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == "function"

    def asks(node: ast.AST) -> bool:
        match node:
            case ast.Compare(left=left, comparators=others):
                return is_name(left) or any(map(is_name, others))
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


@pytest.mark.parametrize(
    "source",
    [
        "call.function == 'sum'",
        "'sum' != call.function",
        "call.function in ('lag', 'lead')",
        "self.call.function.endswith('avg')",
        "match call.function:\n    case 'sum': pass",
    ],
)
def test_a_name_that_is_looked_at_is_seen(source: str) -> None:
    assert names_asked_for(source) == [1]
