"""The row of a group or frame with the extreme value; and accumulators that keep the columns of the winning row.

The type of the value does not matter: a kernel finds the *row* of each group, and the columns are taken from it. So one
mechanism serves every type. Partial states compete like rows; states that are already held come before new ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sundog.columns.arrow import compact
from sundog.columns.blocks import addresses, concat
from sundog.columns.vectors import Bytes, Vector, nulls
from sundog.expr.buffers import is_narrow, validity_of, values_of
from sundog.expr.calls import AggregateCall
from sundog.functions.framed import Positions, as_counts, frames_that_count
from sundog.functions.grouped import Accumulator, Groups, as_floats, as_ints, mask_of
from sundog.kernels.groups.by_group import (
    extreme_float_row_by_group,
    extreme_int_row_by_group,
    extreme_string_row_by_group,
    extreme_wide_row_by_group,
)
from sundog.kernels.windows.sliding import sliding_max, sliding_min
from sundog.types import is_text

Rows = npt.NDArray[np.int64]


def extreme_rows(order: Vector, valid: Bytes | None, largest: bool, groups: Groups) -> Rows:
    """For each group the row with the greatest or the least value in `order`, the last of equal ones; or -1."""
    rows = np.full(groups.count, -1, np.int64)
    mask = mask_of(valid)
    if is_text(order.dtype):
        extreme_string_row_by_group(groups.ids, order.values, addresses(order.blocks), mask, largest, rows)
    elif pa.types.is_decimal(order.dtype):
        extreme_wide_row_by_group(groups.ids, order.values, mask, largest, rows)
    elif pa.types.is_floating(order.dtype):
        extreme_float_row_by_group(groups.ids, as_floats(order), mask, largest, rows)
    else:
        extreme_int_row_by_group(groups.ids, as_ints(order), mask, largest, rows)
    return rows


def extreme_places(
    order: pa.Array, largest: bool, starts: Positions, stops: Positions
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The same by frame, and which frames have such a row. Rank and place share a word, whose extreme is searched."""
    count, valid = len(order), validity_of(order)
    found = frames_that_count(as_counts(valid), starts, stops)
    places = np.arange(count, dtype=np.int64)
    words = _ranks(order) * count + (places if largest else count - 1 - places)
    limits = np.iinfo(np.int64)
    if valid is not None:
        words = np.where(valid, words, limits.min if largest else limits.max)
    best = np.zeros(len(starts), np.int64)
    (sliding_max if largest else sliding_min)(words, starts, stops, best)
    best = np.where(found, best, 0) % max(count, 1)
    return best if largest else count - 1 - best, found


def _ranks(values: pa.Array) -> npt.NDArray[np.int64]:
    """The rank of each value among the distinct ones; undefined for NULL. Equal zeros have one rank."""
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.int64)
    if pa.types.is_floating(values.type):
        numbers = values_of(values)
        is_nan = np.isnan(numbers)
        distinct, ranks = np.unique(np.where(is_nan | (numbers == 0), 0.0, numbers), return_inverse=True)
        ranks = np.where(is_nan, len(distinct), ranks)
    elif is_narrow(values.type) and not pa.types.is_decimal(values.type):
        _, ranks = np.unique(values_of(values), return_inverse=True)
    else:
        return ranked(values)[0]
    return ranks.astype(np.int64).reshape(-1)


def ranked(values: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """The rank of each value among the distinct ones, and the distinct ones in order."""
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    place = np.empty(max(len(order), 1), np.int64)
    place[order.to_numpy()] = np.arange(len(order))
    codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    return place[codes], encoded.dictionary.take(order)


class WinningRow(Accumulator):
    """Keeps the columns of one row of each group; `_win` chooses that row."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._held: list[Vector] | None = None
        self._chosen = np.zeros(0, np.uint8)

    def _win(self, columns: Sequence[Vector], valid: Bytes | None, groups: Groups) -> Rows:
        """The winning row of each group, among those that are `valid`; -1 if there is none."""
        raise NotImplementedError

    def _compete(self, columns: Sequence[Vector], valid: Bytes | None, groups: Groups) -> None:
        if self._held is not None:
            columns = [concat([held, new]) for held, new in zip(self._held, columns, strict=True)]
            length = columns[0].length - self.groups
            coming = np.ones(length, np.uint8) if valid is None else valid
            valid = np.concatenate([self._chosen, coming])
            ids = np.concatenate([np.arange(self.groups, dtype=np.int32), groups.ids])
            groups = Groups(ids, groups.count)
        self.groups = groups.count
        rows = self._win(columns, valid, groups)
        self._chosen = (rows >= 0).view(np.uint8)
        self._held = [compact(_taken(column, rows, self._chosen)) for column in columns]

    def evaluate(self) -> Vector:
        held = self._held
        return nulls(self.call.dtype, self.groups) if held is None else held[0]


def _taken(column: Vector, rows: Rows, chosen: Bytes) -> Vector:
    if column.length == 0:
        return nulls(column.dtype, len(rows))
    return column.take(np.maximum(rows, 0)).where(None if chosen.all() else chosen)
