"""Evaluation of an expression over a record batch, with exactly Spark's nulls, order, overflow and errors.

Spark evaluates row by row and lazily. It evaluates the right side of `a AND b` only where `a` does not decide, and the
right operand of `a + b` only where `a` is not NULL. It evaluates a CASE branch only for the rows that take it. For
values that makes no difference, for errors it does: `CASE WHEN b <> 0 THEN a / b END` never divides by zero. So
expressions that can raise (`raising.py`) are evaluated for the same rows as in Spark, and all others for the whole
batch at once, which is faster than selecting rows.

A column is returned without a copy. Constants stay single values until the end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sundog.errors import InternalError
from sundog.expr.buffers import Bools, array_from, validity_of, values_of
from sundog.expr.evaluation import strings
from sundog.expr.evaluation.arithmetic import absolute, add_days, arithmetic, days_between, negate, rounded
from sundog.expr.evaluation.casts import cast
from sundog.expr.evaluation.compare import compare, is_in
from sundog.expr.evaluation.decimals import (
    decimal_absolute,
    decimal_arithmetic,
    decimal_negate,
    decimal_round,
    make_decimal,
    unscaled_value,
)
from sundog.expr.evaluation.matching import matches
from sundog.expr.evaluation.temporal import add_interval, date_part, truncate
from sundog.expr.floats import canonical_floats
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
    StringFunction,
    StringMatch,
    columns_of,
)
from sundog.expr.raising import can_raise
from sundog.expr.regex import functions as regex

T = TypeVar("T")
Evaluation: TypeAlias = "Generator[tuple[Expr, pa.RecordBatch], pa.Array, T]"
ArrayEvaluation: TypeAlias = "Evaluation[pa.Array]"
"""An expression's evaluation as a generator: it yields an operand and a batch, is sent the operand's value, and returns
its own."""


def evaluate(expr: Expr, batch: pa.RecordBatch) -> pa.Array:
    """The expression's value for each row: an array of its `dtype` and of the batch's length."""
    begun = _begin(expr, batch)
    return begun if isinstance(begun, pa.Array) else _run(begun)


def evaluate_where(expr: Expr, batch: pa.RecordBatch, rows: Bools) -> pa.Array:
    """Like `evaluate`, for `rows` only: for the others nothing is raised, and the value is undefined."""
    return _run(_evaluate_where(expr, batch, rows))


def _run(evaluation: ArrayEvaluation) -> pa.Array:
    """The result of an evaluation.

    Expressions may be deeper than Python's stack, so an evaluation does not call those of its operands: it yields them,
    and the loop here keeps the evaluations that wait.
    """
    waiting = [evaluation]
    value: pa.Array = None
    while waiting:
        try:
            begun = _begin(*waiting[-1].send(value))
        except StopIteration as end:
            waiting.pop()
            value = end.value
            continue
        if isinstance(begun, pa.Array):
            value = begun
        else:
            waiting.append(begun)
            value = None
    return value


def _begin(expr: Expr, batch: pa.RecordBatch) -> ArrayEvaluation | pa.Array:
    if isinstance(expr, Column):
        return batch.column(expr.name)
    if batch.num_rows == 0:
        return pa.array([], expr.dtype)
    handler = _HANDLERS.get(type(expr))
    if handler is None:
        raise InternalError(f"{type(expr).__name__} cannot be evaluated")
    return handler(expr, batch)


def predicate_mask(expr: Expr, batch: pa.RecordBatch) -> Bools:
    """The rows for which a predicate is true; NULL counts as false."""
    return true_rows(evaluate(expr, batch))


def _evaluate_where(expr: Expr, batch: pa.RecordBatch, rows: Bools) -> ArrayEvaluation:
    if not can_raise(expr) or bool(rows.all()):
        return (yield expr, batch)
    if not bool(rows.any()):
        return pa.nulls(batch.num_rows, expr.dtype)
    names = sorted(columns_of(expr))
    chosen = pa.array(rows)
    fields = pa.schema([batch.schema.field(name) for name in names])
    columns = [batch.column(name).filter(chosen) for name in names]
    if not names:  # a batch without columns would lose its number of rows
        fields, columns = pa.schema([("row", pa.bool_())]), [chosen.filter(chosen)]
    subset = yield expr, pa.RecordBatch.from_arrays(columns, schema=fields)
    places = np.cumsum(rows) - 1
    return subset.take(pa.array(places, mask=~rows))


def true_rows(array: pa.Array) -> Bools:
    """Where a boolean array is true, not false or NULL."""
    values, valid = values_of(array), validity_of(array)
    return values if valid is None else values & valid


def _value_rows(array: pa.Array) -> Bools:
    valid = validity_of(array)
    return np.ones(len(array), np.bool_) if valid is None else valid


def _scalar(literal: Literal) -> pa.Scalar:
    if pa.types.is_temporal(literal.dtype) and isinstance(literal.value, int):
        storage = pa.int32() if pa.types.is_date32(literal.dtype) else pa.int64()
        return pa.array([literal.value], storage).view(literal.dtype)[0]
    return pa.scalar(literal.value, literal.dtype)


def _pair(
    first: Expr, second: Expr, batch: pa.RecordBatch
) -> Evaluation[tuple[pa.Array | pa.Scalar, pa.Array | pa.Scalar]]:
    """The values of both operands, the second evaluated only where the first is not NULL; one may be a scalar."""
    if isinstance(first, Literal):
        return _scalar(first), (yield second, batch)
    one = yield first, batch
    if isinstance(second, Literal):
        return one, _scalar(second)
    return one, (yield from _evaluate_where(second, batch, _value_rows(one)))


def _single(datum: pa.Array | pa.Scalar) -> pa.Array:
    """A constant as an array of one element, which numpy broadcasts over the rows."""
    return datum if isinstance(datum, pa.Array) else pa.repeat(datum, 1)


def _literal(expr: Literal, batch: pa.RecordBatch) -> pa.Array:
    if expr.value is None:
        return pa.nulls(batch.num_rows, expr.dtype)
    return pa.repeat(_scalar(expr), batch.num_rows)


def _compare(expr: Compare, batch: pa.RecordBatch) -> ArrayEvaluation:
    left, right = yield from _pair(expr.left, expr.right, batch)
    return compare(expr.op, left, right)


def _and(expr: And, batch: pa.RecordBatch) -> ArrayEvaluation:
    left = yield expr.left, batch
    undecided = ~_value_rows(left) | true_rows(left)
    return pc.and_kleene(left, (yield from _evaluate_where(expr.right, batch, undecided)))


def _or(expr: Or, batch: pa.RecordBatch) -> ArrayEvaluation:
    left = yield expr.left, batch
    return pc.or_kleene(left, (yield from _evaluate_where(expr.right, batch, ~true_rows(left))))


def _not(expr: Not, batch: pa.RecordBatch) -> ArrayEvaluation:
    return pc.invert((yield expr.child, batch))


def _is_null(expr: IsNull, batch: pa.RecordBatch) -> ArrayEvaluation:
    return pc.is_null((yield expr.child, batch))


def _is_nan(expr: IsNaN, batch: pa.RecordBatch) -> ArrayEvaluation:
    return pc.fill_null(pc.is_nan((yield expr.child, batch)), False)


def _in(expr: In, batch: pa.RecordBatch) -> ArrayEvaluation:
    return is_in((yield expr.child, batch), expr.values)


def _like(expr: Like, batch: pa.RecordBatch) -> ArrayEvaluation:
    return strings.like((yield expr.child, batch), expr.pattern, expr.escape)


def _string_match(expr: StringMatch, batch: pa.RecordBatch) -> ArrayEvaluation:
    return matches(expr.test, (yield expr.child, batch), expr.needle)


def _regex_match(expr: RegexMatch, batch: pa.RecordBatch) -> ArrayEvaluation:
    return regex.has_match((yield expr.child, batch), expr.pattern)


def _regex_replace(expr: RegexReplace, batch: pa.RecordBatch) -> ArrayEvaluation:
    return regex.replace_all((yield expr.child, batch), expr.pattern, expr.replacement)


def _regex_extract(expr: RegexExtract, batch: pa.RecordBatch) -> ArrayEvaluation:
    return regex.extract((yield expr.child, batch), expr.pattern, expr.group)


def _arith(expr: Arith, batch: pa.RecordBatch) -> ArrayEvaluation:
    if expr.op in (ArithOp.DIV, ArithOp.INT_DIV, ArithOp.MOD):  # Spark evaluates the divisor first
        right, left = map(_single, (yield from _pair(expr.right, expr.left, batch)))
    else:
        left, right = map(_single, (yield from _pair(expr.left, expr.right, batch)))
    if pa.types.is_decimal(left.type):
        return decimal_arithmetic(expr.op, left, right, expr.dtype, expr.mode)
    if pa.types.is_date32(right.type):
        return days_between(left, right)
    if pa.types.is_date32(left.type):
        return add_days(left, right, 1 if expr.op is ArithOp.ADD else -1)
    return arithmetic(expr.op, left, right, expr.dtype, expr.mode)


def _negate(expr: Negate, batch: pa.RecordBatch) -> ArrayEvaluation:
    child = yield expr.child, batch
    return decimal_negate(child) if pa.types.is_decimal(expr.dtype) else negate(child, expr.mode)


def _abs(expr: Abs, batch: pa.RecordBatch) -> ArrayEvaluation:
    child = yield expr.child, batch
    return decimal_absolute(child) if pa.types.is_decimal(expr.dtype) else absolute(child, expr.mode)


def _round(expr: Round, batch: pa.RecordBatch) -> ArrayEvaluation:
    child = yield expr.child, batch
    if pa.types.is_decimal(expr.dtype):
        return decimal_round(child, expr.places, expr.dtype)
    return rounded(child, expr.places, expr.mode)


def _cast(expr: Cast, batch: pa.RecordBatch) -> ArrayEvaluation:
    return cast((yield expr.child, batch), expr.dtype, expr.mode, expr.zone)


def _case(expr: Case, batch: pa.RecordBatch) -> ArrayEvaluation:
    left_over = np.ones(batch.num_rows, np.bool_)
    takers: list[tuple[Bools, Expr]] = []
    for condition, value in expr.branches:
        taken = true_rows((yield from _evaluate_where(condition, batch, left_over))) & left_over
        takers.append((taken, value))
        left_over = left_over & ~taken
    result: Any = pa.scalar(None, expr.dtype)
    if expr.otherwise is not None:
        result = yield from _where_taken(expr.otherwise, batch, left_over)
    for taken, value in reversed(takers):
        chosen = yield from _where_taken(value, batch, taken)
        result = pc.if_else(pa.array(taken), chosen, result)
    return result


def _where_taken(value: Expr, batch: pa.RecordBatch, taken: Bools) -> Evaluation[pa.Array | pa.Scalar]:
    return _scalar(value) if isinstance(value, Literal) else (yield from _evaluate_where(value, batch, taken))


def _coalesce(expr: Coalesce, batch: pa.RecordBatch) -> ArrayEvaluation:
    result = yield expr.args[0], batch
    for arg in expr.args[1:]:
        if result.null_count == 0:
            break
        result = pc.coalesce(result, (yield from _where_taken(arg, batch, ~_value_rows(result))))
    return result


def _normalize_float(expr: NormalizeFloat, batch: pa.RecordBatch) -> ArrayEvaluation:
    child = yield expr.child, batch
    return array_from(canonical_floats(values_of(child)), validity_of(child), expr.dtype)


def _to_unscaled(expr: DecimalToUnscaled, batch: pa.RecordBatch) -> ArrayEvaluation:
    return unscaled_value((yield expr.child, batch))


def _from_unscaled(expr: DecimalFromUnscaled, batch: pa.RecordBatch) -> ArrayEvaluation:
    return make_decimal((yield expr.child, batch), expr.dtype, expr.mode)


def _add_interval(expr: AddInterval, batch: pa.RecordBatch) -> ArrayEvaluation:
    child = yield expr.child, batch
    return add_interval(child, (yield from _evaluate_where(expr.interval, batch, _value_rows(child))), expr.zone)


def _date_part(expr: DatePart, batch: pa.RecordBatch) -> ArrayEvaluation:
    return date_part(expr.part, (yield expr.child, batch), expr.dtype, expr.zone)


def _date_trunc(expr: DateTrunc, batch: pa.RecordBatch) -> ArrayEvaluation:
    return truncate(expr.unit, (yield expr.child, batch), expr.zone)


def _string_call(expr: StringCall, batch: pa.RecordBatch) -> ArrayEvaluation:
    match expr.function:
        case StringFunction.LENGTH:
            return strings.length((yield expr.args[0], batch))
        case StringFunction.UPPER:
            return strings.upper((yield expr.args[0], batch))
        case StringFunction.LOWER:
            return strings.lower((yield expr.args[0], batch))
        case StringFunction.UPPER_OF_UNICODE_16:
            return strings.upper((yield expr.args[0], batch), 16)
        case StringFunction.LOWER_OF_UNICODE_16:
            return strings.lower((yield expr.args[0], batch), 16)
        case StringFunction.CONCAT:
            parts = [(yield expr.args[0], batch)]
            for arg in expr.args[1:]:
                parts.append(_scalar(arg) if isinstance(arg, Literal) else (yield arg, batch))
            return strings.concat(parts)
        case StringFunction.SUBSTRING:
            position, count = (arg.value for arg in expr.args[1:] if isinstance(arg, Literal))
            return strings.substring((yield expr.args[0], batch), position, count)


_HANDLERS: dict[type[Expr], Callable[[Any, pa.RecordBatch], ArrayEvaluation | pa.Array]] = {
    Literal: _literal,
    Compare: _compare,
    And: _and,
    Or: _or,
    Not: _not,
    IsNull: _is_null,
    IsNaN: _is_nan,
    In: _in,
    Like: _like,
    StringMatch: _string_match,
    RegexMatch: _regex_match,
    RegexReplace: _regex_replace,
    RegexExtract: _regex_extract,
    Arith: _arith,
    Negate: _negate,
    Abs: _abs,
    Round: _round,
    Cast: _cast,
    Case: _case,
    Coalesce: _coalesce,
    NormalizeFloat: _normalize_float,
    DecimalToUnscaled: _to_unscaled,
    DecimalFromUnscaled: _from_unscaled,
    AddInterval: _add_interval,
    DatePart: _date_part,
    DateTrunc: _date_trunc,
    StringCall: _string_call,
}
