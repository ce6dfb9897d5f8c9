"""An expression as one stable line of text, for explain: `(price#3 > 10)`.

Close to the SQL it came from, so that a reader of a plan recognises the query. The same expression always gives the
same line, as golden texts require.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from sundog.expr.calls import AggregateCall, NamedExpr, WindowCall
from sundog.expr.evaluation.casts import cast
from sundog.expr.nodes import (
    Abs,
    AddInterval,
    And,
    Arith,
    ArithOp,
    Case,
    Cast,
    Coalesce,
    Column,
    Compare,
    DatePart,
    DateTrunc,
    DecimalFromUnscaled,
    DecimalToUnscaled,
    EvalMode,
    Expr,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Negate,
    NormalizeFloat,
    Not,
    Or,
    RegexExtract,
    RegexMatch,
    RegexReplace,
    Round,
    StringCall,
    StringMatch,
    SubqueryValue,
)
from sundog.expr.ordering import SortKey
from sundog.tree import height, map_children
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ, spark_name

MAX_LIST = 5  # values of an IN list that are shown
MAX_LEVELS = 50  # of nested expressions that are shown
_TRY_NAMES = {
    ArithOp.ADD: "try_add",
    ArithOp.SUB: "try_subtract",
    ArithOp.MUL: "try_multiply",
    ArithOp.DIV: "try_divide",
    ArithOp.MOD: "try_mod",
}


def render(expr: Expr) -> str:
    """The expression in SQL's words; below MAX_LEVELS an ellipsis."""
    if height(expr) > MAX_LEVELS:
        expr = _cut(expr, MAX_LEVELS)
    writer = _WRITERS.get(type(expr))
    return writer(expr) if writer else f"{type(expr).__name__}({', '.join(map(render, expr.children))})"


def _cut(expr: Expr, levels: int) -> Expr:
    if levels == 1 and height(expr) > 1:
        return Column("…", expr.dtype)
    return map_children(expr, lambda child: _cut(child, levels - 1))


def render_order(keys: Sequence[SortKey]) -> str:
    """`price#3 DESC NULLS LAST, id#1 ASC NULLS FIRST`."""
    return ", ".join(
        f"{render(key.expr)} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in keys
    )


def render_value(value: Any, dtype: pa.DataType) -> str:
    """A constant: strings quoted, dates and timestamps as text in UTC, long ones cut."""
    if value is None:
        return "NULL"
    if pa.types.is_string(dtype):
        return _quoted(value)
    if pa.types.is_binary(dtype):
        return f"X'{bytes(value).hex().upper()}'"
    if pa.types.is_boolean(dtype):
        return "true" if value else "false"
    if dtype == DAY_TIME_INTERVAL and isinstance(value, int):
        return f"INTERVAL {value} us"
    if isinstance(value, int) and (pa.types.is_date32(dtype) or dtype in (TIMESTAMP, TIMESTAMP_NTZ)):
        storage = pa.int32() if pa.types.is_date32(dtype) else pa.int64()
        column = pa.array([value], storage).view(dtype)
        return str(cast(column, pa.string(), EvalMode.LEGACY, None)[0])
    return str(value)


def named_text(named: NamedExpr) -> str:
    return named.name if named.is_passthrough else f"{render(named.expr)} AS {named.name}"


def call_text(call: AggregateCall) -> str:
    distinct = "DISTINCT " if call.distinct else ""
    arguments = ", ".join(render(arg) for arg in call.args) or "*"
    condition = f" FILTER (WHERE {render(call.filter)})" if call.filter is not None else ""
    return f"{call.function}({distinct}{arguments}){condition} AS {call.name}"


def window_text(call: WindowCall) -> str:
    """The call without its name."""
    frame = call.frame
    bounds = [
        f"{bound.offset}{' ' + bound.unit if bound.unit else ''}" if bound.offset is not None else bound.kind.value
        for bound in (frame.start, frame.end)
    ]
    arguments = ", ".join(render(arg) for arg in call.args)
    return f"{call.function}({arguments}) {frame.units.upper()} BETWEEN {bounds[0]} AND {bounds[1]}"


def _quoted(text: str) -> str:
    shown = text if len(text) <= 40 else text[:39] + "…"
    escaped = shown.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def _call(name: str, *args: str) -> str:
    return f"{name}({', '.join(args)})"


def _arith(expr: Arith) -> str:
    left, right = render(expr.left), render(expr.right)
    if expr.mode is EvalMode.TRY and expr.op in _TRY_NAMES:
        return _call(_TRY_NAMES[expr.op], left, right)
    return f"({left} {expr.op.value} {right})"


def _case(expr: Case) -> str:
    branches = "".join(f" WHEN {render(condition)} THEN {render(value)}" for condition, value in expr.branches)
    otherwise = f" ELSE {render(expr.otherwise)}" if expr.otherwise is not None else ""
    return f"CASE{branches}{otherwise} END"


def _cast(expr: Cast) -> str:
    name = "try_cast" if expr.mode is EvalMode.TRY else "cast"
    return f"{name}({render(expr.child)} AS {spark_name(expr.dtype)})"


def _in(expr: In) -> str:
    shown = [render_value(value, expr.child.dtype) for value in expr.values[:MAX_LIST]]
    if len(expr.values) > MAX_LIST:
        shown.append(f"… {len(expr.values) - MAX_LIST} more")
    return f"({render(expr.child)} IN ({', '.join(shown)}))"


def _like(expr: Like) -> str:
    escape = "" if expr.escape == "\\" else f" ESCAPE {_quoted(expr.escape)}"
    return f"({render(expr.child)} LIKE {_quoted(expr.pattern)}{escape})"


def _not(expr: Not) -> str:
    if isinstance(expr.child, IsNull):
        return f"({render(expr.child.child)} IS NOT NULL)"
    return f"NOT {render(expr.child)}"


_WRITERS: dict[type[Expr], Callable[[Any], str]] = {
    Column: lambda e: e.name,
    Literal: lambda e: render_value(e.value, e.dtype),
    SubqueryValue: lambda e: f"subquery{e.subquery}" + (f".{e.column}" if e.column else ""),
    Compare: lambda e: f"({render(e.left)} {e.op.value} {render(e.right)})",
    And: lambda e: f"({render(e.left)} AND {render(e.right)})",
    Or: lambda e: f"({render(e.left)} OR {render(e.right)})",
    Not: _not,
    IsNull: lambda e: f"({render(e.child)} IS NULL)",
    IsNaN: lambda e: _call("isnan", render(e.child)),
    In: _in,
    Like: _like,
    RegexMatch: lambda e: _call("rlike", render(e.child), _quoted(e.pattern)),
    RegexReplace: lambda e: _call("regexp_replace", render(e.child), _quoted(e.pattern), _quoted(e.replacement)),
    RegexExtract: lambda e: _call("regexp_extract", render(e.child), _quoted(e.pattern), str(e.group)),
    StringMatch: lambda e: _call(e.test.value, render(e.child), render_value(e.needle, e.child.dtype)),
    Arith: _arith,
    Negate: lambda e: f"(- {render(e.child)})",
    Abs: lambda e: _call("abs", render(e.child)),
    Round: lambda e: _call("round", render(e.child), str(e.places)),
    Cast: _cast,
    Case: _case,
    Coalesce: lambda e: _call("coalesce", *map(render, e.args)),
    NormalizeFloat: lambda e: _call("normalize", render(e.child)),
    DecimalToUnscaled: lambda e: _call("unscaled", render(e.child)),
    DecimalFromUnscaled: lambda e: _call("make_decimal", render(e.child), spark_name(e.dtype)),
    AddInterval: lambda e: f"({render(e.child)} + {render(e.interval)})",
    DatePart: lambda e: _call(e.part, render(e.child)),
    DateTrunc: lambda e: _call("date_trunc", f"'{e.unit}'", render(e.child)),
    StringCall: lambda e: _call(e.function.value, *map(render, e.args)),
}
