"""Sums of doubles over a whole range: of all its rows, and of those up to each row.

With the rounding errors kept, the order of additions does not decide the sum of all rows. Added in 512 lanes, 500,000
values take 0.13 ns each, in one 1.1, in four 0.9. A running sum must be added in the order of its rows, as Spark does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sundog.kernels.compile import kernel

Doubles = npt.NDArray[np.float64]
LANES = 512  # of one sum: two arrays of them stay in the first cache level


@kernel
def running_sums(values: Doubles, total: float, result: Doubles) -> None:
    """result[i]: total and the values up to i, added in this order."""
    for row in range(len(values)):
        total += values[row]
        result[row] = total


@kernel(inline=True)
def _two_sum(total: float, value: float) -> tuple[float, float]:
    """The sum, and what rounding took from it: exact, unless something is not finite."""
    added = total + value
    part = added - total
    return added, (total - (added - part)) + (value - part)


@kernel
def compensated_sum(values: Doubles) -> tuple[float, float]:
    """The sum of all values and its rounding error. The error is NaN if a value or the sum is not finite.

    Each LANES-th value is in one sum, and the sums are added at the end: one instruction then adds several values.
    """
    total, error = 0.0, 0.0
    whole = len(values) - len(values) % LANES
    if whole:
        totals, errors = np.zeros(LANES), np.zeros(LANES)
        for first in range(0, whole, LANES):
            _add_lanes(values[first : first + LANES], totals, errors)
        for lane in range(LANES):
            total, lost = _two_sum(total, totals[lane])
            error += lost + errors[lane]
    for row in range(whole, len(values)):
        total, lost = _two_sum(total, values[row])
        error += lost
    return total, error


@kernel(inline=True)
def _add_lanes(values: Doubles, totals: Doubles, errors: Doubles) -> None:
    for lane in range(LANES):
        total, value = totals[lane], values[lane]
        added = total + value
        part = added - total
        totals[lane] = added
        errors[lane] += (total - (added - part)) + (value - part)
