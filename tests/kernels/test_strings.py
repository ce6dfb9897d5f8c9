"""Strings as two words: they compare, order, hash and are written like their bytes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.kernels.groups.hash_groups import PLAIN, STRING_TAIL, group_rows, hash_rows
from sundog.kernels.strings import (
    WRITE_SLACK,
    less_view,
    renumber_blocks,
    total_length,
    views_from_offsets,
    write_strings,
)

NO_MASK = np.zeros(0, np.uint8)
KINDS = np.array([PLAIN, STRING_TAIL], np.int8)

# few letters and lengths around 4, 12 and 16: equal prefixes, and differences at every place
texts = st.lists(st.sampled_from([b"\0", b"a", b"b", b"\xff"]), max_size=18).map(b"".join)


def views_of(strings: list[bytes], slack: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Views, the addresses of the blocks, and the bytes (to be kept alive)."""
    data = np.frombuffer(b"".join(strings) + b"?" * slack, np.uint8).copy()
    offsets = np.cumsum([0, *map(len, strings)]).astype(np.int32)
    views = np.empty((len(strings), 2), np.int64)
    views_from_offsets(offsets, data.ctypes.data, len(data), NO_MASK, views)
    return views, np.array([data.ctypes.data], np.int64), data


@settings(max_examples=150, deadline=None)
@given(st.lists(texts, min_size=1, max_size=12), st.sampled_from([0, 5, 16]))
def test_views_compare_group_and_write_as_bytes_do(strings: list[bytes], slack: int) -> None:
    views, blocks, data = views_of(strings, slack)
    for left in range(len(strings)):
        for right in range(len(strings)):
            assert less_view(views, left, right, blocks) == (strings[left] < strings[right])
    hashes = np.empty(len(strings), np.uint64)
    hash_rows(views, KINDS, 0, blocks, hashes)
    ids, founders = np.empty(len(strings), np.int32), np.empty(len(strings), np.int32)
    group_rows(views, KINDS, 0, blocks, hashes, np.array([0, len(strings)]), ids, founders)
    unique = list(dict.fromkeys(strings))
    assert ids.tolist() == [unique.index(text) for text in strings]
    assert len(set(hashes.tolist())) == len(unique)
    out, offsets = np.empty(total_length(views, 1) + WRITE_SLACK, np.uint8), np.empty(len(strings) + 1, np.int32)
    write_strings(views, blocks, offsets, out.ctypes.data)
    assert [out[a:b].tobytes() for a, b in pairwise(offsets)] == strings
    assert len(data) >= total_length(views, 1)


def test_equal_strings_in_different_blocks_are_one_group() -> None:
    strings = [b"the same long string", b"another long string", b"short"]
    left, _, left_data = views_of(strings)
    right, _, right_data = views_of(strings[::-1])
    moved = np.empty_like(right)
    renumber_blocks(right, 1, moved)
    views = np.concatenate([left, moved])
    blocks = np.array([left_data.ctypes.data, right_data.ctypes.data])
    hashes = np.empty(6, np.uint64)
    hash_rows(views, KINDS, 0, blocks, hashes)
    ids, founders = np.empty(6, np.int32), np.empty(6, np.int32)
    group_rows(views, KINDS, 0, blocks, hashes, np.array([0, 6]), ids, founders)
    assert ids.tolist() == [0, 1, 2, 2, 1, 0]


def test_null_is_two_zero_words() -> None:
    data = np.frombuffer(b"hidden bytes of a null", np.uint8).copy()
    views = np.empty((1, 2), np.int64)
    offsets = np.array([0, len(data)], np.int32)
    views_from_offsets(offsets, data.ctypes.data, len(data), np.zeros(1, np.uint8), views)
    assert views.tolist() == [[0, 0]]
