"""Moving columns: by partition, so that the rows of each are contiguous; and in and out of rows of words.

At most 64 partitions in one pass: with more, the places being written no longer fit the processor's translation buffer,
and a pass costs 8 ns a row instead of 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.strings import MAX_INLINE, length_of


@kernel
def scatter(source: Any, target: Any, positions: Any, out: Any) -> None:
    """Append each value to its partition's part of `out`; `positions` holds the next free place of each, and moves."""
    for row in range(source.size):
        partition = target[row]
        place = positions[partition]
        positions[partition] = place + 1
        out[place] = source[row]


@kernel
def scatter_rows(source: Any, target: Any, positions: Any, out: Any) -> None:
    """The same for rows of several words."""
    width = source.shape[1]
    for row in range(source.shape[0]):
        partition = target[row]
        place = positions[partition]
        positions[partition] = place + 1
        for at in range(width):
            out[place, at] = source[row, at]


@kernel
def scatter_coded(entries: Any, codes: Any, target: Any, positions: Any, out: Any) -> None:
    """As `scatter_rows`, for strings of a dictionary."""
    for row in range(codes.size):
        partition = target[row]
        place = positions[partition]
        positions[partition] = place + 1
        out[place, 0] = entries[codes[row], 0]
        out[place, 1] = entries[codes[row], 1]


@kernel
def scatter_word(
    values: Any, valid: Any, shift: int, fresh: bool, target: Any, positions: Any, words: Any, at: int
) -> None:
    """As `put_word`, each row at once to its partition's part of `words`."""
    for row in range(values.size):
        partition = target[row]
        place = positions[partition]
        positions[partition] = place + 1
        value = np.int64(values[row]) << shift if valid.size == 0 or valid[row] != 0 else 0
        words[place, at] = value if fresh else words[place, at] | value


@kernel
def scatter_pair(values: Any, valid: Any, first_block: int, target: Any, positions: Any, words: Any, at: int) -> None:
    """As `put_pair` likewise."""
    for row in range(values.shape[0]):
        partition = target[row]
        place = positions[partition]
        positions[partition] = place + 1
        present = valid.size == 0 or valid[row] != 0
        long = first_block > 0 and length_of(values[row, 0]) > MAX_INLINE
        words[place, at] = values[row, 0] if present else 0
        words[place, at + 1] = values[row, 1] + (first_block if long else 0) if present else 0


@kernel
def put_word(values: Any, valid: Any, shift: int, fresh: bool, words: Any, at: int) -> None:
    """Write a column into word `at` of each row, shifted; beside what is there unless the word is `fresh`. NULL is 0.

    Narrow values come as unsigned numbers, so that they leave the bits of others alone.
    """
    for row in range(values.size):
        value = np.int64(values[row]) << shift if valid.size == 0 or valid[row] != 0 else 0
        words[row, at] = value if fresh else words[row, at] | value


@kernel
def put_pair(values: Any, valid: Any, first_block: int, words: Any, at: int) -> None:
    """Write a column of two words each. Strings whose blocks come behind `first_block` others point to those then."""
    for row in range(values.shape[0]):
        if valid.size == 0 or valid[row] != 0:
            words[row, at] = values[row, 0]
            long = first_block > 0 and length_of(values[row, 0]) > MAX_INLINE
            words[row, at + 1] = values[row, 1] + (first_block if long else 0)
        else:
            words[row, at] = 0
            words[row, at + 1] = 0


@kernel
def get_word(words: Any, rows: Any, at: int, values: Any) -> None:
    """Word `at` of the chosen rows."""
    for index in range(rows.size):
        values[index] = words[rows[index], at]


@kernel
def get_pair(words: Any, rows: Any, at: int, values: Any) -> None:
    for index in range(rows.size):
        values[index, 0] = words[rows[index], at]
        values[index, 1] = words[rows[index], at + 1]
