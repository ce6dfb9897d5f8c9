"""Packed sorting against numpy's stable argsort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.kernels.windows.word_sort import gather, order_of

LOW, HIGH = -(2**63), 2**63 - 1


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(LOW, HIGH), min_size=1, max_size=8),
    st.integers(0, 300),
    st.sampled_from([0, 1, 2**20, 2**62]),
    st.integers(0, 2**32),
)
def test_order(pool, count, spread, seed):
    """Few distinct words with long runs of ties, close neighbours that tie in their upper bits, the whole range."""
    random = np.random.default_rng(seed)
    words = np.array(pool, np.int64)[random.integers(0, len(pool), count)]
    words = np.clip(words.astype(object) + random.integers(0, spread + 1, count).astype(object), LOW, HIGH)
    words = words.astype(np.int64)
    order = order_of(words)
    assert order.tolist() == np.argsort(words, kind="stable").tolist()
    result = np.empty(count, np.int64)
    gather(words, order, result)
    assert result.tolist() == sorted(words.tolist())


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_sizes(count):
    words = np.arange(count)[::-1].copy()
    assert order_of(words).tolist() == list(range(count))[::-1]
