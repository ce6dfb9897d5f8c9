"""Moving columns keeps every row once, partitions in one piece, and rows of a partition in order."""

from __future__ import annotations

import numpy as np
import pytest

from sundog.kernels.groups.partition import get_pair, get_word, put_pair, put_word, scatter, scatter_rows

NO_MASK = np.zeros(0, np.uint8)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_scatter_is_a_stable_sort_by_partition(dtype: type) -> None:
    random = np.random.default_rng(1)
    target = random.integers(0, 7, 1000).astype(np.uint16)
    values = random.integers(-100, 100, 1000).astype(dtype)
    starts = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=7))])
    out = np.empty_like(values)
    positions = starts[:-1].copy()
    scatter(values, target, positions, out)
    assert out.tolist() == values[np.argsort(target, kind="stable")].tolist()
    assert positions.tolist() == starts[1:].tolist()


def test_scatter_goes_on_where_the_batch_before_ended() -> None:
    positions, out = np.array([0, 3]), np.empty(5, np.int64)
    scatter(np.array([10, 20]), np.array([0, 1], np.uint16), positions, out)
    scatter(np.array([11, 21, 12]), np.array([0, 1, 0], np.uint16), positions, out)
    assert out.tolist() == [10, 11, 12, 20, 21]


def test_scatter_rows_moves_all_words_of_a_row() -> None:
    rows = np.arange(12, dtype=np.int64).reshape(4, 3)
    out = np.empty_like(rows)
    scatter_rows(rows, np.array([1, 0, 1, 0], np.uint16), np.array([0, 2]), out)
    assert out.tolist() == rows[[1, 3, 0, 2]].tolist()


def test_words_are_packed_beside_each_other_and_null_is_zero() -> None:
    words = np.full((3, 2), 77, np.int64)
    put_word(np.array([1, 2, 3]), NO_MASK, 0, True, words, 1)
    put_word(np.array([1, 2, 3]), np.array([1, 0, 1], np.uint8), 32, False, words, 1)
    assert words.tolist() == [[77, 1 | 1 << 32], [77, 2], [77, 3 | 3 << 32]]
    values = np.empty(2, np.int64)
    get_word(words, np.array([2, 0], np.int32), 1, values)
    assert values.tolist() == [3 | 3 << 32, 1 | 1 << 32]


def test_pairs_of_long_strings_point_to_their_new_blocks() -> None:
    short, long = (3, 0x6162), (13, 5 << 32 | 1)
    pairs = np.array([short, long, long], np.int64)
    words = np.zeros((3, 3), np.int64)
    put_pair(pairs, np.array([1, 1, 0], np.uint8), 4, words, 1)
    assert words.tolist() == [[0, *short], [0, 13, 5 << 32 | 5], [0, 0, 0]]
    back = np.empty((2, 2), np.int64)
    get_pair(words, np.array([1, 0], np.int32), 1, back)
    assert back.tolist() == [[13, 5 << 32 | 5], list(short)]
