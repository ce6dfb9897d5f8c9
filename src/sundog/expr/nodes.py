"""What is computed, as data: expressions with Spark's meaning and Arrow's types.

The front end builds these from Catalyst; `evaluate.py` runs them over record batches; pruning reads them against
statistics. They are frozen, picklable and compare by value. Types are Arrow's, chosen once in `sundog.types`:
Spark's TIMESTAMP is `timestamp[us, UTC]`, TIMESTAMP_NTZ is `timestamp[us]`, a day-time interval `duration[us]`.

Catalyst has already resolved names, coerced types and simplified, so nothing here guesses: both sides of a comparison
have one type, the result type of decimal arithmetic is written on the node, and `mode` says what an error does:

    ANSI     raise Spark's error (ARITHMETIC_OVERFLOW, DIVIDE_BY_ZERO, CAST_INVALID_INPUT, ...)
    LEGACY   wrap around or give NULL, as Spark does with spark.sql.ansi.enabled=false
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
    """What an error does: see the head of this module."""

    ANSI = "ANSI"
    LEGACY = "LEGACY"
    TRY = "TRY"


class Expr(TreeNode):
    """Any expression. Every node has a `dtype`."""

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

    Stands for a constant that is not known yet: the planner runs the subquery first and puts a `Literal` here, so
    nothing ever evaluates it. `subquery` is its number in the query.
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
    """Spark's order: NaN equals NaN and is above everything, -0.0 equals 0.0, strings by UTF-8 bytes."""

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
    """False, not NULL, for a NULL input."""

    child: Expr
    dtype: pa.DataType = BOOL


@dataclass(frozen=True)
class In(Expr):
    """`child IN (values)`; values are Python values of the child's type and may hold None (three-valued result)."""

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
    """What Catalyst makes of the simple LIKE patterns. The needle is always a constant here."""

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
    """`round(child, places)`, HALF_UP; negative places round before the point. `dtype` is Spark's: a decimal changes
    its type.

    A decimal that its type cannot hold is NULL in every mode. A double is rounded on the digits that Java prints.
    """

    child: Expr
    places: int
    dtype: pa.DataType
    mode: EvalMode = EvalMode.ANSI


@dataclass(frozen=True)
class Cast(Expr):
    """Only the casts that `front` has found to be exact as Spark does them. `zone` for dates and timestamps."""

    child: Expr
    dtype: pa.DataType
    mode: EvalMode = EvalMode.ANSI
    zone: Zone | None = None


@dataclass(frozen=True)
class Case(Expr):
    """CASE WHEN and IF. A branch value is evaluated (and may raise) only for the rows that take the branch."""

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
    """One NaN and one zero, so that equal values are equal bits: what Catalyst puts around keys of GROUP BY."""

    child: Expr
    dtype: pa.DataType


@dataclass(frozen=True)
class DecimalToUnscaled(Expr):
    """The digits of a short decimal as bigint: 1.23 is 123. Catalyst sums short decimals this way."""

    child: Expr
    dtype: pa.DataType = LONG


@dataclass(frozen=True)
class DecimalFromUnscaled(Expr):
    """The inverse: a bigint's digits as a decimal of `dtype`."""

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
    """year, quarter, month, day, dayofweek, weekday, dayofyear, weekofyear, yearofweek of a date;
    hour, minute, second, second_fraction of a timestamp.

    Catalyst casts a timestamp to a date first where needed, so `zone` matters to the time-of-day parts only.
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
    """length (code points), upper, lower, concat (NULL if any is), substring (1-based, negative from the end)."""

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
    """What a chain of ANDs, or of ORs, connects, from left to right."""
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
    """The inverse of `conjuncts`."""
    result: Expr | None = None
    for part in parts:
        result = part if result is None else And(result, part)
    return result


def without_normalize(expr: Expr) -> Expr:
    """The expression below a `NormalizeFloat`, for readers that compare floats as Spark does in any case."""
    return expr.child if isinstance(expr, NormalizeFloat) else expr


def substitute(expr: Expr, meaning: dict[str, Expr]) -> Expr:
    """The expression with each column replaced by what it stands for."""
    return transform_up(expr, lambda node: meaning.get(node.name, node) if isinstance(node, Column) else node)
