"""Each loop against numpy, with and without a mask; and the edges of its arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pytest

from sundog.kernels.bits import BIT_AND, BIT_OR, BIT_XOR
from sundog.kernels.groups import by_group
from sundog.kernels.groups.by_group_decimals import divide_decimals, sum_decimals_by_group
from sundog.kernels.groups.by_group_moments import merge_comoments_by_group, merge_moments_by_group

NO_MASK = np.zeros(0, np.uint8)
RANDOM = np.random.default_rng(7)
IDS = RANDOM.integers(0, 9, 500).astype(np.int32)
INTS = RANDOM.integers(-1000, 1000, 500)
FLOATS = RANDOM.random(500)
MASKS = [NO_MASK, (RANDOM.random(500) < 0.5).astype(np.uint8)]


def by_hand(values: np.ndarray, mask: np.ndarray, function: Callable[[np.ndarray], float]) -> list[float]:
    kept = np.ones(500, bool) if len(mask) == 0 else mask.astype(bool)
    return [function(values[kept & (group == IDS)]) for group in range(9)]


@pytest.mark.parametrize("mask", MASKS, ids=["all", "masked"])
def test_counts_and_sums(mask: np.ndarray) -> None:
    counts, sums, floats = np.zeros(9, np.int64), np.zeros(9, np.int64), np.zeros(9)
    by_group.count_by_group(IDS, mask, counts)
    assert counts.tolist() == by_hand(INTS, mask, len)
    assert not by_group.sum_ints_by_group(IDS, INTS, mask, sums, np.zeros(9, np.uint8))
    assert sums.tolist() == by_hand(INTS, mask, np.sum)
    by_group.sum_floats_by_group(IDS, FLOATS, mask, floats)
    np.testing.assert_allclose(floats, by_hand(FLOATS, mask, np.sum), rtol=1e-12)


@pytest.mark.parametrize("mask", MASKS, ids=["all", "masked"])
def test_a_single_group_is_added_up_in_the_order_of_its_rows(mask: np.ndarray) -> None:
    """Bit for bit as a group among others, and onto what there was before."""
    ids, values = np.zeros(500, np.int32), FLOATS * 10.0 ** RANDOM.integers(-9, 9, 500)
    for kernel, column, dtype in (
        (by_group.sum_floats_by_group, values, np.float64),
        (by_group.sum_floats_by_group, INTS.astype(np.int32), np.float64),
        (by_group.add_ints_by_group, INTS.astype(np.int16), np.int64),
    ):
        one, two = np.full(1, 3, dtype), np.full(2, 3, dtype)
        kernel(ids, column, mask, one)
        kernel(ids, column, mask, two)
        assert one[0] == two[0]
        assert one[0] != 3
    counts = np.full(1, 3, np.int64)
    by_group.count_by_group(ids, mask, counts)
    assert counts[0] == 3 + (mask.sum() if len(mask) else 500)


@pytest.mark.parametrize("mask", MASKS, ids=["all", "masked"])
@pytest.mark.parametrize("largest", [True, False])
def test_extremes_and_where_they_are(mask: np.ndarray, largest: bool) -> None:
    expected = by_hand(INTS, mask, np.max if largest else np.min)
    limits = np.iinfo(np.int64)
    found = np.full(9, limits.min if largest else limits.max)
    by_group.extreme_ints_by_group(IDS, INTS, mask, largest, found)
    assert found.tolist() == expected
    rows = np.full(9, -1, np.int64)
    by_group.extreme_int_row_by_group(IDS, INTS, mask, largest, rows)
    assert INTS[rows].tolist() == expected
    floats = np.full(9, -np.inf if largest else np.nan)
    by_group.extreme_floats_by_group(IDS, INTS.astype(float), mask, largest, floats)
    assert floats.tolist() == expected


def test_null_partial_counts_stand_for_one_row() -> None:
    ids, counts = np.array([0, 0, 1], np.int32), np.zeros(2, np.int64)
    by_group.add_counts_by_group(ids, np.array([5, 99, 2]), np.array([1, 0, 1], np.uint8), counts)
    assert counts.tolist() == [6, 2]
    by_group.add_counts_by_group(ids, np.array([5, 99, 2]), NO_MASK, counts)
    assert counts.tolist() == [110, 4]


@pytest.mark.parametrize(
    ("values", "overflows"),
    [([2**63 - 1, 1], True), ([-(2**63), -1], True), ([2**63 - 1, -1], False), ([-(2**63), 2**63 - 1], False)],
)
def test_overflow_is_seen_at_the_row_where_it_happens(values: list[int], overflows: bool) -> None:
    ids, sums, lost = np.zeros(3, np.int32), np.zeros(1, np.int64), np.zeros(1, np.uint8)
    seen = by_group.sum_ints_by_group(ids, np.array([*values, 0]), NO_MASK, sums, lost)
    assert (seen, bool(lost[0])) == (overflows, overflows)
    assert sums[0] == (sum(values) + 2**63) % 2**64 - 2**63


def test_nan_is_above_all_and_first_zero_stays() -> None:
    ids = np.zeros(3, np.int32)
    largest, smallest = np.full(1, -np.inf), np.full(1, np.nan)
    values = np.array([1.0, np.nan, np.inf])
    by_group.extreme_floats_by_group(ids, values, NO_MASK, True, largest)
    by_group.extreme_floats_by_group(ids, values, NO_MASK, False, smallest)
    assert np.isnan(largest[0])
    assert smallest[0] == 1.0
    zeros = np.full(1, -np.inf)
    by_group.extreme_floats_by_group(ids[:2], np.array([-0.0, 0.0]), NO_MASK, True, zeros)
    assert np.signbit(zeros[0])


def test_bits() -> None:
    ids, values = np.zeros(3, np.int32), np.array([0b1100, 0b1010, 0b1000])
    for operation, start, expected in (
        (BIT_AND, -1, 0b1000),
        (BIT_OR, 0, 0b1110),
        (BIT_XOR, 0, 0b1110),
    ):
        bits = np.full(1, start, np.int64)
        by_group.combine_bits_by_group(ids, values, NO_MASK, operation, bits)
        assert bits[0] == expected


def test_first_and_last_rows() -> None:
    ids, mask = np.array([0, 1, 0, 1, 2], np.int32), np.array([0, 1, 1, 1, 0], np.uint8)
    first, last = np.full(3, -1, np.int64), np.full(3, -1, np.int64)
    by_group.first_row_by_group(ids, mask, first)
    by_group.last_row_by_group(ids, mask, last)
    assert (first.tolist(), last.tolist()) == ([2, 1, -1], [2, 3, -1])


def test_moments_merge_without_cancellation() -> None:
    count, mean, m2 = np.zeros(1), np.zeros(1), np.zeros(1)
    values = np.array([7_000_000_000_005.0, 7_000_000_000_007.0])
    merge_moments_by_group(np.zeros(2, np.int32), NO_MASK, np.ones(2), values, np.zeros(2), count, mean, m2)
    assert (count[0], mean[0], m2[0]) == (2.0, 7_000_000_000_006.0, 2.0)


def test_empty_sets_change_nothing_even_beside_huge_means() -> None:
    count, mean, m2 = np.array([2.0]), np.array([1e200]), np.array([3.0])
    empty = (np.zeros(1), np.array([-1e200]), np.zeros(1))
    merge_moments_by_group(np.zeros(1, np.int32), NO_MASK, *empty, count, mean, m2)
    assert (count[0], mean[0], m2[0]) == (2.0, 1e200, 3.0)
    states = np.array([[2.0, 1e200, 1e200, 3.0, 4.0, 5.0]])
    merge_comoments_by_group(np.zeros(1, np.int32), NO_MASK, np.array([[0.0, -1e200, -1e200, 0, 0, 0]]), states)
    assert states.tolist() == [[2.0, 1e200, 1e200, 3.0, 4.0, 5.0]]


def words(*numbers: int) -> np.ndarray:
    raw = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return np.frombuffer(raw, np.int64).reshape(-1, 2).copy()


def number(pair: np.ndarray) -> int:
    return int.from_bytes(pair.tobytes(), "little", signed=True)


LIMIT_38 = (np.uint64(10**38 & 0xFFFFFFFFFFFFFFFF), np.uint64(10**38 >> 64))


@pytest.mark.parametrize(
    ("values", "lost"),
    [
        ([10**37, -1, 5], False),
        ([-(10**38) + 1, 10**38 - 1, -7], False),
        ([10**38 - 1, 1], True),
        ([10**38 - 1, 10**38 - 1, -(10**38) + 1], True),
        ([-(10**38) + 1, -1], True),
        ([2**64 - 1, 1, -(2**64)], False),
    ],
)
def test_decimal_sums_carry_and_notice_38_digits(values: list[int], lost: bool) -> None:
    sums, flags = np.zeros((1, 2), np.int64), np.zeros(1, np.uint8)
    ids = np.zeros(len(values), np.int32)
    sum_decimals_by_group(ids, words(*values), NO_MASK, *LIMIT_38, sums, flags)
    assert bool(flags[0]) == lost
    if not lost:
        assert number(sums[0]) == sum(values)


def test_decimal_quotients_round_half_away_from_zero() -> None:
    dividends = [1, -1, 5, -5, 10**37, -(10**38) + 1, 2**100 + 1, 0, 7, -8]
    counts = [2, 2, 3, 3, 7, 2**32 - 1, 3, 5, 16, 16]
    out, flags = np.zeros((len(counts), 2), np.int64), np.zeros(len(counts), np.uint8)
    divide_decimals(words(*dividends), np.array(counts), 10_000, *LIMIT_38, out, flags)
    for at, (dividend, count) in enumerate(zip(dividends, counts, strict=True)):
        size = (2 * abs(dividend) * 10_000 + count) // (2 * count)
        assert bool(flags[at]) == (size >= 10**38)
        if not flags[at]:
            assert Decimal(number(out[at])) == (size if dividend >= 0 else -size)
