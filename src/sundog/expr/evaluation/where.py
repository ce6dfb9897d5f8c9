"""A WHERE tested in the order of Spark's generated code.

`WHERE 1 / x > 0 AND n > 10` is `isnotnull(n) AND (1 / x) > 0 AND n > 10` in Catalyst. FilterExec does not test that
from left to right. It tests the conjuncts other than IS NOT NULL one after the other, each preceded by the NULL checks
of the columns that it reads, and the remaining NULL checks last. A row that fails one is dropped; a conjunct that is
NULL fails. So 1 / x is also evaluated where n is NULL. Conjuncts that cannot raise may be tested in any order, and are
tested all at once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from sundog.expr.buffers import Bools
from sundog.expr.evaluate import evaluate_where, predicate_mask, true_rows
from sundog.expr.nodes import Column, Expr, IsNull, Not, columns_of, conjuncts
from sundog.expr.raising import can_raise
from sundog.tree import walk


def where_mask(predicate: Expr, batch: pa.RecordBatch) -> Bools:
    """The rows for which the predicate of a Filter is true."""
    if not can_raise(predicate):
        return predicate_mask(predicate, batch)
    kept = np.ones(batch.num_rows, np.bool_)
    for test in in_spark_order(predicate):
        kept = kept & true_rows(evaluate_where(test, batch, kept))
    return kept


def in_spark_order(predicate: Expr) -> list[Expr]:
    """The conjuncts in the order in which FilterExec tests them."""
    checks: list[Expr] = []
    others: list[Expr] = []
    for part in conjuncts(predicate):
        (checks if _checked(part) is not None else others).append(part)
    ordered: list[Expr] = []
    pending = list(checks)
    covered = {name for check in checks for name in columns_of(check)}
    for test in others:
        names = columns_of(test)
        direct = [check for check in pending if isinstance(child := _checked(check), Column) and child.name in names]
        pending = [check for check in pending if check not in direct]
        done = {name for check in direct for name in columns_of(check)}
        ordered += direct
        ordered += (_not_null(column) for column in _columns(test) if column.name in covered - done)
        covered -= names
        ordered.append(test)
    return ordered + pending


def _checked(part: Expr) -> Expr | None:
    """The expression that `part` checks for NULL, if it does nothing else."""
    return part.child.child if isinstance(part, Not) and isinstance(part.child, IsNull) else None


def _not_null(column: Column) -> Expr:
    return Not(IsNull(column))


def _columns(expr: Expr) -> Iterable[Column]:
    return dict.fromkeys(node for node in walk(expr) if isinstance(node, Column))
