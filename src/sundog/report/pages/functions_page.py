"""`docs/reference/functions.md`: every function with its rules, from the table that matchers and operators use."""

from __future__ import annotations

import pyarrow as pa

from sundog.functions.declaration import Function, Nulls, Order, Overflow, Reach
from sundog.functions.table import FUNCTIONS
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ, spark_name

INTRODUCTION = """\
Each function with its rules, as matchers, planner and operators use them. *By group*: GROUP BY, ROLLUP, CUBE, GROUPING
SETS, each also with FILTER and DISTINCT. *Windows*: OVER, with and without PARTITION BY, aggregates also with FILTER.
Arguments of other types leave the query to Spark (`UNSUPPORTED_TYPE`), and so does another function (`FUNCTION`)."""
COLUMNS = (
    "function",
    "by group",
    "windows",
    "argument → result",
    "NULL",
    "overflow",
    "order of rows",
    "rows that a window reads",
)
_TYPES = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(10, 2),
    pa.string(),
    pa.binary(),
    pa.date32(),
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DAY_TIME_INTERVAL,
)


def function_rows() -> list[tuple[str, ...]]:
    """The rows of the table, in the order of the declarations."""
    return [_row(function) for function in FUNCTIONS.values() if not function.internal]


def names_by_group() -> list[str]:
    return sorted(function.name for function in FUNCTIONS.values() if function.grouped and not function.internal)


def names_over_windows() -> list[str]:
    return sorted(function.name for function in FUNCTIONS.values() if function.over_windows and not function.internal)


def _row(function: Function) -> tuple[str, ...]:
    return (
        f"`{function.name}`",
        "yes" if function.grouped else "",
        "yes" if function.over_windows else "",
        _types(function),
        "" if function.nulls is Nulls.NO_ARGUMENT else function.nulls.value,
        "" if function.overflow is Overflow.CANNOT else function.overflow.value,
        _order(function),
        function.reach.value if function.over_windows else "",
    )


def _order(function: Function) -> str:
    rounds = [dtype for dtype in _TYPES if function.adds_doubles is not None and function.adds_doubles(dtype)]
    decides = "" if function.order is Order.IGNORED else function.order.value
    shows = f"shows in the last bits ({_joined(rounds)})" if 0 < len(rounds) < len(_TYPES) else ""
    shows = "shows in the last bits" if len(rounds) == len(_TYPES) else shows
    return "; ".join(part for part in (decides, shows) if part)


def _types(function: Function) -> str:
    """Argument types by the type of the result, from the rule itself."""
    if function.reach in (Reach.BEFORE, Reach.ALL):
        result = function.result(pa.null())
        return "" if result is None else f"→ {spark_name(result)}"
    found = {dtype: function.result(dtype) for dtype in _TYPES}
    if all(result == dtype for dtype, result in found.items()):
        return "any → itself"
    if None not in found.values() and len(set(found.values())) == 1:
        return f"any → {_joined(list(found.values())[:1])}"
    groups: dict[str, list[pa.DataType]] = {}
    for dtype, result in found.items():
        if result is not None:
            groups.setdefault("itself" if result == dtype else spark_name(result), []).append(dtype)
    return "; ".join(f"{_joined(dtypes)} → {result}" for result, dtypes in groups.items())


def _joined(dtypes: list[pa.DataType | None]) -> str:
    return ", ".join(spark_name(dtype) for dtype in dtypes if dtype is not None)
