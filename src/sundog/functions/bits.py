"""bit_and, bit_or and bit_xor of integers. NULLs are ignored; a group or frame with nothing but NULLs is NULL."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from sundog.columns.vectors import Bytes, Vector
from sundog.expr.buffers import array_from, values_of
from sundog.expr.calls import AggregateCall, WindowCall
from sundog.functions.declaration import Function, same_integer
from sundog.functions.framed import (
    Elements,
    Inputs,
    MergeableFunction,
    Positions,
    as_counts,
    frame_counts,
    frames_that_count,
)
from sundog.functions.grouped import COUNT, Groups, OneValue, grown
from sundog.kernels.bits import BIT_AND, BIT_OR, BIT_XOR
from sundog.kernels.groups.by_group import combine_bits_by_group
from sundog.kernels.windows.sliding import sliding_bits


def _neutral(operation: int) -> int:
    """The value that changes no other: for groups without rows, empty frames, and in place of NULL."""
    return -1 if operation == BIT_AND else 0


class GroupedBits(OneValue):
    def __init__(self, call: AggregateCall, *, operation: int) -> None:
        super().__init__(call)
        self._operation = operation

    def _take_in(self, vector: Vector, valid: Bytes, groups: Groups) -> None:
        self._values = grown(self._values, groups.count, _neutral(self._operation))
        combine_bits_by_group(groups.ids, vector.values, valid, self._operation, self._values)


class FramedBits(MergeableFunction):
    """Elements: the values, neutral if ignored, and the number of rows that each stands for."""

    def __init__(self, call: WindowCall, *, operation: int) -> None:
        super().__init__(call)
        self._operation = operation

    def elements(self, inputs: Inputs) -> Elements:
        values, valid = values_of(inputs.args[0]), inputs.contributing()
        if valid is not None:
            values = np.where(valid, values, values.dtype.type(_neutral(self._operation)))
        return Elements(inputs.count, (values, as_counts(valid)))

    def state_types(self) -> list[pa.DataType]:
        return [self.call.args[0].dtype, COUNT]

    def partials(self, elements: Elements, starts: Positions, stops: Positions) -> Elements:
        values, counts = elements.arrays
        result = np.full(len(starts), _neutral(self._operation), values.dtype)
        sliding_bits(values, self._operation, starts, stops, result)
        return Elements(len(starts), (result, frame_counts(counts, starts, stops)))

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        values, _ = self.partials(elements, starts, stops).arrays
        return array_from(values, frames_that_count(elements.arrays[1], starts, stops), self.call.dtype)


def _bits(name: str, *, catalyst: str, operation: int, ignores_duplicates: bool) -> Function:
    return Function(
        name=name,
        catalyst=catalyst,
        result=same_integer,
        grouped=partial(GroupedBits, operation=operation),
        framed=partial(FramedBits, operation=operation),
        ignores_duplicates=ignores_duplicates,
    )


FUNCTIONS = (
    _bits("bit_and", catalyst="BitAndAgg", operation=BIT_AND, ignores_duplicates=True),
    _bits("bit_or", catalyst="BitOrAgg", operation=BIT_OR, ignores_duplicates=True),
    _bits("bit_xor", catalyst="BitXorAgg", operation=BIT_XOR, ignores_duplicates=False),
)
