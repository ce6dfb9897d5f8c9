"""Pruning by statistics: tests a WHERE, for each row group SKIP, SCAN or ALL_ROWS_MATCH.

A predicate is evaluated once over arrays with one slot per row group, in three-valued logic: which values *can* it have
for some row of the row group, given the bounds? Unknown always means "can".

| can be true | can be false | can be NULL | verdict |
|---|---|---|---|
| no | any | any | SKIP |
| yes | no | no | ALL_ROWS_MATCH |
| yes | yes | any | SCAN |
| yes | any | yes | SCAN |
| any (evaluating it might raise an error) | any | any | SCAN |

Leaves, for bounds low..high of the values (`?` is an unknown bound, which makes the answer "can"):

| predicate | can be true | can be false | can be NULL |
|---|---|---|---|
| x < y | x.low < y.high | x.high >= y.low | x or y can be NULL |
| x <= y | x.low <= y.high | x.high > y.low | the same |
| x = y | ranges overlap | not both the same single value | the same |
| x <=> y | x = y can be true, or both can be NULL | x = y can be false, or one can be NULL and the other not | never |
| x IN (a, b) | a or b within low..high | x is not one of them alone; no NULL in it | x or one in the list can be NULL |
| x IS NULL | there can be NULLs | there can be values | never |
| isnan(x) | high can be NaN | there can be NULLs or values below NaN | never |
| x LIKE 'p%' | low..high reaches a string that starts with p | low or high does not start with p | x can be NULL |
| NOT, AND, OR | by the truth tables of SQL | | |

x and y may be columns, constants, and monotonic functions of one column: casts that widen, `+ constant`, date_trunc.
Such a function is simply evaluated at both bounds. Everything else is unknown.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from sundog.expr.buffers import Bools
from sundog.expr.nodes import (
    And,
    Column,
    Compare,
    CompareOp,
    Expr,
    In,
    IsNaN,
    IsNull,
    Like,
    Not,
    Or,
    StringMatch,
    StringTest,
    conjunction,
    conjuncts,
    operands_of,
)
from sundog.expr.raising import can_raise
from sundog.expr.rank_columns import successor
from sundog.expr.ranks import NAN_RANK, ranks_of_values
from sundog.parquet.meta.bounds import MAX_LEVELS, expression_bounds
from sundog.parquet.meta.statistics import Bounds, Statistics
from sundog.tree import height


class Verdict(IntEnum):
    SKIP = 0  # no row can match: WHERE x > 5 over a row group with max 3
    SCAN = 1  # some may, or nothing is known
    ALL_ROWS_MATCH = 2  # every row does: WHERE x > 5 over a row group with min 6 and no NULLs


Verdicts = npt.NDArray[np.int8]


@dataclass(frozen=True)
class TruthValues:
    """The values that a predicate can have for some row of each row group."""

    true: Bools
    false: Bools
    null: Bools
    safe: Bools

    def verdicts(self) -> Verdicts:
        result = np.full(len(self.true), Verdict.SCAN, np.int8)
        result[~self.true] = Verdict.SKIP
        result[self.true & ~self.false & ~self.null] = Verdict.ALL_ROWS_MATCH
        result[~self.safe] = Verdict.SCAN
        return result


@dataclass(frozen=True)
class PruningPredicate:
    """A WHERE, ready to be tested against the statistics of any file."""

    predicate: Expr | None

    def verdicts(self, statistics: Statistics) -> Verdicts:
        """One verdict per row group. A row group of no rows is skipped."""
        if self.predicate is None:
            result = np.full(len(statistics), Verdict.ALL_ROWS_MATCH, np.int8)
        else:
            result = outcome_of(self.predicate, statistics).verdicts()
        result[statistics.rows == 0] = Verdict.SKIP
        return result


def never_null(predicate: Expr | None, statistics: Statistics, slots: npt.NDArray[np.int64]) -> frozenset[str]:
    """The columns that a WHERE wants not to be NULL, as Spark asks of every key of a join, and that are not in any of
    these row groups. None where the WHERE may raise: then it is evaluated as it is."""
    if predicate is None or can_raise(predicate):
        return frozenset()
    wanted = {part: name for part in conjuncts(predicate) if (name := _not_null_column(part)) is not None}
    return frozenset(
        name
        for part, name in wanted.items()
        if (PruningPredicate(part).verdicts(statistics)[slots] == Verdict.ALL_ROWS_MATCH).all()
    )


def without_not_null(predicate: Expr | None, columns: Collection[str]) -> Expr | None:
    """A WHERE without what it asks of columns that are never NULL."""
    if not columns:
        return predicate
    return conjunction([part for part in conjuncts(predicate) if _not_null_column(part) not in columns])


def _not_null_column(test: Expr) -> str | None:
    match test:
        case Not(IsNull(Column(name=name))):
            return name
        case _:
            return None


def outcome_of(expr: Expr, statistics: Statistics, level: int = 0) -> TruthValues:
    """The values that a predicate can have. Chains of ANDs and ORs may be of any length; deeper nesting is unknown."""
    if level > MAX_LEVELS or (height(expr) > MAX_LEVELS and not isinstance(expr, And | Or | Not)):
        return _of_boolean(Bounds.unknown(expr.dtype, len(statistics), safe=not can_raise(expr)))
    match expr:
        case And():
            return reduce(_and, (outcome_of(part, statistics, level + 1) for part in operands_of(And, expr)))
        case Or():
            parts = (_not(outcome_of(part, statistics, level + 1)) for part in operands_of(Or, expr))
            return _not(reduce(_and, parts))
        case Not():
            return _not(outcome_of(expr.child, statistics, level + 1))
        case Compare():
            return _compare(
                expr.op, expression_bounds(expr.left, statistics), expression_bounds(expr.right, statistics)
            )
        case IsNull():
            child = _value_bounds(expr.child, statistics)
            return TruthValues(child.nulls, child.values, _none(child), child.safe)
        case IsNaN():
            child = expression_bounds(expr.child, statistics)
            below_nan = child.high.below(NAN_RANK)
            return TruthValues(child.values & ~below_nan, child.values | child.nulls, _none(child), child.safe)
        case In():
            return _in(expr, expression_bounds(expr.child, statistics))
        case StringMatch(test=StringTest.STARTS_WITH):
            return _starts_with(expression_bounds(expr.child, statistics), _as_bytes(expr.needle), exact=True)
        case Like():
            prefix, exact = like_prefix(expr.pattern, expr.escape)
            return _starts_with(expression_bounds(expr.child, statistics), prefix.encode(), exact)
        case _:
            return _of_boolean(expression_bounds(expr, statistics))


def _value_bounds(expr: Expr, statistics: Statistics) -> Bounds:
    """Bounds of any expression, also of a predicate."""
    if not isinstance(expr, (And, Or, Not, Compare, IsNull, IsNaN, In, StringMatch, Like)):
        return expression_bounds(expr, statistics)
    outcome = outcome_of(expr, statistics, MAX_LEVELS // 2)
    unknown = Bounds.unknown(expr.dtype, len(statistics), safe=not can_raise(expr))
    values = outcome.true | outcome.false
    return Bounds(expr.dtype, unknown.low, unknown.high, outcome.null, values, unknown.null_counts, outcome.safe)


def _of_boolean(bounds: Bounds) -> TruthValues:
    never_true = bounds.high.below(1)
    never_false = bounds.low.at_least(1)
    return TruthValues(bounds.values & ~never_true, bounds.values & ~never_false, bounds.nulls, bounds.safe)


def _none(bounds: Bounds) -> Bools:
    return np.zeros(len(bounds), np.bool_)


def _not(outcome: TruthValues) -> TruthValues:
    return TruthValues(outcome.false, outcome.true, outcome.null, outcome.safe)


def _and(left: TruthValues, right: TruthValues) -> TruthValues:
    """AND. It is NULL if one side is NULL and the other is not false."""
    null = (left.null & (right.null | right.true)) | (right.null & (left.null | left.true))
    return TruthValues(left.true & right.true, left.false | right.false, null, left.safe & right.safe)


def _compare(op: CompareOp, left: Bounds, right: Bounds) -> TruthValues:
    both, null, safe = left.values & right.values, left.nulls | right.nulls, left.safe & right.safe
    if not left.dtype.equals(right.dtype):
        return TruthValues(both, both, null, safe)
    match op:
        case CompareOp.GT:
            return _compare(CompareOp.LT, right, left)
        case CompareOp.GE:
            return _compare(CompareOp.LE, right, left)
        case CompareOp.LT:
            true = both & ~right.high.less_equal(left.low)
            false = both & ~left.high.less(right.low)
            return TruthValues(true, false, null, safe)
        case CompareOp.LE:
            true = both & ~right.high.less(left.low)
            false = both & ~left.high.less_equal(right.low)
            return TruthValues(true, false, null, safe)
        case CompareOp.EQ:
            return TruthValues(both & ~_apart(left, right), both & ~_same_value(left, right), null, safe)
        case CompareOp.NULL_SAFE_EQ:
            true = (both & ~_apart(left, right)) | (left.nulls & right.nulls)
            one_null = (left.nulls & right.values) | (right.nulls & left.values)
            return TruthValues(true, (both & ~_same_value(left, right)) | one_null, _none(left), safe)


def _apart(left: Bounds, right: Bounds) -> Bools:
    apart: Bools = right.high.less(left.low) | left.high.less(right.low)
    return apart


def _same_value(left: Bounds, right: Bounds) -> Bools:
    same: Bools = left.low.equal(left.high) & right.low.equal(right.high) & left.low.equal(right.low)
    return same


def _in(expr: In, child: Bounds) -> TruthValues:
    ranks = ranks_of_values(expr.values, child.dtype)
    listed: list[Any] = sorted({rank for rank in ranks if rank is not None})
    has_null = None in ranks
    first = child.low.places_in(listed, before_equal=True, unknown=0)
    behind = child.high.places_in(listed, before_equal=False, unknown=len(listed))
    pinned = child.low.equal(child.high) & (behind > first)
    misses = child.values & ~pinned
    null = child.nulls | misses if has_null else child.nulls
    false = _none(child) if has_null else misses
    return TruthValues(child.values & (behind > first), false, null, child.safe)


def _as_bytes(needle: Any) -> bytes:
    return needle.encode() if isinstance(needle, str) else bytes(needle)


def like_prefix(pattern: str, escape: str) -> tuple[str, bool]:
    """The constant start of a LIKE pattern, and whether the pattern is that start followed by % alone."""
    prefix = []
    index = 0
    while index < len(pattern):
        character = pattern[index]
        if character == escape and index + 1 < len(pattern):
            prefix.append(pattern[index + 1])
            index += 2
            continue
        if character in "%_":
            return "".join(prefix), pattern[index:] == "%"
        prefix.append(character)
        index += 1
    return "".join(prefix), False


def _starts_with(child: Bounds, prefix: bytes, exact: bool) -> TruthValues:
    """`exact`: starting with the prefix is sufficient; else it is only necessary."""
    after = successor(prefix)
    nowhere = _none(child)
    unreachable = child.high.below(prefix) | (nowhere if after is None else child.low.at_least(after))
    both_start = child.low.at_least(prefix) & (child.high.known if after is None else child.high.below(after))
    false = child.values & ~both_start if exact else child.values
    return TruthValues(child.values & ~unreachable, false, child.nulls, child.safe)
