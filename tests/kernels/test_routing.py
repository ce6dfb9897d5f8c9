"""Routing against a test of every row with every range."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.kernels.windows.routing import cells_of, group_borrowed, owners_of, place_owned, scatter, widen_to_needs


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
    own_starts, own_rows = np.zeros(ranges + 1, np.int64), np.empty(len(words), np.int64)
    places = np.empty(len(words), np.int32)
    in_place = place_owned(owners, own_starts, places)
    scatter(np.arange(len(words)), places, own_rows)
    assert in_place == (own_rows.tolist() == list(range(len(words))))
    starts, rows = np.zeros(ranges + 1, np.int64), np.empty(copies, np.int64)
    group_borrowed(owners, firsts, lasts, starts, rows)
    for number in range(ranges):
        owned = [row for row, word in enumerate(words) if edges[number] <= word < edges[number + 1]]
        needed = [row for row, word in enumerate(words) if lows[number] <= word <= highs[number]]
        assert own_rows[own_starts[number] : own_starts[number + 1]].tolist() == owned
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
    owners_of(np.array(words, np.int64), cuts, *cells_of(cuts), owners)
    assert owners.tolist() == [int((cuts <= word).sum()) for word in words]


def test_many_cuts_share_one_cell():
    """One far key must not make the search among the others slow: cuts of a cell are searched, not counted."""
    cuts = np.array([*range(1000), 2**62], np.int64)
    cells, shift = cells_of(cuts)
    assert int(np.diff(cells).max()) >= 999
    owners = np.empty(1001, np.int32)
    owners_of(np.arange(-1, 1000), cuts, cells, shift, owners)
    assert owners.tolist() == list(range(1001))
