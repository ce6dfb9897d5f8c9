"""Sorting of a range's rows into window order.

With fast frames, sorting is most of a window's cost. Keys of one word are sorted as words, least significant key first,
each pass stable (`kernels/windows/word_sort.py`); strings and long decimals go through `expr/ordering.py`. Rows that
are sorted already, as those of logs often are, are only checked.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.arrow import from_arrow
from sundog.columns.key_words import key_numbers
from sundog.expr.buffers import Bools, array_from, is_narrow, kernel_view, numpy_type, pooled, validity_of
from sundog.expr.nodes import Column, Expr
from sundog.expr.ordering import SortKey, sort_indices
from sundog.kernels.windows.word_sort import fresh_numbers, gather, order_of, sorted_keys
from sundog.operators.window.frames.order_key import RangeKey
from sundog.operators.window.frames.range_columns import RangeColumns
from sundog.types import is_plain, is_text

Longs = npt.NDArray[np.int64]
_MAX_PASSES = 3  # keys that are sorted one after the other; with more, `expr/ordering.py` sorts
MAX_KEPT_ROWS = 1 << 20  # whose memory to sort in, 24 MiB, a thread keeps
_WORD_BITS = 63  # of a word that stays positive
_SEGMENT = "__segment"


def sorted_table(table: pa.Table, partition_by: Sequence[Expr], order_by: Sequence[SortKey]) -> pa.Table:
    """Rows grouped by partition key, then sorted by the order keys; rows with equal keys keep their order."""
    keys = [SortKey(Column(_SEGMENT, pa.int64()))] if partition_by else []
    keys += order_by
    if not keys or table.num_rows < 2:
        return table
    columns = RangeColumns(table)
    if not partition_by and len(keys) == 1 and (stored := _stored_key(table, keys[0])) is not None:
        found = sorted_keys(stored, keys[0].descending, _memory.numbers, pooled)
        return table if found is None else take_rows(columns, found.rows, _sorted_keys(keys[0], found.keys))
    arrays = [_segments(columns, partition_by)] if partition_by else []
    arrays += [columns.values(key.expr) for key in keys[len(arrays) :]]
    if not all(is_narrow(array.type) for array in arrays) or len(keys) > _MAX_PASSES:
        return take_rows(columns, sort_indices(arrays, keys))
    words = [RangeKey(array.type, key.descending).words(array) for array, key in zip(arrays, keys, strict=True)]
    valid = [validity_of(array) for array in arrays]
    passes: list[tuple[Longs, Bools | None, bool]]
    if any(mask is not None for mask in valid):
        passes = [(word, mask, key.nulls_first) for word, mask, key in zip(words, valid, keys, strict=True)]
    elif len(packed := _packed(words)) > 1 and _is_sorted(words):
        return table
    else:
        passes = [(word, None, True) for word in packed]
    order: Longs | None = None
    for word, mask, nulls_first in reversed(passes):
        order = _pass(word, mask, nulls_first, order)
    return table if order is None else take_rows(columns, order)


class _SortMemory(threading.local):
    """Memory to sort in, one for each thread, used again by the next sort: fresh pages cost as much as the sort.

    Of 10 million rows in 20 ranges on two threads, page faults took 40 of 100 processor milliseconds. What is in it is
    lost with the next call of the same method on this thread.
    """

    def __init__(self) -> None:
        self._numbers = fresh_numbers(0)
        self._values = np.empty(0, np.uint64)

    def numbers(self, count: int) -> npt.NDArray[np.uint64]:
        """For the packed numbers of `count` rows."""
        if count > MAX_KEPT_ROWS:
            return fresh_numbers(count)
        if self._numbers.shape[1] < count:
            self._numbers = fresh_numbers(count)
        return self._numbers[:, :count]

    def joined(self, column: pa.ChunkedArray) -> npt.NDArray[Any]:
        """The values of a column of plain numbers without NULLs, one behind the other."""
        storage = numpy_type(column.type)
        views = [kernel_view(chunk.buffers()[1], storage, len(chunk), chunk.offset) for chunk in column.chunks]
        if len(views) == 1:
            return views[0]
        if len(column) > MAX_KEPT_ROWS:
            return np.concatenate(views) if views else np.empty(0, storage)
        if len(self._values) < len(column):
            self._values = np.empty(len(column), np.uint64)
        values = self._values.view(storage)[: len(column)]
        first = 0
        for view in views:
            values[first : first + len(view)] = view
            first += len(view)
        return values


_memory = _SortMemory()


def _stored_key(table: pa.Table, key: SortKey) -> list[npt.NDArray[Any]] | None:
    """The chunks of a key that is a column of integers, dates or times without NULLs: their order is that of the
    stored numbers. Else None."""
    if not isinstance(key.expr, Column) or not is_plain(key.expr.dtype) or pa.types.is_floating(key.expr.dtype):
        return None
    column = table.column(key.expr.name)
    if column.null_count:
        return None
    storage = numpy_type(column.type)
    return [kernel_view(chunk.buffers()[1], storage, len(chunk), chunk.offset) for chunk in column.chunks]


def _sorted_keys(key: SortKey, values: npt.NDArray[Any] | None) -> dict[str, pa.Array]:
    """The column of a stored key in order."""
    if values is None or not isinstance(key.expr, Column):
        return {}
    return {key.expr.name: array_from(values, None, key.expr.dtype)}


def _segments(columns: RangeColumns, partition_by: Sequence[Expr]) -> pa.Array:
    """A number for each row that identifies its partition: the key itself if it is one word, else the number of its
    value."""
    keys = [columns.values(expr) for expr in partition_by]
    if len(keys) == 1 and is_narrow(keys[0].type) and keys[0].null_count == 0:
        return pa.array(RangeKey(keys[0].type).words(keys[0]))
    return pa.array(key_numbers([from_arrow(key) for key in keys]))


def _packed(words: Sequence[Longs]) -> list[Longs]:
    """The same order in fewer words: neighbouring keys share one if their bits fit."""
    if len(words) == 1:
        return list(words)
    packed: list[Longs] = []
    free_bits = -1
    for word in words:
        low = word.min()
        bits = (int(word.max()) - int(low)).bit_length()
        if bits <= free_bits:
            packed[-1] = (packed[-1] << bits) | (word - low)
            free_bits -= bits
        else:
            packed.append(word - low if bits <= _WORD_BITS else word)
            free_bits = _WORD_BITS - bits
    return packed


def _pass(words: Longs, valid: Bools | None, nulls_first: bool, order: Longs | None) -> Longs | None:
    """The order so far, sorted by one more key; stable. None means the present order of the rows."""
    if order is not None:
        words = _gathered(words, order)
        valid = None if valid is None else valid[order]
    places = order_of(words) if valid is None else _order_with_nulls(words, valid, nulls_first)
    if places is None or order is None:
        return order if places is None else places
    return _gathered(order, places)


def _order_with_nulls(words: Longs, valid: Bools, nulls_first: bool) -> Longs:
    there, nulls = np.flatnonzero(valid), np.flatnonzero(~valid)
    places = order_of(words[there])
    values = there if places is None else there[places]
    return np.concatenate([nulls, values] if nulls_first else [values, nulls])


def _gathered(values: npt.NDArray[np.int64], rows: Longs) -> Longs:
    result = np.empty(len(rows), np.int64)
    gather(values, rows, result)
    return result


def _is_sorted(words: Sequence[Longs]) -> bool:
    after: Bools = words[-1][:-1] <= words[-1][1:]
    for word in reversed(words[:-1]):
        after = (word[:-1] < word[1:]) | ((word[:-1] == word[1:]) & after)
    return bool(after.all())


def take_rows(columns: RangeColumns, order: Longs, known: Mapping[str, pa.Array] = MappingProxyType({})) -> pa.Table:
    """The table's rows in another order. `known`: columns that are in that order already."""
    table = columns.table
    arrays = [
        known[field.name]
        if field.name in known
        else table.column(field.name).take(pa.array(order))
        if is_text(field.type)
        else _taken(columns, field.name, order)
        for field in table.schema
    ]
    return pa.table(arrays, schema=table.schema)


def _taken(columns: RangeColumns, name: str, order: Longs) -> pa.Array:
    """The values of a column in another order. Plain numbers without NULLs are joined in memory that is kept."""
    column = columns.table.column(name)
    if not is_plain(column.type) or column.null_count:
        return columns.column(name).take(pa.array(order))
    values = _memory.joined(column)
    result = pooled(len(order), values.dtype)
    gather(values, order, result)
    return array_from(result, None, column.type)
