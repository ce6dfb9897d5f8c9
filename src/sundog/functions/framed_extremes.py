"""MIN and MAX over frames: numbers, dates, strings, booleans (bool_and and bool_or are MIN and MAX to Catalyst).

Spark's order: NaN above everything, strings by bytes; of -0.0 and 0.0 the one that comes first in the frame. NULLs do
not take part: they are given the value that never wins, and a frame of nothing else is NULL.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.expr.buffers import Bools, array_from, decimal_array, decimal_words, is_narrow, values_of
from sundog.functions.framed import (
    Elements,
    Inputs,
    Longs,
    MergeableFunction,
    Positions,
    as_counts,
    frames_that_count,
)
from sundog.kernels.sliding import sliding_max, sliding_min


class Extreme(MergeableFunction):
    """The elements are the values themselves, NULL where one does not take part."""

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
            loser = -math.inf if self._wants_greatest else math.nan
            best = self._slide(values_of(values), valid, loser, starts, stops)
            return array_from(best, found, values.type)
        if not is_narrow(values.type):
            ranks, ordered = _ranked(values)
            best = self._slide(ranks, valid, self._loser(ranks), starts, stops)
            return ordered.take(pa.array(np.where(found, best, 0), mask=~found))
        words = _plain_words(values)
        best = self._slide(words, valid, self._loser(words), starts, stops)
        if pa.types.is_decimal(values.type):
            return decimal_array(best.view(np.uint64), best >> np.int64(63), found, values.type)
        return array_from(best.view(np.bool_) if pa.types.is_boolean(values.type) else best, found, values.type)

    def _loser(self, words: npt.NDArray[Any]) -> int:
        limits = np.iinfo(words.dtype)
        return int(limits.min if self._wants_greatest else limits.max)

    @property
    def _wants_greatest(self) -> bool:
        return self.call.function == "max"

    def _slide(
        self, values: npt.NDArray[Any], valid: Bools | None, loser: float, starts: Positions, stops: Positions
    ) -> npt.NDArray[Any]:
        if valid is not None:
            values = np.where(valid, values, values.dtype.type(loser))
        best = np.zeros(len(starts), values.dtype)
        (sliding_max if self._wants_greatest else sliding_min)(values, starts, stops, best)
        return best


def _plain_words(values: pa.Array) -> npt.NDArray[Any]:
    """Stored integers, in their own width: the narrower, the faster they slide."""
    if pa.types.is_decimal(values.type):
        return np.ascontiguousarray(decimal_words(values)[0]).view(np.int64)
    words = values_of(values)
    return words.view(np.int8) if pa.types.is_boolean(values.type) else words


def _ranked(values: pa.Array) -> tuple[Longs, pa.Array]:
    """The place of each value among the distinct ones in order, and those."""
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    place = np.empty(max(len(order), 1), np.int64)
    place[order.to_numpy()] = np.arange(len(order))
    codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    return place[codes], encoded.dictionary.take(order)
