"""Means, second moments and co-moments by group, merged so that nothing cancels (`kernels/moments.py`).

Adding rows is the same as merging partial results, and one loop serves both. Against Spark, whose merge order is its
own, results agree to about 1e-12.
"""

from __future__ import annotations

from typing import Any

from sundog.kernels.compile import kernel
from sundog.kernels.moments import merged_comoments, merged_moments


@kernel
def merge_moments_by_group(
    ids: Any, valid: Any, count: Any, mean: Any, m2: Any, counts: Any, means: Any, m2s: Any
) -> None:
    """Merge the sets (count, mean, m2) of the rows into those of their groups. Empty sets change nothing."""
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            group = ids[row]
            counts[group], means[group], m2s[group] = merged_moments(
                counts[group], means[group], m2s[group], count[row], mean[row], m2[row]
            )


@kernel(inline=True)
def _merge_into(states: Any, group: int, added: Any) -> None:
    held = (states[group, 0], states[group, 1], states[group, 2], states[group, 3], states[group, 4], states[group, 5])
    merged = merged_comoments(held, added)
    for at in range(6):
        states[group, at] = merged[at]


@kernel
def merge_comoments_by_group(ids: Any, valid: Any, sets: Any, states: Any) -> None:
    """Merge sets of pairs. Columns of both arrays: count, mean of x, mean of y, co-moment, moment of x, moment of y."""
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            added = (sets[row, 0], sets[row, 1], sets[row, 2], sets[row, 3], sets[row, 4], sets[row, 5])
            _merge_into(states, ids[row], added)


@kernel
def add_comoments_by_group(ids: Any, valid: Any, x: Any, y: Any, states: Any) -> None:
    """The same for rows, which are sets of one: no array of sets need be made of them."""
    for row in range(ids.size):
        if valid.size == 0 or valid[row] != 0:
            own_x, own_y = x[row] - x[row], y[row] - y[row]  # NaN for an infinity
            _merge_into(states, ids[row], (1.0, x[row], y[row], own_x + own_y, own_x, own_y))
