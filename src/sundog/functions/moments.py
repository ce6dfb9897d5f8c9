"""Variances, covariances, correlation and regression: states that merge without cancellation.

Every state is the summary of a set of rows (count, means, moments); a row is a set of one. Sets are merged in one way
(`kernels/moments.py`), never by sums of squares: var_pop of {7000000000005, 7000000000007} is 1.0 exactly. As in Spark,
an empty set gives NULL, the sample functions give NULL for one row, corr gives NULL if a variable does not vary, and a
NaN or an infinity anywhere gives NaN. (For a covariance by group with infinities Spark gives NaN or an infinity,
depending on the order of rows and their partitions. Over frames sundog equals Spark, since it adds up such frames in
order.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.vectors import NO_MASK, Bytes, Vector
from sundog.expr.buffers import Bools, array_from, values_of
from sundog.expr.calls import AggregateCall, WindowCall
from sundog.functions.declaration import Function, double_of_double
from sundog.functions.framed import Elements, Hazard, Inputs, MergeableFunction, Positions, frame_counts
from sundog.functions.grouped import Accumulator, Groups, as_floats, counted, grown, mask_of
from sundog.kernels.groups.by_group_moments import (
    add_comoments_by_group,
    merge_comoments_by_group,
    merge_moments_by_group,
)
from sundog.kernels.windows.moments import ordered_comoments, ordered_moments, sliding_comoments, sliding_moments
from sundog.kernels.windows.sliding import ordered_cost
from sundog.support import Code, Declined

Floats = npt.NDArray[np.float64]
OfSets = Callable[[Floats], tuple[Floats, Bools]]
OfMoments = Callable[[Floats, Floats], tuple[Floats, Bools]]
"""The results of sets with these counts and sums of squared differences from the mean; and which results are not
NULL."""

_DOUBLE = pa.float64()
_PAIR_COLUMNS = 6  # of a set of pairs: count, both means, comoment, both moments
_COMOMENT = 3  # index of its column among these
_MAX_ORDERED_MERGES_PER_ROW = 4  # up to which frames are merged in order: not a cost, as it decides the last bits


@dataclass(frozen=True)
class Variance:
    """A variance or standard deviation: of a sample, with one degree of freedom less, or of all values."""

    sample: bool
    root: bool = False

    def __call__(self, count: Floats, m2: Floats) -> tuple[Floats, Bools]:
        missing = 1.0 if self.sample else 0.0
        with np.errstate(all="ignore"):
            variance = m2 / (count - missing)
            return np.sqrt(variance) if self.root else variance, count > missing


def _squares(count: Floats, m2: Floats) -> tuple[Floats, Bools]:
    return m2, count > 0


def _moment_of_one(values: Floats) -> Floats:
    """The moment of a set of one: zero; NaN for an infinity, for which x - mean is NaN."""
    with np.errstate(invalid="ignore"):
        return values - values


def _ones(valid: Bytes | None, length: int) -> Floats:
    return np.ones(length) if valid is None else valid.astype(np.float64)


def _result(values: Floats, valid: Bools) -> Vector:
    return Vector(_DOUBLE, len(values), np.ascontiguousarray(values), None if valid.all() else valid.view(np.uint8))


class GroupedVariance(Accumulator):
    """A state is (count, mean, sum of squared differences from the mean), all doubles as in Spark."""

    def __init__(self, call: AggregateCall, of_moments: OfMoments) -> None:
        super().__init__(call)
        self._of_moments = of_moments
        self._states = [np.zeros(0), np.zeros(0), np.zeros(0)]

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (_DOUBLE, _DOUBLE, _DOUBLE)

    def _merge(self, sets: Sequence[Floats], valid: Bytes, groups: Groups) -> None:
        self.groups = groups.count
        self._states = [grown(state, groups.count, 0.0) for state in self._states]
        merge_moments_by_group(groups.ids, valid, *sets, *self._states)

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        values = as_floats(args[0])
        self._merge([np.ones(len(values)), values, _moment_of_one(values)], mask_of(counted(args, rows)), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        values = as_floats(args[0])
        sets = [_ones(counted(args, rows), length), values, _moment_of_one(values)]
        return [Vector(_DOUBLE, length, values) for values in sets]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self._merge([as_floats(state) for state in states], NO_MASK, groups)

    def state(self) -> list[Vector]:
        return [Vector(_DOUBLE, self.groups, state[: self.groups]) for state in self._states]

    def evaluate(self) -> Vector:
        count, _, m2 = (state[: self.groups] for state in self._states)
        return _result(*self._of_moments(count, m2))


class FramedVariance(MergeableFunction):
    """The same over frames. Elements: count, mean, sum of squared differences from the mean."""

    def __init__(self, call: WindowCall, of_moments: OfMoments) -> None:
        super().__init__(call)
        self._of_moments = of_moments

    def elements(self, inputs: Inputs) -> Elements:
        values = values_of(inputs.args[0]).astype(np.float64)
        valid = inputs.contributing()
        counts = np.ones(inputs.count) if valid is None else valid.astype(np.float64)
        means = values if valid is None else np.where(valid, values, 0.0)
        return Elements(inputs.count, (counts, means, np.zeros(inputs.count)))

    def state_types(self) -> list[pa.DataType]:
        return [_DOUBLE] * 3

    def partials(self, elements: Elements, starts: Positions, stops: Positions) -> Elements:
        counts, means, squares = elements.arrays
        strange = ~np.isfinite(means) | np.isnan(squares)
        is_strange = bool(strange.any())
        if is_strange:
            means, squares = np.where(strange, 0.0, means), np.where(strange, 0.0, squares)
        n, mean, m2 = np.empty(len(starts)), np.empty(len(starts)), np.empty(len(starts))
        if self.call.in_order or ordered_cost(starts, stops) <= _MAX_ORDERED_MERGES_PER_ROW * len(starts):
            ordered_moments(counts, means, squares, starts, stops, (0.0, 0.0, 0.0), n, mean, m2)
        else:
            sliding_moments(counts, means, squares, starts, stops, n, mean, m2)
        if is_strange:
            m2[frame_counts(strange.astype(np.int64), starts, stops) > 0] = np.nan
        return Elements(len(starts), (n, mean, m2))

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        counts, _, squares = self.partials(elements, starts, stops).arrays
        return array_from(*self._of_moments(counts, squares), _DOUBLE)


class GroupedPair(Accumulator):
    """A function of pairs. A state has the first `carried` of the six columns of a set (`Comoments` in
    `kernels/moments.py`)."""

    def __init__(self, call: AggregateCall, of_sets: OfSets, *, carried: int) -> None:
        super().__init__(call)
        self._of_sets = of_sets
        self._states = np.zeros((0, _PAIR_COLUMNS))
        self._carried = carried

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (_DOUBLE,) * self._carried

    def _merge(self, sets: Floats, groups: Groups) -> None:
        self.groups = groups.count
        self._states = grown(self._states, groups.count, 0.0)
        merge_comoments_by_group(groups.ids, NO_MASK, sets, self._states)

    def _sets(self, columns: Sequence[Floats], length: int) -> Floats:
        sets = np.zeros((length, _PAIR_COLUMNS))
        for at, column in enumerate(columns):
            sets[:, at] = column
        return sets

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        self._states = grown(self._states, groups.count, 0.0)
        x, y = as_floats(args[0]), as_floats(args[1])
        add_comoments_by_group(groups.ids, mask_of(counted(args, rows)), x, y, self._states)

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self._merge(self._sets([as_floats(state) for state in states], states[0].length), groups)

    def state(self) -> list[Vector]:
        columns = (np.ascontiguousarray(self._states[: self.groups, at]) for at in range(self._carried))
        return [Vector(_DOUBLE, self.groups, column) for column in columns]

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        alone = GroupedPair(self.call, self._of_sets, carried=self._carried)
        alone.update(args, rows, Groups(np.arange(length, dtype=np.int32), length))
        return alone.state()

    def evaluate(self) -> Vector:
        with np.errstate(all="ignore"):
            return _result(*self._of_sets(self._states[: self.groups].T))


class FramedPair(MergeableFunction):
    """The same over frames. Elements: the six columns of a set.

    A NaN or an infinity in one variable does not change the moment of the other. A covariance with an infinite x
    (`of_infinities`) depends on its position in the frame: such frames are merged in order, and not cut.
    """

    def __init__(
        self, call: WindowCall, of_sets: OfSets, *, of_regression: bool = False, of_infinities: bool = False
    ) -> None:
        super().__init__(call)
        self._of_sets = of_sets
        self._of_regression = of_regression
        self._of_infinities = of_infinities

    def elements(self, inputs: Inputs) -> Elements:
        valid = inputs.contributing()
        counts = np.ones(inputs.count) if valid is None else valid.astype(np.float64)
        pair = [values_of(arg).astype(np.float64) for arg in inputs.args]
        means = pair if valid is None else [np.where(valid, values, 0.0) for values in pair]
        return Elements(inputs.count, (counts, *means, *(np.zeros(inputs.count) for _ in range(3))))

    def state_types(self) -> list[pa.DataType]:
        return [_DOUBLE] * _PAIR_COLUMNS

    def hazard(self, elements: Elements) -> Hazard:
        infinite = self._of_infinities and bool(np.isinf(elements.arrays[1]).any())
        return Hazard(magnitude=math.inf) if infinite else Hazard()

    def is_harmless(self, hazard: Hazard) -> bool:
        return not math.isinf(hazard.magnitude)

    def partials(self, elements: Elements, starts: Positions, stops: Positions) -> Elements:
        merged = self._merged(elements, starts, stops)
        return Elements(len(starts), tuple(np.ascontiguousarray(column) for column in merged))

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        with np.errstate(all="ignore"):
            return array_from(*self._of_sets(self._merged(elements, starts, stops)), _DOUBLE)

    def _merged(self, elements: Elements, starts: Positions, stops: Positions) -> Floats:
        """The merged set of each frame, a column of six rows."""
        sets, result = np.stack(elements.arrays, axis=1), np.empty((len(starts), _PAIR_COLUMNS))
        if self.call.in_order or ordered_cost(starts, stops) <= _MAX_ORDERED_MERGES_PER_ROW * len(starts):
            ordered_comoments(sets, self._of_regression, starts, stops, np.arange(len(starts)), result)
            return result.T
        finite, strange = sets.copy(), []
        for mean, moment in ((1, 4), (2, 5)):
            rows = ~np.isfinite(sets[:, mean]) | np.isnan(sets[:, moment])
            if rows.any():
                strange.append((rows, mean, moment))
                finite[rows, mean] = finite[rows, moment] = finite[rows, _COMOMENT] = 0.0
        sliding_comoments(finite, starts, stops, result)
        for rows, mean, moment in strange:
            hit = frame_counts(rows.astype(np.int64), starts, stops) > 0
            result[hit, mean] = result[hit, moment] = result[hit, _COMOMENT] = np.nan
        if self._of_infinities and (infinite := np.isinf(sets[:, 1])).any():
            walked = np.flatnonzero(frame_counts(infinite.astype(np.int64), starts, stops))
            ordered_comoments(sets, self._of_regression, starts, stops, walked, result)
        return result.T


def _covar_pop(sets: Floats) -> tuple[Floats, Bools]:
    count, comoment = sets[0], sets[3]
    return comoment / count, count > 0


def _covar_samp(sets: Floats) -> tuple[Floats, Bools]:
    count, comoment = sets[0], sets[3]
    return comoment / (count - 1), count > 1


def _corr(sets: Floats) -> tuple[Floats, Bools]:
    """Declines if the product of the variances is too small for a double: Spark then divides by zero, which may
    raise."""
    count, _, _, comoment, m2_x, m2_y = sets
    product, varies = m2_x * m2_y, (m2_x != 0) & (m2_y != 0)
    if bool((varies & (product == 0)).any()):
        raise Declined.because(Code.CAN_RAISE, "the product of two variances is less than any double")
    return comoment / np.sqrt(product), (count > 1) & varies


def _regr_slope(sets: Floats) -> tuple[Floats, Bools]:
    """The slope of y over x; NULL if x does not vary, or there is no pair."""
    comoment, m2_x = sets[3], sets[5]
    return comoment / m2_x, m2_x != 0


def _regr_intercept(sets: Floats) -> tuple[Floats, Bools]:
    slope, valid = _regr_slope(sets)
    return sets[1] - slope * sets[2], valid


def _regr_r2(sets: Floats) -> tuple[Floats, Bools]:
    """The share of y's variance that x explains: 1 if y does not vary, NULL if x does not."""
    corr, _ = _corr(sets)
    return np.where(sets[4] == 0, 1.0, corr * corr), sets[5] != 0


def _regr_sxy(sets: Floats) -> tuple[Floats, Bools]:
    return sets[_COMOMENT], sets[0] > 0


def _always(dtype: pa.DataType) -> bool:
    return True


def _of_one(name: str, catalyst: str, of_moments: OfMoments) -> Function:
    return Function(
        name=name,
        catalyst=catalyst,
        result=double_of_double,
        grouped=partial(GroupedVariance, of_moments=of_moments),
        framed=partial(FramedVariance, of_moments=of_moments),
        adds_doubles=_always,
    )


def _of_pairs(
    name: str,
    catalyst: str,
    of_sets: OfSets,
    *,
    carried: int = 4,
    of_regression: bool = False,
    divides_unguarded: bool = False,
) -> Function:
    return Function(
        name=name,
        catalyst=catalyst,
        arguments=2,
        result=double_of_double,
        grouped=partial(GroupedPair, of_sets=of_sets, carried=carried),
        framed=partial(FramedPair, of_sets=of_sets, of_regression=of_regression, of_infinities=carried == 4),
        adds_doubles=_always,
        divides_unguarded=divides_unguarded,
    )


FUNCTIONS = (
    _of_one("var_pop", "VariancePop", Variance(sample=False)),
    _of_one("var_samp", "VarianceSamp", Variance(sample=True)),
    _of_one("stddev_pop", "StddevPop", Variance(sample=False, root=True)),
    _of_one("stddev_samp", "StddevSamp", Variance(sample=True, root=True)),
    _of_one("regr_sxx", "RegrReplacement", _squares),  # also regr_syy: Catalyst's plan says of which variable
    _of_pairs("covar_pop", "CovPopulation", _covar_pop),
    _of_pairs("covar_samp", "CovSample", _covar_samp),
    _of_pairs("corr", "Corr", _corr, carried=6, divides_unguarded=True),
    _of_pairs("regr_slope", "RegrSlope", _regr_slope, carried=6, of_regression=True),
    _of_pairs("regr_intercept", "RegrIntercept", _regr_intercept, carried=6, of_regression=True),
    _of_pairs("regr_r2", "RegrR2", _regr_r2, carried=6),
    _of_pairs("regr_sxy", "RegrSXY", _regr_sxy),
)
