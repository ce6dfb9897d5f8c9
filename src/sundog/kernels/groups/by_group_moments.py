"""Means, second moments and co-moments by group, merged so that nothing cancels.

A row is a set of one: count 1, mean x, moments 0. Adding rows is then the same as merging partial results, and one
loop serves both. The formulas are those of Chan, Golub and LeVeque, in the form that Spark uses: the mean moves by its
share of the difference and the moment grows by the product of the differences, so that the variance of
{7000000000005, 7000000000007} is exactly 1. Against Spark, whose merge order is its own, results agree to about 1e-12.
"""

from __future__ import annotations

from typing import Any

from sundog.kernels.compile import kernel


@kernel
def merge_moments_by_group(
    ids: Any, valid: Any, count: Any, mean: Any, m2: Any, counts: Any, means: Any, m2s: Any
) -> None:
    """Merge the sets (count, mean, m2) of the rows into those of their groups. Empty sets change nothing."""
    for row in range(ids.size):
        added = count[row] if valid.size == 0 or valid[row] != 0 else 0.0
        if added == 0.0:
            continue
        group = ids[row]
        held = counts[group]
        total = held + added
        counts[group] = total
        if held == 0.0:
            means[group] = mean[row]
            m2s[group] = m2[row]
        else:
            delta = mean[row] - means[group]
            share = delta / total
            means[group] += share * added
            m2s[group] += m2[row] + delta * share * held * added


@kernel
def merge_comoments_by_group(ids: Any, valid: Any, sets: Any, states: Any) -> None:
    """Merge sets of pairs. Columns of both arrays: count, mean of x, mean of y, co-moment, moment of x, moment of y."""
    for row in range(ids.size):
        added = sets[row, 0] if valid.size == 0 or valid[row] != 0 else 0.0
        if added == 0.0:
            continue
        group = ids[row]
        held = states[group, 0]
        total = held + added
        states[group, 0] = total
        if held == 0.0:
            for at in range(1, 6):
                states[group, at] = sets[row, at]
        else:
            delta_x, delta_y = sets[row, 1] - states[group, 1], sets[row, 2] - states[group, 2]
            share_x, share_y = delta_x / total, delta_y / total
            states[group, 1] += share_x * added
            states[group, 2] += share_y * added
            states[group, 3] += sets[row, 3] + delta_x * share_y * held * added
            states[group, 4] += sets[row, 4] + delta_x * share_x * held * added
            states[group, 5] += sets[row, 5] + delta_y * share_y * held * added


@kernel
def add_comoments_by_group(ids: Any, valid: Any, x: Any, y: Any, states: Any) -> None:
    """The same for rows, which are sets of one: no array of sets need be made of them."""
    for row in range(ids.size):
        if valid.size != 0 and valid[row] == 0:
            continue
        group = ids[row]
        held = states[group, 0]
        total = held + 1.0
        states[group, 0] = total
        own_x, own_y = x[row] - x[row], y[row] - y[row]  # NaN for an infinity
        if held == 0.0:
            states[group, 1] = x[row]
            states[group, 2] = y[row]
            states[group, 3] = own_x + own_y
            states[group, 4] = own_x
            states[group, 5] = own_y
        else:
            delta_x, delta_y = x[row] - states[group, 1], y[row] - states[group, 2]
            share_x, share_y = delta_x / total, delta_y / total
            states[group, 1] += share_x
            states[group, 2] += share_y
            states[group, 3] += own_x + own_y + delta_x * share_y * held
            states[group, 4] += own_x + delta_x * share_x * held
            states[group, 5] += own_y + delta_y * share_y * held
