"""Sorting by words against numpy's stable argsort."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sundog.kernels.windows import word_sort
from sundog.kernels.windows.word_sort import (
    DIGIT_BITS,
    MAX_RADIX_BITS,
    fresh_numbers,
    gather,
    order_of,
    radix_pass,
    sorted_keys,
    survey,
)

LOW, HIGH = -(2**63), 2**63 - 1
Longs = npt.NDArray[np.int64]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(LOW, HIGH), min_size=1, max_size=8),
    st.integers(0, 300),
    st.sampled_from([0, 1, 2**9, 2**10, 2**20, 2**30, 2**39, 2**40, 2**62]),
    st.integers(0, 2**32),
)
@example([LOW, HIGH], 300, 0, 0)
@example([HIGH], 300, 0, 0)
@example([LOW], 300, 2**30, 0)
def test_order(pool: list[int], count: int, spread: int, seed: int) -> None:
    """Few distinct words with long runs of ties, close neighbours that tie in their upper bits, the whole range."""
    random = np.random.default_rng(seed)
    words = np.array(pool, np.int64)[random.integers(0, len(pool), count)]
    words = np.clip(words.astype(object) + random.integers(0, spread + 1, count).astype(object), LOW, HIGH)
    words = words.astype(np.int64)
    order = order_of(words)
    expected = np.argsort(words, kind="stable")
    if order is None:
        assert expected.tolist() == list(range(count))
        return
    assert expected.tolist() != list(range(count))
    assert order.tolist() == expected.tolist()
    result = np.empty(count, np.int64)
    gather(words, order, result)
    assert result.tolist() == sorted(words.tolist())


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(LOW, HIGH), min_size=1, max_size=8),
    st.sampled_from([np.int8, np.int16, np.int32, np.int64]),
    st.booleans(),
    st.lists(st.integers(0, 80), max_size=4),
    st.sampled_from([0, 1, 2**9, 2**20, 2**62]),
    st.integers(0, 2**32),
)
@example([LOW, HIGH], np.int64, True, [80, 80], 0, 0)
@example([0, HIGH], np.int64, False, [300], 0, 0)
@example([5], np.int32, True, [0, 1, 0, 1], 0, 0)
@example([], np.int16, True, [0, 0], 0, 0)
def test_keys_in_chunks(
    pool: list[int], dtype: type[np.integer], descending: bool, sizes: list[int], spread: int, seed: int
) -> None:
    """Chunks of every width, empty ones, ties across them, either direction; keys at the ends of their type."""
    random, ends = np.random.default_rng(seed), np.iinfo(dtype)
    near = [min(max(each + int(random.integers(0, spread + 1)), ends.min), ends.max) for each in pool for _ in range(5)]
    chunks = [np.array([near[place] for place in random.integers(0, len(near), size)], dtype) for size in sizes if near]
    keys = [int(key) for chunk in chunks for key in chunk]
    expected = sorted(range(len(keys)), key=lambda row: -keys[row] if descending else keys[row])
    found = sorted_keys(chunks, descending, fresh_numbers, np.empty)
    if found is None:
        assert expected == list(range(len(keys)))
        return
    assert expected != list(range(len(keys)))
    assert found.rows.tolist() == expected
    if found.keys is None:
        assert max(keys) - min(keys) >= 2**54
    else:
        assert found.keys.dtype == dtype
        assert found.keys.tolist() == [keys[row] for row in expected]


@pytest.mark.parametrize("count", [2, 3, 1000])
def test_sizes(count: int) -> None:
    order = order_of(np.arange(count)[::-1].copy())
    assert order is not None
    assert order.tolist() == list(range(count))[::-1]


@pytest.mark.parametrize("words", [[], [5], [5, 5, 5], [LOW, LOW, 0, HIGH, HIGH]])
def test_rows_in_order_are_not_sorted(words: list[int]) -> None:
    assert order_of(np.array(words, np.int64)) is None


@pytest.mark.parametrize("bits", [1, DIGIT_BITS, DIGIT_BITS + 1, MAX_RADIX_BITS, MAX_RADIX_BITS + 1, 63, 64])
def test_words_of_few_bits_are_sorted_by_digits(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more bits, by numpy; of words that lie close together, by the bits in which they differ."""
    taken: list[int] = []
    by_digits = word_sort._by_digits
    monkeypatch.setattr(word_sort, "_by_digits", lambda *given: taken.append(given[2]) or by_digits(*given))
    low = LOW if bits == 64 else -(2 ** (bits - 1)) if bits > MAX_RADIX_BITS else HIGH - 2**bits + 1
    random = np.random.default_rng(bits)
    words = np.array([low + int(n) for n in random.integers(0, 2**bits, 500, np.uint64)] + [low + 2**bits - 1, low])
    order = order_of(words.astype(np.int64))
    assert order is not None
    assert order.tolist() == np.argsort(words, kind="stable").tolist()
    assert taken == ([bits] if bits <= MAX_RADIX_BITS else [])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(LOW, HIGH), max_size=20))
def test_survey(words: list[int]) -> None:
    rising, falling = (survey(np.array(words, np.int64), descending) for descending in (False, True))
    assert rising == ((min(words), max(words), words == sorted(words)) if words else (0, 0, True))
    assert falling == ((~max(words), ~min(words), words == sorted(words)[::-1]) if words else (0, 0, True))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=50), st.integers(0, 54), st.integers(1, 10))
def test_radix_pass_is_stable(numbers: list[int], shift: int, width: int) -> None:
    packed = np.array(numbers, np.uint64)
    result = np.empty_like(packed)
    radix_pass(packed, shift, width, np.empty(1 << width, np.int64), result)
    assert result.tolist() == sorted(numbers, key=lambda number: number >> shift & (1 << width) - 1)
