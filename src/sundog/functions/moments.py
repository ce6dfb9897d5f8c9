"""var_pop, var_samp, stddev_pop, stddev_samp, covar_pop, covar_samp and corr: sets merged without cancellation.

Every state is the summary of a set (count, means, moments), a row is a set of one, and there is one way to put sets
together (`kernels/by_group_moments.py`). As in Spark, an empty set gives NULL, the sample functions give NULL for one
row, corr gives NULL where a variable does not vary, and a NaN or an infinity anywhere gives NaN. (Of a covariance with
infinities Spark gives NaN or an infinity, depending on the order of rows and its partitioning.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.vectors import NO_MASK, Bytes, Vector
from sundog.expr.calls import AggregateCall
from sundog.functions.grouped import Accumulator, Groups, as_floats, counted, grown, mask_of
from sundog.kernels.by_group_moments import add_comoments_by_group, merge_comoments_by_group, merge_moments_by_group

Floats = npt.NDArray[np.float64]
_DOUBLE = pa.float64()


def _spread(values: Floats) -> Floats:
    """The moment of a set of one: zero, but NaN for an infinity, as x - mean is then."""
    with np.errstate(invalid="ignore"):
        return values - values


def _ones(valid: Bytes | None, length: int) -> Floats:
    return np.ones(length) if valid is None else valid.astype(np.float64)


def _result(values: Floats, valid: npt.NDArray[np.bool_]) -> Vector:
    return Vector(_DOUBLE, len(values), values, None if valid.all() else valid.view(np.uint8))


class Variance(Accumulator):
    """A state is (count, mean, sum of squared differences from the mean), all doubles as in Spark."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
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
        self._merge([np.ones(len(values)), values, _spread(values)], mask_of(counted(args, rows)), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        values = as_floats(args[0])
        sets = [_ones(counted(args, rows), length), values, _spread(values)]
        return [Vector(_DOUBLE, length, values) for values in sets]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self._merge([as_floats(state) for state in states], NO_MASK, groups)

    def state(self) -> list[Vector]:
        return [Vector(_DOUBLE, self.groups, state[: self.groups]) for state in self._states]

    def evaluate(self) -> Vector:
        count, _, m2 = (state[: self.groups] for state in self._states)
        missing = 1.0 if self.call.function.endswith("_samp") else 0.0
        with np.errstate(all="ignore"):
            variance = m2 / (count - missing)
            values = np.sqrt(variance) if self.call.function.startswith("stddev") else variance
        return _result(values, count > missing)


class Covariance(Accumulator):
    """covar_pop, covar_samp and corr. corr needs the moments of both variables besides their co-moment."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._states = np.zeros((0, 6))
        self._carried = 6 if call.function == "corr" else 4

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (_DOUBLE,) * self._carried

    def _merge(self, sets: Floats, groups: Groups) -> None:
        self.groups = groups.count
        self._states = grown(self._states, groups.count, 0.0)
        merge_comoments_by_group(groups.ids, NO_MASK, sets, self._states)

    def _sets(self, columns: Sequence[Floats], length: int) -> Floats:
        sets = np.zeros((length, 6))
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

    def evaluate(self) -> Vector:
        count, _, _, comoment, m2_x, m2_y = (self._states[: self.groups, at] for at in range(6))
        functions: dict[str, Callable[[], tuple[Floats, npt.NDArray[np.bool_]]]] = {
            "covar_pop": lambda: (comoment / count, count > 0),
            "covar_samp": lambda: (comoment / (count - 1), count > 1),
            "corr": lambda: (comoment / np.sqrt(m2_x * m2_y), (count > 1) & (m2_x != 0) & (m2_y != 0)),
        }
        with np.errstate(all="ignore"):
            return _result(*functions[self.call.function]())
