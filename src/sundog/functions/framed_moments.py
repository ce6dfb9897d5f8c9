"""Variance and standard deviation over frames, by merging counts, means and squared deviations: never by sums of squares.

var_pop of {7000000000005, 7000000000007} is 1.0 exactly, where a difference of sums of squares has lost all digits. As
in Spark, NaN or an infinity anywhere in the frame makes the result NaN, and a sample statistic of one row is NULL.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sundog.expr.buffers import array_from, values_of
from sundog.functions.framed import (
    Elements,
    Inputs,
    MergeableFunction,
    Positions,
    frame_counts,
)
from sundog.kernels.sliding import ordered_cost, ordered_moments, sliding_moments

_CHEAP = 4  # merges per row up to which frames are walked in order, with Spark's own rounding


class Moments(MergeableFunction):
    """var_pop, var_samp, stddev_pop, stddev_samp of a double. Elements: count, mean, sum of squared deviations."""

    def elements(self, inputs: Inputs) -> Elements:
        values = values_of(inputs.args[0]).astype(np.float64)
        valid = inputs.contributing()
        counts = np.ones(inputs.count) if valid is None else valid.astype(np.float64)
        means = values if valid is None else np.where(valid, values, 0.0)
        return Elements(inputs.count, (counts, means, np.zeros(inputs.count)))

    def state_types(self) -> list[pa.DataType]:
        return [pa.float64()] * 3

    def partials(self, elements: Elements, starts: Positions, stops: Positions) -> Elements:
        counts, means, squares = elements.arrays
        strange = ~np.isfinite(means) | np.isnan(squares)
        is_strange = bool(strange.any())
        if is_strange:
            means, squares = np.where(strange, 0.0, means), np.where(strange, 0.0, squares)
        n, mean, m2 = np.empty(len(starts)), np.empty(len(starts)), np.empty(len(starts))
        if self.call.in_order or ordered_cost(starts, stops) <= _CHEAP * len(starts):
            ordered_moments(counts, means, squares, starts, stops, (0.0, 0.0, 0.0), n, mean, m2)
        else:
            sliding_moments(counts, means, squares, starts, stops, n, mean, m2)
        if is_strange:
            m2[frame_counts(strange.astype(np.int64), starts, stops) > 0] = np.nan
        return Elements(len(starts), (n, mean, m2))

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        counts, _, squares = self.partials(elements, starts, stops).arrays
        fewest = 1 if self.call.function.endswith("samp") else 0
        valid = counts > fewest
        result = squares / np.where(valid, counts - fewest, 1.0)
        if self.call.function.startswith("stddev"):
            result = np.sqrt(result)
        return array_from(result, valid, pa.float64())
