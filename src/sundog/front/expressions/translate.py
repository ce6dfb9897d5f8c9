"""Catalyst's expressions -> sundog's, or the reasons why not.

Names, types, coercions and most simplifications are Catalyst's work and already done. What is left is one table: the
class name of each expression that sundog computes exactly as Spark does, and how it is read. What is not in the table is
declined, never guessed; what is in it may still be declined for its types. All reasons in a tree are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from sundog.expr.casts import EXACT_CASTS, family
from sundog.expr.nodes import (
    BOOL,
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
    CompareOp,
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
    StringCall,
    StringFunction,
    StringMatch,
    StringTest,
)
from sundog.expr.strings import valid_like_pattern
from sundog.expr.zones import Zone
from sundog.front.catalyst_json import Node
from sundog.front.expressions.literals import internal_value, literal_value
from sundog.front.expressions.time_zones import fixed_zone
from sundog.front.partitioning import NONDETERMINISTIC
from sundog.front.repeated_columns import spelt_below
from sundog.support import Code, Declined, Reason
from sundog.types import DAY_TIME_INTERVAL, TIMESTAMP, TIMESTAMP_NTZ, arrow_type, is_text, spark_name


@dataclass(frozen=True)
class Scope:
    """What an expression may refer to: columns by internal name, and what the session decides.

    `zones` holds the JVM's rules of time zones by name (`time_zones.java_zone`); those of fixed offset need not be there.
    """

    columns: Mapping[str, pa.DataType]
    zone: str = "UTC"
    zones: Mapping[str, Zone] = field(default_factory=dict)
    icu_case_mapping: bool = True  # spark.sql.icu.caseMappings.enabled
    segment_trees: bool = False  # spark.sql.window.segmentTree.enabled
    whole_stage: bool = True  # spark.sql.codegen.wholeStage
    done: dict[int, Expr | Declined] = field(default_factory=dict, compare=False, repr=False)

    def column(self, attribute: Node) -> Column:
        name = spelt_below(f"{attribute['name']}#{attribute['exprId']['id']}", self.columns)
        dtype = type_of(attribute["dataType"], name)
        if name not in self.columns:
            raise Declined.because(Code.PLAN_VERSION, f"column {name} is not among the columns below", attribute.name)
        if self.columns[name] != dtype:
            raise Declined.because(
                Code.UNSUPPORTED_TYPE, f"column {name} is {spark_name(dtype)} here and not below", attribute.name
            )
        return Column(name, dtype)

    def rules_of(self, zone: str) -> Zone | None:
        return fixed_zone(zone) or self.zones.get(zone)


def translate(node: Node, scope: Scope) -> Expr:
    """The expression; raises `Declined` with every reason found in the tree.

    Trees may be deeper than Python's stack, so children are read before their parents, whose readers find them in `done`.
    """
    done: dict[int, Expr | Declined] = {}
    inner = replace(scope, done=done)
    for current in reversed(list(node.walk())):
        try:
            done[id(current)] = _read(current, inner)
        except Declined as declined:
            done[id(current)] = declined
    return _found(node, inner)


def _read(node: Node, scope: Scope) -> Expr:
    entry = _TABLE.get(node.name)
    if entry is None:
        raise Declined(_unknown(node), *_reasons_below(node, scope))
    return entry.read(node, scope)


def _found(node: Node, scope: Scope) -> Expr:
    """What has been made of a node already, or the reasons why nothing."""
    found = scope.done[id(node)]
    if isinstance(found, Declined):
        raise found
    return found


def type_of(spark_type: Any, what: str) -> pa.DataType:
    """The Arrow type for a type in Catalyst's JSON."""
    dtype = arrow_type(spark_type)
    if dtype is not None and not (pa.types.is_decimal(dtype) and dtype.scale < 0):
        return dtype
    if isinstance(spark_type, str) and spark_type.startswith("string collate"):
        raise Declined.because(Code.COLLATION, f"{what} is a {spark_type}", what)
    shown = spark_type.get("type", spark_type) if isinstance(spark_type, dict) else spark_type
    raise Declined.because(Code.UNSUPPORTED_TYPE, f"{what} has type {shown}", what)


def _unknown(node: Node) -> Reason:
    if node.name in NONDETERMINISTIC:
        return Reason(Code.NONDETERMINISTIC, f"{node.name} gives another value in another run", node.name)
    if node.name in ("Collate", "ResolvedCollation"):
        return Reason(Code.COLLATION, "a string is compared under a collation", node.name)
    return Reason(Code.UNKNOWN_EXPRESSION, f"{node.name} is not computed by sundog", node.name)


def _reasons_below(node: Node, scope: Scope) -> list[Reason]:
    reasons: list[Reason] = []
    for child in node.children:
        try:
            _found(child, scope)
        except Declined as declined:
            reasons += (reason for reason in declined.reasons if reason not in reasons)
    return reasons


def _translate_all(nodes: Sequence[Node], scope: Scope) -> list[Expr]:
    """All of them, or the reasons of all that cannot be."""
    done: list[Expr] = []
    reasons: list[Reason] = []
    for node in nodes:
        try:
            done.append(_found(node, scope))
        except Declined as declined:
            reasons += (reason for reason in declined.reasons if reason not in reasons)
    if reasons:
        raise Declined(*reasons)
    return done


def _children(node: Node, scope: Scope, count: int) -> list[Expr]:
    if len(node.children) != count:
        raise Declined.because(Code.PLAN_VERSION, f"{node.name} has {len(node.children)} children", node.name)
    return _translate_all(node.children, scope)


def _require(condition: bool, code: Code, sentence: str, node: Node) -> None:
    if not condition:
        raise Declined.because(code, sentence, node.name)


def _refuse_type(node: Node, *dtypes: pa.DataType) -> Declined:
    shown = ", ".join(map(spark_name, dtypes))
    return Declined.because(Code.UNSUPPORTED_TYPE, f"{node.name} of {shown} is not computed by sundog", node.name)


def _same_type(node: Node, exprs: Sequence[Expr]) -> pa.DataType:
    first = exprs[0].dtype
    _require(
        all(expr.dtype == first for expr in exprs),
        Code.PLAN_VERSION,
        f"{node.name} has arguments of several types: {', '.join(spark_name(e.dtype) for e in exprs)}",
        node,
    )
    return first


def _mode(node: Node, key: str) -> EvalMode:
    """The evaluation mode that `jvm.details.complete` has filled in."""
    value = node.get(key)
    if value not in ("ANSI", "LEGACY", "TRY"):
        raise Declined.because(Code.PLAN_VERSION, f"{node.name} has the unknown evaluation mode {value!r}", node.name)
    return EvalMode(value)


def _fails(node: Node, key: str, error: bool) -> EvalMode:
    """The mode of expressions that carry a flag instead: `error` is the flag's value that means ANSI."""
    value = node[key]
    _require(isinstance(value, bool), Code.PLAN_VERSION, f"{node.name}.{key} is {value!r}", node)
    return EvalMode.ANSI if value == error else EvalMode.LEGACY


def _zone(node: Node, scope: Scope) -> Zone:
    name = node["timeZoneId"]
    zone = scope.rules_of(name) if isinstance(name, str) else None
    if zone is None:
        raise Declined.because(Code.UNKNOWN_EXPRESSION, f"the rules of time zone {name} are not known", node.name)
    return zone


def _constant(expr: Expr, node: Node, what: str) -> Any:
    _require(
        isinstance(expr, Literal) and expr.value is not None,
        Code.UNKNOWN_EXPRESSION,
        f"{node.name} with {what} that is not a constant",
        node,
    )
    return expr.value  # type: ignore[attr-defined]


# --- leaves and wrappers ---------------------------------------------------------------------------------------------


def _attribute(node: Node, scope: Scope) -> Expr:
    return scope.column(node)


def _literal(node: Node, scope: Scope) -> Expr:
    dtype = type_of(node["dataType"], "Literal")
    return Literal(literal_value(node, dtype), dtype)


def _wrapper(node: Node, scope: Scope) -> Expr:
    return _found(node.child, scope)


def _normalize(node: Node, scope: Scope) -> Expr:
    (child,) = _children(node, scope, 1)
    if not pa.types.is_floating(child.dtype):
        raise _refuse_type(node, child.dtype)
    return NormalizeFloat(child, child.dtype)


# --- logic and comparison --------------------------------------------------------------------------------------------


def _and(node: Node, scope: Scope) -> Expr:
    left, right = _children(node, scope, 2)
    return And(left, right)


def _or(node: Node, scope: Scope) -> Expr:
    left, right = _children(node, scope, 2)
    return Or(left, right)


def _not(node: Node, scope: Scope) -> Expr:
    return Not(*_children(node, scope, 1))


def _is_null(node: Node, scope: Scope) -> Expr:
    return IsNull(*_children(node, scope, 1))


def _is_not_null(node: Node, scope: Scope) -> Expr:
    return Not(IsNull(*_children(node, scope, 1)))


def _is_nan(node: Node, scope: Scope) -> Expr:
    return IsNaN(*_children(node, scope, 1))


def _comparison(op: CompareOp) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        left, right = _children(node, scope, 2)
        _same_type(node, (left, right))
        return Compare(op, left, right)

    return read


def _in(node: Node, scope: Scope) -> Expr:
    exprs = _translate_all(node.children, scope)
    dtype = _same_type(node, exprs)
    _require(not pa.types.is_null(dtype), Code.UNSUPPORTED_TYPE, "IN over untyped NULLs", node)
    values = []
    for expr in exprs[1:]:
        _require(isinstance(expr, Literal), Code.UNKNOWN_EXPRESSION, "IN with a value that is not a constant", node)
        values.append(expr.value)  # type: ignore[attr-defined]
    return In(exprs[0], tuple(values))


def _in_set(node: Node, scope: Scope) -> Expr:
    (child,) = _children(node, scope, 1)
    members = node["hset"]
    _require(isinstance(members, list), Code.PLAN_VERSION, "the members of an IN list are not in the plan", node)
    values = [internal_value(member, child.dtype) for member in members]
    return In(child, tuple(sorted(values, key=_for_display)))


def _for_display(value: Any) -> Any:
    """A set has no order; explain wants one. NULL and NaN come last."""
    unordered = value is None or value != value
    return unordered, "" if unordered else value


# --- strings ---------------------------------------------------------------------------------------------------------


def _like(node: Node, scope: Scope) -> Expr:
    child, pattern = _children(node, scope, 2)
    escape = node["escapeChar"]
    _require(isinstance(escape, str) and len(escape) == 1, Code.PLAN_VERSION, f"LIKE has escape {escape!r}", node)
    text = _constant(pattern, node, "a pattern")
    _require(valid_like_pattern(text, escape), Code.UNKNOWN_EXPRESSION, f"{text!r} is not a valid pattern", node)
    return Like(child, text, escape)


def _string_test(test: StringTest) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        child, needle = _children(node, scope, 2)
        _same_type(node, (child, needle))
        return StringMatch(test, child, _constant(needle, node, "a text"))

    return read


def _length(node: Node, scope: Scope) -> Expr:
    (child,) = _children(node, scope, 1)
    if not is_text(child.dtype):
        raise _refuse_type(node, child.dtype)
    return StringCall(StringFunction.LENGTH, (child,), pa.int32())


def _case_mapping(function: StringFunction) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        (child,) = _children(node, scope, 1)
        _require(
            scope.icu_case_mapping,
            Code.UNKNOWN_EXPRESSION,
            f"{node.name} with spark.sql.icu.caseMappings.enabled=false",
            node,
        )
        if not pa.types.is_string(child.dtype):
            raise _refuse_type(node, child.dtype)
        return StringCall(function, (child,), child.dtype)

    return read


def _concat(node: Node, scope: Scope) -> Expr:
    args = _translate_all(node.children, scope)
    _require(bool(args), Code.UNKNOWN_EXPRESSION, "concat of nothing", node)
    dtype = _same_type(node, args)
    if not is_text(dtype):
        raise _refuse_type(node, dtype)
    return StringCall(StringFunction.CONCAT, tuple(args), dtype)


def _substring(node: Node, scope: Scope) -> Expr:
    text, position, count = _children(node, scope, 3)
    if not is_text(text.dtype):
        raise _refuse_type(node, text.dtype)
    for number, what in ((position, "a position"), (count, "a length")):
        _constant(number, node, what)
    return StringCall(StringFunction.SUBSTRING, (text, position, count), text.dtype)


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype))


def _arithmetic(op: ArithOp) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        left, right = _children(node, scope, 2)
        mode = _mode(node, "evalContext")
        if not (_is_number(left.dtype) and _is_number(right.dtype)):
            raise _refuse_type(node, left.dtype, right.dtype)
        if pa.types.is_decimal(left.dtype) and pa.types.is_decimal(right.dtype):
            _check_decimal_quotient(op, left.dtype, right.dtype, node)
            return Arith(op, left, right, type_of(node["dataType"], node.name), mode)
        dtype = _same_type(node, (left, right))
        if op is ArithOp.DIV and not pa.types.is_floating(dtype):
            raise _refuse_type(node, dtype)
        if op is ArithOp.INT_DIV and dtype != pa.int64():
            raise _refuse_type(node, dtype)
        return Arith(op, left, right, dtype, mode)

    return read


def _check_decimal_quotient(op: ArithOp, left: pa.DataType, right: pa.DataType, node: Node) -> None:
    """Java's BigDecimal gives up on an integer quotient of more digits than its context has."""
    if op in (ArithOp.INT_DIV, ArithOp.MOD) and left.precision - left.scale + right.scale > 38:
        raise _refuse_type(node, left, right)


def _can_negate(dtype: pa.DataType) -> bool:
    """Spark negates decimals in a context of 34 digits: it rounds longer ones, or fails where that overflows."""
    return _is_number(dtype) and not (pa.types.is_decimal(dtype) and dtype.precision > 34)


def _negate(node: Node, scope: Scope) -> Expr:
    (child,) = _children(node, scope, 1)
    if not _can_negate(child.dtype):
        raise _refuse_type(node, child.dtype)
    return Negate(child, child.dtype, _fails(node, "failOnError", True))


def _abs(node: Node, scope: Scope) -> Expr:
    (child,) = _children(node, scope, 1)
    if not _can_negate(child.dtype):
        raise _refuse_type(node, child.dtype)
    return Abs(child, child.dtype, _fails(node, "failOnError", True))


def _power(node: Node, scope: Scope) -> Expr:
    """Squares, which Java multiplies out. Of other powers the last bit is the mathematical library's own."""
    base, exponent = _children(node, scope, 2)
    if not (pa.types.is_float64(base.dtype) and isinstance(exponent, Literal) and exponent.value == 2.0):
        raise Declined.because(Code.UNKNOWN_EXPRESSION, "powers other than squares depend on the library", node.name)
    return Arith(ArithOp.MUL, base, base, base.dtype)


def _check_overflow(node: Node, scope: Scope) -> Expr:
    (child,) = _children(node, scope, 1)
    dtype = type_of(node["dataType"], node.name)
    mode = _fails(node, "nullOnOverflow", False)
    if not (pa.types.is_decimal(child.dtype) and pa.types.is_decimal(dtype)):
        raise _refuse_type(node, child.dtype)
    return Cast(child, dtype, mode)


def _unscaled_value(node: Node, scope: Scope) -> Expr:
    (child,) = _children(node, scope, 1)
    if not (pa.types.is_decimal(child.dtype) and child.dtype.precision <= 18):
        raise _refuse_type(node, child.dtype)
    return DecimalToUnscaled(child)


def _make_decimal(node: Node, scope: Scope) -> Expr:
    (child,) = _children(node, scope, 1)
    if child.dtype != pa.int64():
        raise _refuse_type(node, child.dtype)
    dtype = pa.decimal128(int(node["precision"]), int(node["scale"]))
    return DecimalFromUnscaled(child, dtype, _fails(node, "nullOnOverflow", False))


# --- casts -----------------------------------------------------------------------------------------------------------

# Results that no mode changes, so that the mode need not be known.
_MODELESS = frozenset(
    {
        ("boolean", "integer"),
        ("boolean", "float"),
        ("boolean", "double"),
        ("boolean", "string"),
        ("integer", "boolean"),
        ("integer", "float"),
        ("integer", "double"),
        ("integer", "string"),
        ("integer", "timestamp"),
        ("float", "boolean"),
        ("float", "double"),
        ("double", "boolean"),
        ("double", "float"),
        ("decimal", "boolean"),
        ("decimal", "double"),
        ("string", "binary"),
        ("binary", "string"),
        ("date", "string"),
        ("timestamp", "date"),
        ("timestamp", "string"),
        ("timestamp_ntz", "date"),
        ("timestamp_ntz", "string"),
    }
)
_ZONED = frozenset(
    {
        ("date", "timestamp"),
        ("timestamp", "date"),
        ("timestamp", "timestamp_ntz"),
        ("timestamp", "integer"),
        ("timestamp", "string"),
        ("timestamp_ntz", "timestamp"),
    }
)


def _cast(node: Node, scope: Scope) -> Expr:
    (child,) = _children(node, scope, 1)
    dtype = type_of(node["dataType"], "Cast")
    _require(
        dtype != DAY_TIME_INTERVAL or str(node["dataType"]).endswith("second"),
        Code.INEXACT_CAST,
        f"a cast to {node['dataType']} cuts off smaller units",
        node,
    )
    if child.dtype == dtype:
        return child
    if isinstance(child, Literal) and child.value is None:
        return Literal(None, dtype)
    pair = family(child.dtype), family(dtype)
    _require(
        pair in EXACT_CASTS,
        Code.INEXACT_CAST,
        f"a cast from {spark_name(child.dtype)} to {spark_name(dtype)} is not known to be exactly Spark's",
        node,
    )
    widening = pair == ("integer", "integer") and dtype.bit_width >= child.dtype.bit_width
    mode = EvalMode.LEGACY if widening or pair in _MODELESS else _mode(node, "evalMode")
    _require(
        not _depends_on_representation(child, dtype, mode), Code.INEXACT_CAST, "a decimal near an int's limits", node
    )
    return Cast(child, dtype, mode, _zone(node, scope) if pair in _ZONED else None)


def _depends_on_representation(child: Expr, dtype: pa.DataType, mode: EvalMode) -> bool:
    """Spark checks a computed decimal of 16 to 18 digits through a double, one that was read exactly."""
    source = child.dtype
    if not (pa.types.is_decimal(source) and pa.types.is_integer(dtype)) or isinstance(child, Column):
        return False
    return bool(
        mode is not EvalMode.LEGACY and dtype.bit_width < 64 and 15 < source.precision <= 18 and source.scale > 0
    )


# --- choices ---------------------------------------------------------------------------------------------------------


def _case_when(node: Node, scope: Scope) -> Expr:
    exprs = _translate_all(node.children, scope)
    otherwise = exprs.pop() if len(exprs) % 2 else None
    _require(len(exprs) >= 2, Code.PLAN_VERSION, f"{node.name} has {len(node.children)} children", node)
    conditions, values = exprs[0::2], exprs[1::2]
    dtype = _same_type(node, values if otherwise is None else [*values, otherwise])
    _require(all(c.dtype == BOOL for c in conditions), Code.PLAN_VERSION, "a condition is not a boolean", node)
    return Case(tuple(zip(conditions, values, strict=True)), otherwise, dtype)


def _coalesce(node: Node, scope: Scope) -> Expr:
    args = _translate_all(node.children, scope)
    _require(bool(args), Code.PLAN_VERSION, "coalesce of nothing", node)
    return Coalesce(tuple(args), _same_type(node, args))


# --- dates and times -------------------------------------------------------------------------------------------------


def _day_part(part: str) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        (child,) = _children(node, scope, 1)
        if not pa.types.is_date32(child.dtype):
            raise _refuse_type(node, child.dtype)
        return DatePart(part, child, pa.int32())

    return read


def _time_part(part: str, dtype: pa.DataType) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        (child,) = _children(node, scope, 1)
        if child.dtype not in (TIMESTAMP, TIMESTAMP_NTZ):
            raise _refuse_type(node, child.dtype)
        return DatePart(part, child, dtype, _zone(node, scope) if child.dtype == TIMESTAMP else None)

    return read


_DATE_UNITS = {
    "year": "year",
    "yyyy": "year",
    "yy": "year",
    "quarter": "quarter",
    "month": "month",
    "mm": "month",
    "mon": "month",
    "week": "week",
}
_TIME_UNITS = _DATE_UNITS | {
    "day": "day",
    "dd": "day",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
    "millisecond": "millisecond",
    "microsecond": "microsecond",
}


def _unit(expr: Expr, node: Node, units: Mapping[str, str]) -> str:
    name = _constant(expr, node, "a unit")
    _require(
        isinstance(name, str) and name.isascii() and name.lower() in units,
        Code.UNKNOWN_EXPRESSION,
        f"{node.name} with the unit {name!r}",
        node,
    )
    return units[name.lower()]


def _trunc_timestamp(node: Node, scope: Scope) -> Expr:
    unit, child = _children(node, scope, 2)
    if child.dtype != TIMESTAMP:
        raise _refuse_type(node, child.dtype)
    return DateTrunc(_unit(unit, node, _TIME_UNITS), child, child.dtype, _zone(node, scope))


def _trunc_date(node: Node, scope: Scope) -> Expr:
    child, unit = _children(node, scope, 2)
    if not pa.types.is_date32(child.dtype):
        raise _refuse_type(node, child.dtype)
    return DateTrunc(_unit(unit, node, _DATE_UNITS), child, child.dtype)


def _date_shift(op: ArithOp) -> Reader:
    def read(node: Node, scope: Scope) -> Expr:
        date, days = _children(node, scope, 2)
        if not (pa.types.is_date32(date.dtype) and pa.types.is_integer(days.dtype) and days.dtype.bit_width <= 32):
            raise _refuse_type(node, date.dtype, days.dtype)
        return Arith(op, date, days, date.dtype, EvalMode.LEGACY)

    return read


def _date_diff(node: Node, scope: Scope) -> Expr:
    end, start = _children(node, scope, 2)
    if not (pa.types.is_date32(end.dtype) and pa.types.is_date32(start.dtype)):
        raise _refuse_type(node, end.dtype, start.dtype)
    return Arith(ArithOp.SUB, end, start, pa.int32(), EvalMode.LEGACY)


def _add_interval(node: Node, scope: Scope) -> Expr:
    start, interval = _children(node, scope, 2)
    if start.dtype not in (TIMESTAMP, TIMESTAMP_NTZ) or interval.dtype != DAY_TIME_INTERVAL:
        raise _refuse_type(node, start.dtype, interval.dtype)
    return AddInterval(start, interval, start.dtype, _zone(node, scope) if start.dtype == TIMESTAMP else None)


# --- the table -------------------------------------------------------------------------------------------------------

Reader = Callable[[Node, Scope], Expr]


@dataclass(frozen=True)
class _Entry:
    read: Reader
    doc: str


_TABLE: dict[str, _Entry] = {
    "AttributeReference": _Entry(_attribute, "a column"),
    "Literal": _Entry(_literal, "a constant"),
    "Alias": _Entry(_wrapper, "a name for an expression"),
    "KnownFloatingPointNormalized": _Entry(_wrapper, "Catalyst's mark on a normalised key"),
    "KnownNotNull": _Entry(_wrapper, "Catalyst's mark on what cannot be NULL"),
    "KnownNullable": _Entry(_wrapper, "Catalyst's mark on what may be NULL"),
    "PromotePrecision": _Entry(_wrapper, "Catalyst's mark on a widened decimal"),
    "NormalizeNaNAndZero": _Entry(_normalize, "one NaN and one zero in keys of GROUP BY"),
    "And": _Entry(_and, "`a AND b`"),
    "Or": _Entry(_or, "`a OR b`"),
    "Not": _Entry(_not, "`NOT a`"),
    "IsNull": _Entry(_is_null, "`a IS NULL`"),
    "IsNotNull": _Entry(_is_not_null, "`a IS NOT NULL`"),
    "IsNaN": _Entry(_is_nan, "`isnan(a)`"),
    "EqualTo": _Entry(_comparison(CompareOp.EQ), "`a = b`"),
    "EqualNullSafe": _Entry(_comparison(CompareOp.NULL_SAFE_EQ), "`a <=> b`"),
    "LessThan": _Entry(_comparison(CompareOp.LT), "`a < b`"),
    "LessThanOrEqual": _Entry(_comparison(CompareOp.LE), "`a <= b`"),
    "GreaterThan": _Entry(_comparison(CompareOp.GT), "`a > b`"),
    "GreaterThanOrEqual": _Entry(_comparison(CompareOp.GE), "`a >= b`"),
    "In": _Entry(_in, "`a IN (constants)`"),
    "InSet": _Entry(_in_set, "`a IN (many constants)`"),
    "Like": _Entry(_like, "`s LIKE 'constant' [ESCAPE c]`"),
    "StartsWith": _Entry(_string_test(StringTest.STARTS_WITH), "`startswith(s, constant)`, `s LIKE 'x%'`"),
    "EndsWith": _Entry(_string_test(StringTest.ENDS_WITH), "`endswith(s, constant)`, `s LIKE '%x'`"),
    "Contains": _Entry(_string_test(StringTest.CONTAINS), "`contains(s, constant)`, `s LIKE '%x%'`"),
    "Length": _Entry(_length, "`length(s)` of a string or binary"),
    "Upper": _Entry(_case_mapping(StringFunction.UPPER), "`upper(s)`"),
    "Lower": _Entry(_case_mapping(StringFunction.LOWER), "`lower(s)`"),
    "Concat": _Entry(_concat, "`concat(a, b, ...)` of strings or binaries"),
    "Substring": _Entry(_substring, "`substring(s, constant, constant)`, `left`, `right`"),
    "Add": _Entry(_arithmetic(ArithOp.ADD), "`a + b`, `try_add` of numbers"),
    "Subtract": _Entry(_arithmetic(ArithOp.SUB), "`a - b`, `try_subtract` of numbers"),
    "Multiply": _Entry(_arithmetic(ArithOp.MUL), "`a * b`, `try_multiply` of numbers"),
    "Divide": _Entry(_arithmetic(ArithOp.DIV), "`a / b`, `try_divide` of numbers"),
    "IntegralDivide": _Entry(_arithmetic(ArithOp.INT_DIV), "`a div b` of numbers"),
    "Remainder": _Entry(_arithmetic(ArithOp.MOD), "`a % b`, `try_mod` of numbers"),
    "Pow": _Entry(_power, "`power(a, 2)`"),
    "UnaryMinus": _Entry(_negate, "`-a` of a number"),
    "Abs": _Entry(_abs, "`abs(a)` of a number"),
    "CheckOverflow": _Entry(_check_overflow, "Catalyst's check on a decimal result"),
    "UnscaledValue": _Entry(_unscaled_value, "Catalyst's way to sum short decimals"),
    "MakeDecimal": _Entry(_make_decimal, "Catalyst's way to sum short decimals"),
    "Cast": _Entry(_cast, "`CAST` and `try_cast` between the types listed as exact"),
    "If": _Entry(_case_when, "`if(c, a, b)`, `nullif`"),
    "CaseWhen": _Entry(_case_when, "`CASE WHEN`"),
    "Coalesce": _Entry(_coalesce, "`coalesce(a, b, ...)`, `nvl`, `ifnull`"),
    "Year": _Entry(_day_part("year"), "`year(d)`"),
    "Quarter": _Entry(_day_part("quarter"), "`quarter(d)`"),
    "Month": _Entry(_day_part("month"), "`month(d)`"),
    "DayOfMonth": _Entry(_day_part("day"), "`day(d)`"),
    "DayOfWeek": _Entry(_day_part("dayofweek"), "`dayofweek(d)`"),
    "WeekDay": _Entry(_day_part("weekday"), "`weekday(d)`"),
    "DayOfYear": _Entry(_day_part("dayofyear"), "`dayofyear(d)`"),
    "WeekOfYear": _Entry(_day_part("weekofyear"), "`weekofyear(d)`"),
    "YearOfWeek": _Entry(_day_part("yearofweek"), "`extract(yearofweek from d)`"),
    "Hour": _Entry(_time_part("hour", pa.int32()), "`hour(t)`"),
    "Minute": _Entry(_time_part("minute", pa.int32()), "`minute(t)`"),
    "Second": _Entry(_time_part("second", pa.int32()), "`second(t)`"),
    "SecondWithFraction": _Entry(_time_part("second_fraction", pa.decimal128(8, 6)), "`extract(second from t)`"),
    "TruncTimestamp": _Entry(_trunc_timestamp, "`date_trunc(constant, t)`"),
    "TruncDate": _Entry(_trunc_date, "`trunc(d, constant)`"),
    "DateAdd": _Entry(_date_shift(ArithOp.ADD), "`date_add(d, n)`, `d + n`"),
    "DateSub": _Entry(_date_shift(ArithOp.SUB), "`date_sub(d, n)`, `d - n`"),
    "DateDiff": _Entry(_date_diff, "`datediff(d, e)`"),
    "TimestampAddInterval": _Entry(_add_interval, "`t + INTERVAL` of days to seconds"),
}

SUPPORTED_EXPRESSIONS: dict[str, str] = {name: entry.doc for name, entry in _TABLE.items()}
"""Catalyst's class name -> the SQL it comes from; `docs/reference` lists it."""
