"""Accumulate values by group number: one plain loop per kind of arithmetic, over arrays that the caller owns.

`ids[row]` is the row's group, and the state arrays have one slot a group. `valid` is one byte a row, or empty where all
rows count. Integers, dates and booleans of every width are widened to int64 in the loop, and floats (for averages also
integers) to float64; converting the column before would cost as much as the loop. Rows of one group are processed in
order, so a result that depends on order (a sum of doubles, the first of two equal values) is that of the rows in their
order.

A single group, as without GROUP BY, is added up in a register instead of in memory, in the same order: a double takes
0.5 ns a row instead of 2.8.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sundog.kernels.bits import combined_bits
from sundog.kernels.compile import kernel
from sundog.kernels.strings import less_view


@kernel
def mark_groups(ids: Any, valid: Any, seen: Any) -> None:
    """Mark the groups that have a row that counts."""
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            seen[ids[row]] = 1


@kernel
def count_by_group(ids: Any, valid: Any, counts: Any) -> None:
    if valid.size == 0 and counts.size == 1:
        counts[0] += ids.size
    elif valid.size == 0:
        for row in range(ids.size):
            counts[ids[row]] += 1
    else:
        for row in range(ids.size):
            counts[ids[row]] += valid[row]


@kernel
def add_counts_by_group(ids: Any, values: Any, valid: Any, counts: Any) -> None:
    """Add up counts, of which a NULL one stands for a single row."""
    if valid.size == 0:
        for row in range(ids.size):
            counts[ids[row]] += values[row]
    else:
        for row in range(ids.size):
            counts[ids[row]] += values[row] if valid[row] != 0 else 1


@kernel
def sum_ints_by_group(ids: Any, values: Any, valid: Any, sums: Any, overflowed: Any) -> bool:
    """Sums that wrap around; a group whose sum left the type at any row is marked in `overflowed`. Tells if any did."""
    any_overflow = False
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            group = ids[row]
            old, value = sums[group], np.int64(values[row])
            new = old + value
            sums[group] = new
            if ((old ^ new) & (value ^ new)) < 0:
                overflowed[group] = 1
                any_overflow = True
    return any_overflow


@kernel
def add_ints_by_group(ids: Any, values: Any, valid: Any, sums: Any) -> None:
    """The same where no sum can leave the type."""
    if valid.size == 0 and sums.size == 1:
        total = sums[0]
        for row in range(ids.size):
            total += values[row]
        sums[0] = total
    elif valid.size == 0:
        for row in range(ids.size):
            sums[ids[row]] += values[row]
    else:
        for row in range(ids.size):
            if valid[row] != 0:
                sums[ids[row]] += values[row]


@kernel
def sum_floats_by_group(ids: Any, values: Any, valid: Any, sums: Any) -> None:
    if valid.size == 0 and sums.size == 1:
        total = sums[0]
        for row in range(ids.size):
            total += np.float64(values[row])
        sums[0] = total
    elif valid.size == 0:
        for row in range(ids.size):
            sums[ids[row]] += np.float64(values[row])
    else:
        for row in range(ids.size):
            if valid[row] != 0:
                sums[ids[row]] += np.float64(values[row])


@kernel
def extreme_ints_by_group(ids: Any, values: Any, valid: Any, largest: bool, extremes: Any) -> None:
    """`extremes` starts as the type's other end."""
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            group, value = ids[row], np.int64(values[row])
            if (value > extremes[group]) if largest else (value < extremes[group]):
                extremes[group] = value


@kernel(inline=True)
def _above(left: Any, right: Any) -> bool:
    """Spark's order of floats: NaN is above all, the zeros are equal."""
    return bool(left > right or (math.isnan(left) and not math.isnan(right)))


@kernel
def extreme_floats_by_group(ids: Any, values: Any, valid: Any, largest: bool, extremes: Any) -> None:
    """`extremes` starts as minus infinity for the largest and NaN for the smallest. Of equal values the first stays."""
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            group, value = ids[row], np.float64(values[row])
            if _above(value, extremes[group]) if largest else _above(extremes[group], value):
                extremes[group] = value


@kernel
def combine_bits_by_group(ids: Any, values: Any, valid: Any, operation: int, bits: Any) -> None:
    """`bits` starts as all ones for AND, else as zero."""
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            group = ids[row]
            bits[group] = combined_bits(bits[group], np.int64(values[row]), operation)


@kernel
def first_row_by_group(ids: Any, valid: Any, rows: Any) -> None:
    """The first row of each group that counts; `rows` starts as -1."""
    for row in range(ids.size):
        if (valid.size == 0 or valid[row] != 0) and rows[ids[row]] < 0:
            rows[ids[row]] = row


@kernel
def last_row_by_group(ids: Any, valid: Any, rows: Any) -> None:
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            rows[ids[row]] = row


@kernel
def extreme_int_row_by_group(ids: Any, values: Any, valid: Any, largest: bool, rows: Any) -> None:
    """The row with the extreme value of each group, the last of equal ones; `rows` starts as -1."""
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            best = rows[ids[row]]
            if best < 0 or not ((values[row] < values[best]) if largest else (values[row] > values[best])):
                rows[ids[row]] = row


@kernel
def extreme_float_row_by_group(ids: Any, values: Any, valid: Any, largest: bool, rows: Any) -> None:
    """The same for floats."""
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            best = rows[ids[row]]
            if best < 0 or not (_above(values[best], values[row]) if largest else _above(values[row], values[best])):
                rows[ids[row]] = row


@kernel(inline=True)
def _less_wide(left: Any, right: Any) -> bool:
    """Compare two signed 128-bit integers, each as (low, high) words."""
    if left[1] != right[1]:
        return bool(left[1] < right[1])
    return bool(np.uint64(left[0]) < np.uint64(right[0]))


@kernel
def extreme_wide_row_by_group(ids: Any, values: Any, valid: Any, largest: bool, rows: Any) -> None:
    """The same for decimals."""
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            best = rows[ids[row]]
            if best < 0 or not (
                _less_wide(values[row], values[best]) if largest else _less_wide(values[best], values[row])
            ):
                rows[ids[row]] = row


@kernel
def extreme_string_row_by_group(ids: Any, views: Any, blocks: Any, valid: Any, largest: bool, rows: Any) -> None:
    """The same for strings."""
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            best = rows[ids[row]]
            if best >= 0 and (views[row, 0] != views[best, 0] or views[row, 1] != views[best, 1]):
                worse = less_view(views, row, best, blocks) if largest else less_view(views, best, row, blocks)
                if worse:
                    continue
            rows[ids[row]] = row
