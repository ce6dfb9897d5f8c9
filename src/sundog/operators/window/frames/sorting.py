"""A range's rows in window order.

Sorting is most of what a window costs once frames are cheap. Keys of one word are sorted as words, least significant
key first, each pass stable (`kernels/windows/word_sort.py`); strings and long decimals go through `expr/ordering.py`.
Rows that are in order already, as those of logs often are, are only looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.arrow import from_arrow
from sundog.columns.key_words import key_numbers
from sundog.expr.buffers import Bools, is_narrow, validity_of
from sundog.expr.nodes import Column, Expr
from sundog.expr.ordering import SortKey, sort_indices
from sundog.kernels.windows.word_sort import gather, order_of
from sundog.operators.window.frames.order_key import RangeKey
from sundog.operators.window.frames.range_columns import ROW, RangeColumns, has, taken
from sundog.types import is_text

Longs = npt.NDArray[np.int64]
_MAX_PASSES = 3  # keys that are sorted one after the other; more are sorted by `expr/ordering.py`
_WORD_BITS = 63  # of a word that stays positive
_SEGMENT = "__segment"


def sorted_table(table: pa.Table, partition_by: Sequence[Expr], order_by: Sequence[SortKey]) -> pa.Table:
    """Rows of equal partition keys next to each other, by order keys and, where they are numbered, their number."""
    keys = [SortKey(Column(_SEGMENT, pa.int64()))] if partition_by else []
    keys += order_by
    if not keys or table.num_rows < 2:
        return table
    if has(table.schema, ROW):
        keys.append(SortKey(Column(ROW, pa.int64())))
    columns = RangeColumns(table)
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


def _segments(columns: RangeColumns, partition_by: Sequence[Expr]) -> pa.Array:
    """A number for each row that tells its partition: the key itself if it is one, or a number for each of its
    values."""
    keys = [columns.values(expr) for expr in partition_by]
    if len(keys) == 1 and is_narrow(keys[0].type) and keys[0].null_count == 0:
        return pa.array(RangeKey(keys[0].type).words(keys[0]))
    return pa.array(key_numbers([from_arrow(key) for key in keys]))


def _packed(words: Sequence[Longs]) -> list[Longs]:
    """The same order in fewer words: neighbours share one where their bits fit."""
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
    """The order so far, sorted by one more key; stable. None is the order of the rows as they are."""
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


def take_rows(columns: RangeColumns, order: Longs) -> pa.Table:
    """The table's rows in another order."""
    table = columns.table
    arrays = [
        table.column(field.name).take(pa.array(order))
        if is_text(field.type)
        else taken(columns.column(field.name), order)
        for field in table.schema
    ]
    return pa.table(arrays, schema=table.schema)
