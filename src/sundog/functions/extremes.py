"""min and max. (bool_and and bool_or are min and max to Catalyst.)

Spark's order: NaN above everything, strings by bytes; of -0.0 and 0.0, which are equal, the first one stays. NULLs are
ignored: a group or frame with nothing but NULLs is NULL. Booleans count as 0 and 1, dates and instants as integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.columns.vectors import Bytes, Vector
from sundog.expr.buffers import Bools, array_from, decimal_array, decimal_words, is_narrow, values_of
from sundog.expr.calls import AggregateCall, WindowCall
from sundog.functions.declaration import Function, Order, same
from sundog.functions.framed import (
    Elements,
    Inputs,
    MergeableFunction,
    Positions,
    as_counts,
    frames_that_count,
)
from sundog.functions.grouped import Accumulator, Groups, OneValue, counted, grown
from sundog.functions.winning_rows import Rows, WinningRow, extreme_rows, ranked
from sundog.kernels.groups.by_group import extreme_floats_by_group, extreme_ints_by_group
from sundog.kernels.windows.sliding import sliding_max, sliding_min
from sundog.types import is_text


def _loser(dtype: np.dtype[Any], largest: bool) -> Any:
    """The value that never wins: the start of a group, and the stand-in for NULL in a frame."""
    if dtype.kind == "f":
        return -math.inf if largest else math.nan
    limits = np.iinfo(dtype)
    return int(limits.min if largest else limits.max)


class GroupedExtreme(OneValue):
    """The min or max of a type that fits a word."""

    def __init__(self, call: AggregateCall, *, largest: bool) -> None:
        super().__init__(call)
        self._largest = largest
        self._float = bool(pa.types.is_floating(self._dtype))
        self._values = np.zeros(0, np.float64 if self._float else np.int64)
        self._start = _loser(self._values.dtype, largest)

    def _take_in(self, vector: Vector, valid: Bytes, groups: Groups) -> None:
        self._values = grown(self._values, groups.count, self._start)
        if self._float:
            extreme_floats_by_group(groups.ids, vector.values, valid, self._largest, self._values)
        else:
            extreme_ints_by_group(groups.ids, vector.values, valid, self._largest, self._values)


class GroupedWideExtreme(WinningRow):
    """The min or max of strings, binaries or decimals. A state is the value."""

    def __init__(self, call: AggregateCall, *, largest: bool) -> None:
        super().__init__(call)
        self._largest = largest

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (self.call.args[0].dtype,)

    def _win(self, columns: Sequence[Vector], valid: Bytes | None, groups: Groups) -> Rows:
        return extreme_rows(columns[0], valid, self._largest, groups)

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self._compete(args[:1], counted(args, rows), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        return [args[0].where(rows)]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.update(states, None, groups)

    def state(self) -> list[Vector]:
        return [self.evaluate()]


class FramedExtreme(MergeableFunction):
    """Elements: the values themselves, NULL if ignored."""

    def __init__(self, call: WindowCall, *, largest: bool) -> None:
        super().__init__(call)
        self._largest = largest

    def elements(self, inputs: Inputs) -> Elements:
        values = inputs.args[0]
        if inputs.kept is not None:
            values = pc.if_else(pa.array(inputs.kept), values, pa.scalar(None, values.type))
        return Elements(inputs.count, (values,))

    def state_types(self) -> list[pa.DataType]:
        return [self.call.args[0].dtype]

    def partials(self, elements: Elements, starts: Positions, stops: Positions) -> Elements:
        return Elements(len(starts), (self.evaluate(elements, starts, stops),))

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        values = elements.arrays[0]
        if pa.types.is_null(values.type):
            return pa.nulls(len(starts), values.type)
        valid = pc.is_valid(values).to_numpy(zero_copy_only=False) if values.null_count else None
        found = frames_that_count(as_counts(valid), starts, stops)
        if pa.types.is_floating(values.type):
            best = self._slide(values_of(values), valid, starts, stops)
            return array_from(best, found, values.type)
        if not is_narrow(values.type):
            ranks, ordered = ranked(values)
            best = self._slide(ranks, valid, starts, stops)
            return ordered.take(pa.array(np.where(found, best, 0), mask=~found))
        words = _plain_words(values)
        best = self._slide(words, valid, starts, stops)
        if pa.types.is_decimal(values.type):
            return decimal_array(best.view(np.uint64), best >> np.int64(63), found, values.type)
        return array_from(best.view(np.bool_) if pa.types.is_boolean(values.type) else best, found, values.type)

    def _slide(
        self, values: npt.NDArray[Any], valid: Bools | None, starts: Positions, stops: Positions
    ) -> npt.NDArray[Any]:
        if valid is not None:
            values = np.where(valid, values, values.dtype.type(_loser(values.dtype, self._largest)))
        best = np.zeros(len(starts), values.dtype)
        (sliding_max if self._largest else sliding_min)(values, starts, stops, best)
        return best


def _plain_words(values: pa.Array) -> npt.NDArray[Any]:
    """Stored integers in their own width: narrower ones slide faster."""
    if pa.types.is_decimal(values.type):
        return np.ascontiguousarray(decimal_words(values)[0]).view(np.int64)
    words = values_of(values)
    return words.view(np.int8) if pa.types.is_boolean(values.type) else words


def _grouped_extreme(call: AggregateCall, *, largest: bool) -> Accumulator:
    dtype = call.args[0].dtype
    wide = is_text(dtype) or pa.types.is_decimal(dtype)
    return GroupedWideExtreme(call, largest=largest) if wide else GroupedExtreme(call, largest=largest)


def _extreme(name: str, *, catalyst: str, largest: bool) -> Function:
    return Function(
        name=name,
        catalyst=catalyst,
        result=same,
        grouped=partial(_grouped_extreme, largest=largest),
        framed=partial(FramedExtreme, largest=largest),
        order=Order.DECIDES_ZEROS,
        ignores_duplicates=True,
        reads_argument_once=True,
    )


FUNCTIONS = (_extreme("min", catalyst="Min", largest=False), _extreme("max", catalyst="Max", largest=True))
