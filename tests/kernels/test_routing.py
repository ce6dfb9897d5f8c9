"""Routing against a test of every row with every range."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.kernels.windows.routing import group_borrowed, group_owned, owners_of, widen_to_needs


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(-20, 20), max_size=40),
    st.lists(st.integers(-20, 20), max_size=6, unique=True),
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_every_row_meets_every_range_that_needs_it(words, cuts, before, behind):
    words, cuts = np.array(words, np.int64), np.sort(np.array(cuts, np.int64))
    ranges = len(cuts) + 1
    edges = [-(10**6), *cuts.tolist(), 10**6]
    lows = np.array([edge - before for edge in edges[:-1]], np.int64)
    highs = np.array([edge - 1 + behind for edge in edges[1:]], np.int64)
    owners, firsts, lasts = (np.empty(len(words), np.int32) for _ in range(3))
    owners_of(words, cuts, owners)
    copies = widen_to_needs(words, owners, lows, highs, firsts, lasts)
    own_starts, own_rows = np.zeros(ranges + 1, np.int64), np.empty(len(words), np.int64)
    group_owned(owners, own_starts, own_rows)
    starts, rows = np.zeros(ranges + 1, np.int64), np.empty(copies, np.int64)
    group_borrowed(owners, firsts, lasts, starts, rows)
    for number in range(ranges):
        owned = [row for row, word in enumerate(words) if edges[number] <= word < edges[number + 1]]
        needed = [row for row, word in enumerate(words) if lows[number] <= word <= highs[number]]
        assert own_rows[own_starts[number] : own_starts[number + 1]].tolist() == owned
        assert rows[starts[number] : starts[number + 1]].tolist() == [row for row in needed if row not in owned]
