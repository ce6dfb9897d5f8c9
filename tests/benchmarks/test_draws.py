"""Generated values depend on the row number only, not on how rows are cut into chunks."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.benchmarks.data.draws import Draws, permute


@given(domain=st.integers(1, 5000), key=st.integers(0, 2**64 - 1))
@settings(max_examples=60, deadline=None)
def test_permute_is_a_bijection_of_its_domain(domain: int, key: int) -> None:
    assert sorted(permute(np.arange(domain), domain, key)) == list(range(domain))


def test_permute_keeps_large_domains_apart() -> None:
    values = permute(np.arange(200_000), 1 << 62, 5)
    assert len(np.unique(values)) == 200_000
    assert values.min() >= 0
    assert values.max() < 1 << 62
    assert values.max() > 1 << 61


@given(cut=st.integers(0, 1000), seed=st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_a_draw_does_not_depend_on_the_chunk(cut: int, seed: int) -> None:
    draws, rows = Draws(seed, "t"), np.arange(1000)
    whole = draws.uniform("a", rows)
    pieces = np.concatenate([draws.uniform("a", rows[:cut]), draws.uniform("a", rows[cut:])])
    np.testing.assert_array_equal(whole, pieces)


def test_columns_tables_and_seeds_have_streams_of_their_own() -> None:
    rows = np.arange(10_000)
    first = Draws(0, "t").uniform("a", rows)
    for other in (Draws(0, "t").uniform("b", rows), Draws(0, "u").uniform("a", rows), Draws(1, "t").uniform("a", rows)):
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.05


def test_uniform_fills_its_interval_evenly() -> None:
    values = Draws(3, "t").uniform("a", np.arange(100_000))
    assert values.min() >= 0
    assert values.max() < 1
    counts, _ = np.histogram(values, bins=20, range=(0, 1))
    assert counts.min() > 4600
    assert counts.max() < 5400


def test_integers_reach_both_ends_and_no_further() -> None:
    assert set(Draws(0, "t").integers("a", np.arange(1000), -1, 2)) == {-1, 0, 1, 2}


def test_ranks_are_skewed_towards_zero() -> None:
    ranks = Draws(0, "t").ranks("a", np.arange(100_000), 1000, 3.0)
    counts = np.bincount(ranks, minlength=1000)
    assert counts[0] > 5000  # (1/1000) ** (1/3) = 10 % of the rows
    assert counts[0] > 10 * counts[500]
    assert ranks.max() == 999
