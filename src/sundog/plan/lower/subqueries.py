"""Scalar subqueries: each is a step of its own, and its single value is a constant in the plan that reads it.

    SELECT … WHERE d_month_seq = (SELECT DISTINCT d_month_seq FROM date_dim WHERE …)

The rest is planned when the values are known, so that `d_month_seq = 1200` prunes row groups and helps to choose the
place like any other constant. Explain does not run subqueries: their values stay placeholders, which prune nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sundog.plan.logical import LogicalPlan, subqueries_in
from sundog.plan.subqueries import with_values
from sundog.support import Code, Declined

if TYPE_CHECKING:
    from sundog.plan.lower.planner import Planner, Rows, Steps


def compute_subqueries(planner: Planner, subqueries: Mapping[int, LogicalPlan]) -> Steps[LogicalPlan]:
    """The planner's tree with the values of its subqueries, each computed once; unchanged if explain runs nothing."""
    values: dict[int, tuple[Any, ...] | None] = {}
    for number in subqueries_in(planner.tree):
        pipeline = yield from planner.inside(subqueries[number]).lower_all()
        rows = yield from planner.subquery(pipeline, number)
        if rows is not None:
            values[number] = _only_row(rows)
    return with_values(planner.tree, values)


def _only_row(rows: Rows) -> tuple[Any, ...] | None:
    found = [batch for batch in rows if batch.num_rows]
    if sum(batch.num_rows for batch in found) > 1:
        raise Declined.because(
            Code.EXECUTION, "a scalar subquery gives more than one row, which is an error of Spark's"
        )
    return tuple(_value(column[0]) for column in found[0].columns) if found else None


def _value(scalar: pa.Scalar) -> Any:
    """The value as `Literal` has it: dates, times and intervals as integers."""
    try:
        return scalar.value if pa.types.is_temporal(scalar.type) and scalar.is_valid else scalar.as_py()
    except UnicodeDecodeError as problem:  # Spark compares the bytes, valid UTF-8 or not
        sentence = "a scalar subquery gives a string that is not valid UTF-8"
        raise Declined.because(Code.EXECUTION, sentence) from problem
