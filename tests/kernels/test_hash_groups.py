"""The hash table numbers distinct keys in order of appearance, for any words and any hash collisions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.kernels.groups.hash_groups import assign_partitions, group_rows, hash_rows

NO_BLOCKS = np.zeros(0, np.int64)
NO_HASHES = np.zeros(0, np.uint64)


def plain_kinds(width: int) -> np.ndarray:
    return np.zeros(width, np.int8)


def group(words: np.ndarray, starts: list[int], hashes: np.ndarray = NO_HASHES) -> tuple[list[int], list[int]]:
    ids, founders = np.empty(len(words), np.int32), np.empty(len(words), np.int32)
    bounds = np.array(starts, np.int64)
    count = group_rows(words, plain_kinds(words.shape[1]), 0, NO_BLOCKS, hashes, bounds, ids, founders)
    return ids.tolist(), founders[:count].tolist()


def expected_groups(words: np.ndarray) -> tuple[list[int], list[int]]:
    seen: dict[tuple[int, ...], int] = {}
    founders: list[int] = []
    ids = []
    for row, key in enumerate(map(tuple, words.tolist())):
        if key not in seen:
            seen[key] = len(seen)
            founders.append(row)
        ids.append(seen[key])
    return ids, founders


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_groups_are_numbered_in_order_of_appearance(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 3))
    word = st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)])
    rows = data.draw(st.lists(st.lists(word, min_size=width, max_size=width), max_size=60))
    words = np.array(rows, np.int64).reshape(len(rows), width)
    assert group(words, [0, len(rows)]) == expected_groups(words)


def test_table_grows_through_many_groups() -> None:
    random = np.random.default_rng(1)
    words = random.integers(0, 30_000, (100_000, 1))
    assert group(words, [0, len(words)]) == expected_groups(words)


def test_keys_are_compared_even_where_all_hashes_are_equal() -> None:
    words = np.arange(3000, dtype=np.int64).reshape(-1, 1) % 1700
    same = np.full(len(words), 12345, np.uint64)
    assert group(words, [0, len(words)], same) == expected_groups(words)


def test_buckets_are_numbered_one_after_the_other() -> None:
    words = np.array([[5], [7], [5], [9], [9], [8]], np.int64)
    assert group(words, [0, 3, 3, 6]) == ([0, 1, 0, 2, 2, 3], [0, 1, 3, 5])


def test_a_large_bucket_after_small_ones() -> None:
    random = np.random.default_rng(2)
    words = np.concatenate([np.full((10, 1), -1), random.permutation(20_000).reshape(-1, 1), np.full((5, 1), -2)])
    assert group(words, [0, 10, 20_010, 20_015]) == expected_groups(words)


def test_null_words_count_only_where_they_are_set() -> None:
    without = np.array([[1], [2]], np.int64)
    with_mask = np.array([[1, 0], [2, 0], [0, 1]], np.int64)
    plain, masked = np.empty(2, np.uint64), np.empty(3, np.uint64)
    hash_rows(without, plain_kinds(1), 0, NO_BLOCKS, plain)
    hash_rows(with_mask, plain_kinds(2), 1, NO_BLOCKS, masked)
    assert plain.tolist() == masked[:2].tolist()
    assert len(set(masked.tolist())) == 3


@pytest.mark.parametrize("step", [1, 8, 1 << 20, 1 << 32, 3_000_000_019])
@pytest.mark.parametrize("level", [0, 1, 4])
def test_regular_keys_spread_evenly(step: int, level: int) -> None:
    """Sequences and multiples of powers of two are what real keys look like."""
    words = (np.arange(100_000, dtype=np.int64) * step).reshape(-1, 1)
    target, counts = np.empty(len(words), np.uint16), np.zeros(64, np.int64)
    assign_partitions(words, 0, NO_HASHES, level, 64, target, counts)
    assert counts.tolist() == np.bincount(target, minlength=64).tolist()
    assert counts.min() > 1300
    assert counts.max() < 1850


def test_levels_spread_independently() -> None:
    words = np.arange(200_000, dtype=np.int64).reshape(-1, 1)
    first, counts = np.empty(len(words), np.uint16), np.zeros(8, np.int64)
    assign_partitions(words, 0, NO_HASHES, 0, 8, first, counts)
    rest = np.ascontiguousarray(words[first == 3])
    second, again = np.empty(len(rest), np.uint16), np.zeros(8, np.int64)
    assign_partitions(rest, 0, NO_HASHES, 1, 8, second, again)
    assert again.min() > 2800


def test_given_hashes_and_computed_ones_agree() -> None:
    words = np.random.default_rng(3).integers(-(2**63), 2**63 - 1, (1000, 2))
    hashes = np.empty(len(words), np.uint64)
    hash_rows(words, plain_kinds(2), 0, NO_BLOCKS, hashes)
    targets = []
    for given_hashes in (hashes, NO_HASHES):
        target, counts = np.empty(len(words), np.uint16), np.zeros(16, np.int64)
        assign_partitions(words, 0, given_hashes, 0, 16, target, counts)
        targets.append(target.tolist())
    assert targets[0] == targets[1]
