"""Routing against a test of every row with every range."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.kernels.windows.routing import (
    cells_of,
    count_owned,
    group_borrowed,
    hand_out_halves,
    hand_out_words,
    owners_of,
    widen_to_needs,
)


def handed_out(hand_out, values, owners, counts):
    """The values of each owner, with a value behind them that must stay."""
    parts = [np.full(count + 1, 77, values.dtype) for count in counts]
    addresses = np.array([part.ctypes.data for part in parts], np.int64)
    hand_out(values, owners, addresses)
    assert [part[-1] for part in parts] == [77] * len(parts)
    return [part[:-1] for part in parts]


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
    owners_of(words, cuts, *cells_of(cuts), owners)
    copies = widen_to_needs(words, owners, lows, highs, firsts, lasts)
    counts = np.zeros(ranges, np.int64)
    in_order = count_owned(owners, counts)
    own_rows = handed_out(hand_out_words, np.arange(len(words), dtype=np.uint64), owners, counts)
    assert in_order == (np.concatenate(own_rows).tolist() == list(range(len(words))))
    halves = handed_out(hand_out_halves, np.arange(len(words), dtype=np.uint32), owners, counts)
    assert [part.tolist() for part in halves] == [part.tolist() for part in own_rows]
    starts, rows = np.zeros(ranges + 1, np.int64), np.empty(copies, np.int64)
    group_borrowed(owners, firsts, lasts, starts, rows)
    for number in range(ranges):
        owned = [row for row, word in enumerate(words) if edges[number] <= word < edges[number + 1]]
        needed = [row for row, word in enumerate(words) if lows[number] <= word <= highs[number]]
        assert own_rows[number].tolist() == owned
        assert rows[starts[number] : starts[number + 1]].tolist() == [row for row in needed if row not in owned]


ANY_WORD = st.one_of(st.integers(-20, 20), st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), 2**63 - 1]))


@settings(max_examples=150, deadline=None)
@given(st.lists(ANY_WORD, max_size=40), st.lists(ANY_WORD, max_size=40, unique=True), st.booleans())
def test_owners_of_words_and_cuts_anywhere(words, cuts, at_cuts):
    """Cuts close together and far apart, so that cells have none or many of them; words on both sides of each."""
    cuts = np.sort(np.array(cuts, np.int64))
    if at_cuts:
        near = [int(cut) + off for cut in cuts for off in (-1, 0, 1)]
        words = words + [word for word in near if -(2**63) <= word < 2**63]
    owners = np.empty(len(words), np.int32)
    for dtype in (np.int64, np.int32, np.int8):
        ends = np.iinfo(dtype)
        stored = np.array([min(max(word, ends.min), ends.max) for word in words], dtype)
        owners_of(stored, cuts, *cells_of(cuts), owners)
        assert owners.tolist() == [int((cuts <= word).sum()) for word in stored.tolist()]


def test_many_cuts_share_one_cell():
    """One far key must not make the search among the others slow: cuts of a cell are searched, not counted."""
    cuts = np.array([*range(1000), 2**62], np.int64)
    cells, shift = cells_of(cuts)
    assert int(np.diff(cells).max()) >= 999
    owners = np.empty(1001, np.int32)
    owners_of(np.arange(-1, 1000), cuts, cells, shift, owners)
    assert owners.tolist() == list(range(1001))
