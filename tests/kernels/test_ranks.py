"""Kernels of ranking functions against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.kernels.windows.ranks import dense_ranks, ranks, row_numbers, rows_up_to_peers, tiles
from tests.kernels.frame_cases import segment_of, segment_offsets


@settings(max_examples=60, deadline=None)
@given(segment_offsets(min_rows=1), st.integers(0, 2**32), st.integers(0, 9))
def test_numbers_against_counting(offsets, seed, before):
    random = np.random.default_rng(seed)
    rows = int(offsets[-1])
    new_group = random.random(rows) < 0.4
    new_group[offsets[:-1][offsets[:-1] < rows]] = True
    groups = np.append(np.flatnonzero(new_group), rows).astype(np.int32)
    got = {kernel: np.empty(rows, np.int64) for kernel in (ranks, dense_ranks, rows_up_to_peers)}
    for kernel, result in got.items():
        kernel(offsets, groups, before, result)
    numbers = np.empty(rows, np.int64)
    row_numbers(offsets, before, numbers)
    for row in range(rows):
        first, _ = segment_of(offsets, row)
        base = before if first == 0 else 0
        first_peer = int(groups[groups <= row].max())
        after_peers = int(groups[groups > row].min())
        assert numbers[row] == base + row - first + 1
        assert got[ranks][row] == base + first_peer - first + 1
        assert got[dense_ranks][row] == base + new_group[first : row + 1].sum()
        assert got[rows_up_to_peers][row] == base + after_peers - first


@pytest.mark.parametrize("size", [1, 2, 5, 7, 10, 23])
@pytest.mark.parametrize("buckets", [1, 2, 3, 4, 10, 50])
def test_tiles_like_sparks_counters(size, buckets):
    result = np.empty(size, np.int64)
    tiles(np.arange(1, size + 1), np.full(size, size), buckets, result)
    expected, bucket, threshold = [], 0, 0
    for row in range(size):
        if row >= threshold:
            bucket += 1
            threshold += size // buckets + (1 if bucket - 1 < size % buckets else 0)
        expected.append(bucket)
    assert result.tolist() == expected
