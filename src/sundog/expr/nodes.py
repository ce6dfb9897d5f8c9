"""Nodes of expression trees, with Spark's semantics and Arrow's types.

The front end builds them from Catalyst's expressions; `evaluate.py` evaluates them over record batches; pruning tests
them against statistics. They are frozen, picklable and compare by value. `sundog.types` maps Spark's types to Arrow's:
TIMESTAMP is `timestamp[us, UTC]`, TIMESTAMP_NTZ is `timestamp[us]`, a day-time interval `duration[us]`.

Catalyst has already resolved names, coerced types and simplified. So both sides of a comparison have the same type, and
the result type of decimal arithmetic is on the node. `mode` says what an error gives:

    ANSI     raise Spark's error (ARITHMETIC_OVERFLOW, DIVIDE_BY_ZERO, CAST_INVALID_INPUT, ...)
    LEGACY   wrap around or give NULL, like Spark with spark.sql.ansi.enabled=false
    TRY      give NULL (try_add, try_cast, ...)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from sundog.expr.evaluation.zones import Zone
from sundog.tree import TreeNode, transform_up, walk


class EvalMode(Enum):
    """What an error gives; the docstring of this module lists the modes."""

    ANSI = "ANSI"
    LEGACY = "LEGACY"
    TRY = "TRY"


class Expr(TreeNode):
    """Base class of all expressions. `dtype` is the type of the result."""

    __slots__ = ()
    dtype: pa.DataType


Expr.family = Expr
BOOL = pa.bool_()
LONG = pa.int64()


@dataclass(frozen=True)
class Column(Expr):
    """A column of the input batch, by its internal name (`price#12`: unique in the whole query)."""

    name: str
    dtype: pa.DataType


@dataclass(frozen=True)
class Literal(Expr):
    """A constant. `value` is what `pa.scalar(value, dtype)` takes; None is a typed NULL."""

    value: Any
    dtype: pa.DataType


@dataclass(frozen=True)
class SubqueryValue(Expr):
    """A column of the only row of an uncorrelated subquery; NULL if it has no row.

    It is never evaluated: the planner runs the subquery first and puts a `Literal` in its place. `subquery` is its
    number in the query, `column` the index of the column.
    """

    subquery: int
    column: int
    dtype: pa.DataType


class CompareOp(Enum):
    """Operators of `Compare`; `a <> b` is a `Not` around EQ."""

    EQ = "="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    NULL_SAFE_EQ = "<=>"


@dataclass(frozen=True)
class Compare(Expr):
    """A comparison in Spark's order: NaN equals NaN and is greatest, -0.0 equals 0.0, strings compare by UTF-8
    bytes."""

    op: CompareOp
    left: Expr
    right: Expr
    dtype: pa.DataType = BOOL


@dataclass(frozen=True)
class And(Expr):
    left: Expr
    right: Expr
    dtype: pa.DataType = BOOL


@dataclass(frozen=True)
class Or(Expr):
    left: Expr
    right: Expr
    dtype: pa.DataType = BOOL


@dataclass(frozen=True)
class Not(Expr):
    child: Expr
    dtype: pa.DataType = BOOL


@dataclass(frozen=True)
class IsNull(Expr):
    child: Expr
    dtype: pa.DataType = BOOL


@dataclass(frozen=True)
class IsNaN(Expr):
    """Whether a float is NaN; false, not NULL, for a NULL input."""

    child: Expr
    dtype: pa.DataType = BOOL


@dataclass(frozen=True)
class In(Expr):
    """`child IN (values)`. Values are Python values of the child's type; None among them is NULL, with SQL's
    three-valued result."""

    child: Expr
    values: tuple[Any, ...]
    dtype: pa.DataType = BOOL


@dataclass(frozen=True)
class Like(Expr):
    """SQL LIKE with `%`, `_` and an escape character."""

    child: Expr
    pattern: str
    escape: str = "\\"
    dtype: pa.DataType = BOOL


class StringTest(Enum):
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"


@dataclass(frozen=True)
class StringMatch(Expr):
    """A test for a prefix, suffix or substring; Catalyst turns simple LIKE patterns into it. The needle is a
    constant."""

    test: StringTest
    child: Expr
    needle: Any
    dtype: pa.DataType = BOOL


@dataclass(frozen=True)
class RegexMatch(Expr):
    """`rlike`: whether a part of the text matches a pattern that `expr.regex` takes."""

    child: Expr
    pattern: str
    dtype: pa.DataType = BOOL


@dataclass(frozen=True)
class RegexReplace(Expr):
    """`regexp_replace` from the first character on; `$1` in the replacement is a group."""

    child: Expr
    pattern: str
    replacement: str
    dtype: pa.DataType


@dataclass(frozen=True)
class RegexExtract(Expr):
    """`regexp_extract`: a group of the first match; 0 is the whole match."""

    child: Expr
    pattern: str
    group: int
    dtype: pa.DataType


class ArithOp(Enum):
    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    INT_DIV = "div"
    MOD = "%"


@dataclass(frozen=True)
class Arith(Expr):
    """`left op right`. For decimals `dtype` is Spark's result type, rounded HALF_UP into it.

    Also `date + int` and `date - int` (a date), and `date - date` (an int: days).
    """

    op: ArithOp
    left: Expr
    right: Expr
    dtype: pa.DataType
    mode: EvalMode = EvalMode.ANSI


@dataclass(frozen=True)
class Negate(Expr):
    child: Expr
    dtype: pa.DataType
    mode: EvalMode = EvalMode.ANSI


@dataclass(frozen=True)
class Abs(Expr):
    child: Expr
    dtype: pa.DataType
    mode: EvalMode = EvalMode.ANSI


@dataclass(frozen=True)
class Round(Expr):
    """`round(child, places)`, HALF_UP; negative places round digits before the decimal point.

    `dtype` is Spark's result type, which for decimals differs from the child's. A decimal that overflows it is NULL in
    every mode. A double is rounded on the digits that Java prints.
    """

    child: Expr
    places: int
    dtype: pa.DataType
    mode: EvalMode = EvalMode.ANSI


@dataclass(frozen=True)
class Cast(Expr):
    """A cast. `front` builds only casts whose results are exactly Spark's. `zone` is for dates and timestamps."""

    child: Expr
    dtype: pa.DataType
    mode: EvalMode = EvalMode.ANSI
    zone: Zone | None = None


@dataclass(frozen=True)
class Case(Expr):
    """CASE WHEN and IF, as (condition, value) pairs. A value is evaluated (and may raise) only for the rows that take
    its branch."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None
    dtype: pa.DataType


@dataclass(frozen=True)
class Coalesce(Expr):
    """The first non-NULL; a later argument is evaluated only where all earlier ones are NULL."""

    args: tuple[Expr, ...]
    dtype: pa.DataType


@dataclass(frozen=True)
class NormalizeFloat(Expr):
    """A float with one NaN and one zero, so that equal values have equal bits. Catalyst puts it around keys of GROUP
    BY."""

    child: Expr
    dtype: pa.DataType


@dataclass(frozen=True)
class DecimalToUnscaled(Expr):
    """The unscaled value of a short decimal as bigint: 1.23 is 123. Catalyst sums short decimals this way."""

    child: Expr
    dtype: pa.DataType = LONG


@dataclass(frozen=True)
class DecimalFromUnscaled(Expr):
    """The inverse of `DecimalToUnscaled`: a bigint as the unscaled value of a decimal of `dtype`."""

    child: Expr
    dtype: pa.DataType
    mode: EvalMode = EvalMode.ANSI


@dataclass(frozen=True)
class AddInterval(Expr):
    """A timestamp plus a day-time interval; whole days follow the wall clock of `zone`."""

    child: Expr
    interval: Expr
    dtype: pa.DataType
    zone: Zone | None = None


@dataclass(frozen=True)
class DatePart(Expr):
    """A field of a date (year, quarter, month, day, dayofweek, weekday, dayofyear, weekofyear, yearofweek) or of a
    timestamp (hour, minute, second, second_fraction).

    Catalyst casts a timestamp to a date first where needed, so only the time-of-day fields depend on `zone`.
    """

    part: str
    child: Expr
    dtype: pa.DataType
    zone: Zone | None = None


@dataclass(frozen=True)
class DateTrunc(Expr):
    """`date_trunc(unit, timestamp)` and `trunc(date, unit)`, by the calendar of `zone`."""

    unit: str
    child: Expr
    dtype: pa.DataType
    zone: Zone | None = None


class StringFunction(Enum):
    LENGTH = "length"
    UPPER = "upper"
    LOWER = "lower"
    UPPER_OF_UNICODE_16 = "upper_of_unicode_16"  # Spark 4.0 and 4.1
    LOWER_OF_UNICODE_16 = "lower_of_unicode_16"
    CONCAT = "concat"
    SUBSTRING = "substring"


@dataclass(frozen=True)
class StringCall(Expr):
    """A string function: length (in code points), upper, lower, concat (NULL if any argument is), substring (1-based,
    negative from the end)."""

    function: StringFunction
    args: tuple[Expr, ...]
    dtype: pa.DataType


def columns_of(expr: Expr) -> set[str]:
    """The internal names of the columns that an expression reads."""
    return {node.name for node in walk(expr) if isinstance(node, Column)}


def conjuncts(expr: Expr | None) -> list[Expr]:
    """`a AND (b AND c)` as [a, b, c]; None as []."""
    return [] if expr is None else operands_of(And, expr)


def operands_of(kind: type[And] | type[Or], expr: Expr) -> list[Expr]:
    """The operands of nested ANDs, or of nested ORs, from left to right."""
    found: list[Expr] = []
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        if isinstance(part, kind):
            waiting += [part.right, part.left]
        else:
            found.append(part)
    return found


def conjunction(parts: list[Expr]) -> Expr | None:
    """The AND of all parts, left-deep; None for an empty list. The inverse of `conjuncts`."""
    result: Expr | None = None
    for part in parts:
        result = part if result is None else And(result, part)
    return result


def without_normalize(expr: Expr) -> Expr:
    """The expression without an outer `NormalizeFloat`, for callers that compare floats as Spark does in any case."""
    return expr.child if isinstance(expr, NormalizeFloat) else expr


def substitute(expr: Expr, meaning: dict[str, Expr]) -> Expr:
    """The expression with columns replaced by expressions, given by column name. Other columns stay."""
    return transform_up(expr, lambda node: meaning.get(node.name, node) if isinstance(node, Column) else node)
