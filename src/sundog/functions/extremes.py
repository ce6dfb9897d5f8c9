"""min, max and the bitwise aggregates over types that fit a machine word. (Strings and decimals: `picks.py`.)

Booleans count as 0 and 1, dates and instants as integers. Floats have Spark's order: NaN is the greatest, and of -0.0
and 0.0, which are equal, the first one seen stays. bool_and and bool_or are min and max, as in Catalyst.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.vectors import Bytes, Vector, storage
from sundog.expr.calls import AggregateCall
from sundog.functions.grouped import Accumulator, Groups, NullState, counted, grown, mask_of
from sundog.kernels.by_group import (
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    combine_bits_by_group,
    extreme_floats_by_group,
    extreme_ints_by_group,
)

_BIT_OPERATIONS = {"bit_and": BIT_AND, "bit_or": BIT_OR, "bit_xor": BIT_XOR}


class _OneValue(Accumulator):
    """A state that is one value of the argument's type: adding a row and adding a state are the same."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._dtype = call.args[0].dtype
        self._null_state = NullState()
        self._values: npt.NDArray[Any] = np.zeros(0, np.int64)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (self._dtype,)

    def _take_in(self, vector: Vector, valid: Bytes, groups: Groups) -> None:
        raise NotImplementedError

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        valid = counted(args, rows)
        self.groups = groups.count
        self._null_state.mark(valid, groups)
        self._take_in(args[0], mask_of(valid), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        return [args[0].where(rows)]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.update(states, None, groups)

    def state(self) -> list[Vector]:
        return [self.evaluate()]

    def evaluate(self) -> Vector:
        values = self._values[: self.groups].astype(storage(self._dtype)[0], copy=False)
        return Vector(self._dtype, self.groups, values, self._null_state.valid())


class Extreme(_OneValue):
    """min or max."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._largest = call.function == "max"
        self._float = bool(pa.types.is_floating(self._dtype))
        limits = np.iinfo(np.int64)
        self._start: Any = limits.min if self._largest else limits.max
        if self._float:
            self._start = -np.inf if self._largest else np.nan
            self._values = np.zeros(0, np.float64)

    def _take_in(self, vector: Vector, valid: Bytes, groups: Groups) -> None:
        self._values = grown(self._values, groups.count, self._start)
        if self._float:
            extreme_floats_by_group(groups.ids, vector.values, valid, self._largest, self._values)
        else:
            extreme_ints_by_group(groups.ids, vector.values, valid, self._largest, self._values)


class Bits(_OneValue):
    """bit_and, bit_or, bit_xor."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._operation = _BIT_OPERATIONS[call.function]

    def _take_in(self, vector: Vector, valid: Bytes, groups: Groups) -> None:
        self._values = grown(self._values, groups.count, -1 if self._operation == BIT_AND else 0)
        combine_bits_by_group(groups.ids, vector.values, valid, self._operation, self._values)
