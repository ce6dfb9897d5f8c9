"""Sets of join keys: every member passes, bounds that contain a key are kept, and few other values pass."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.columns.key_sets import key_set, rows_passing
from sundog.expr.dynamic_filters.key_set import KeyFilter, KeySet
from sundog.expr.rank_columns import RankColumn
from sundog.expr.ranks import Rank, ranks_of
from sundog.plan.costs import DRIVER

ENDS = [-(2**63), 2**63 - 1]
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int32(), st.integers(-50, 50)),
    "long": (pa.int64(), st.one_of(st.integers(-50, 50), st.sampled_from(ENDS), st.integers(*ENDS))),
    "date": (pa.date32(), st.integers(-1000, 20000)),
    "decimal": (pa.decimal128(12, 2), st.decimals(-1000, 1000, places=2)),
    "wide decimal": (pa.decimal128(38, 0), st.sampled_from([Decimal(10) ** 30, Decimal(-5)])),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, float("nan"), 1.5])),
    "string": (pa.string(), st.sampled_from(["", "a", "ab", "a string of more than twelve bytes"])),
    "bool": (pa.bool_(), st.booleans()),
}


@pytest.mark.parametrize("name", sorted(VALUES))
@given(
    data=st.data(),
    bits=st.sampled_from([1, DRIVER.key_bits]),
    ordered=st.sampled_from([1, DRIVER.sorted_keys]),
    strings=st.sampled_from([1, DRIVER.key_strings]),
)
def test_every_key_passes_and_null_never_does(
    name: str, data: st.DataObject, bits: int, ordered: int, strings: int
) -> None:
    dtype, values = VALUES[name]
    keys, probed = (
        pa.array(data.draw(st.lists(st.one_of(st.none(), values), max_size=20)), _stored(dtype)).cast(dtype)
        for _ in range(2)
    )
    found = key_set(keys, replace(DRIVER, key_bits=bits, sorted_keys=ordered, key_strings=strings))
    for form in (probed, probed.dictionary_encode()):
        mask = rows_passing(KeyFilter("key", found), form)
        present = {rank for rank in ranks_of(keys) if rank is not None}
        for rank, passes in zip(ranks_of(probed), mask.tolist(), strict=True):
            assert passes or rank is None or rank not in present
            assert not (passes and rank is None)
    for rank in present:
        assert reaches(found, rank, rank)
        assert reaches(found, None, None)
    assert reaches(found, None, None) == bool(present)


def reaches(keys: KeySet, low: Rank | None, high: Rank | None) -> bool:
    ends = (RankColumn.of([end], keys.dtype) for end in (low, high))
    return bool(keys.reached_by(*ends)[0])


def _stored(dtype: pa.DataType) -> pa.DataType:
    return pa.int32() if dtype == pa.date32() else dtype


def test_bounds_between_two_keys_are_not_reached() -> None:
    for spread in (3, 10**12):  # one bit a value; a Bloom filter and the keys in order
        keys = key_set(pa.array([0, spread * 1000, spread * 2000]), DRIVER)
        assert reaches(keys, 0, 10)
        assert not reaches(keys, spread * 1000 + 8, spread * 2000 - 20)
        assert not reaches(keys, spread * 2000 + 1, None)
        assert not reaches(keys, None, -1)


def test_few_keys_that_are_not_in_a_bloom_filter_pass() -> None:
    numbers = np.random.default_rng(3).integers(*ENDS, 30_000)
    keys = key_set(pa.array(numbers[:10_000]), DRIVER)
    assert keys.bloom is not None
    assert rows_passing(KeyFilter("key", keys), pa.array(numbers[:10_000])).all()
    assert rows_passing(KeyFilter("key", keys), pa.array(numbers[10_000:])).mean() < 0.05


def test_no_keys_let_nothing_pass() -> None:
    empty = key_set(pa.array([None, None], pa.int64()), DRIVER)
    assert not rows_passing(KeyFilter("key", empty), pa.array([1, None])).any()
    assert not reaches(empty, None, None)


@pytest.mark.parametrize(
    ("numbers", "form"),
    [
        ({}, "bits"),
        ({"key_bits": 990}, "bloom"),
        ({"key_bits_at_least": 0, "key_bits_per_key": 9}, "bloom"),
        ({"key_bits_at_least": 0, "key_bits_per_key": 10}, "bits"),
    ],
)
def test_integers_are_kept_in_the_form_that_the_costs_ask_for(numbers: dict[str, int], form: str) -> None:
    keys = key_set(pa.array(range(0, 1000, 10)), replace(DRIVER, **numbers))  # 100 keys among 991 values
    assert (keys.bits is not None, keys.bloom is not None) == (form == "bits", form == "bloom")


def test_keys_are_kept_in_order_and_strings_kept_at_all_up_to_a_number() -> None:
    scattered, words = pa.array([0, 10**12, 10**13]), pa.array(["a", "b", "b", "c"])
    for most, is_kept in ((2, False), (3, True)):
        costs = replace(DRIVER, sorted_keys=most, key_strings=most)
        assert (key_set(scattered, costs).sorted_keys is not None) is is_kept
        assert (key_set(words, costs).texts is not None) is is_kept
    few_rows = replace(DRIVER, key_strings=3, rows_per_key_string=1)
    assert key_set(words, few_rows).texts is None  # four rows are too many to look for three strings


@given(
    keys=st.lists(st.integers(0, 500_000), min_size=1, max_size=3),
    low=st.integers(-10, 500_010),
    length=st.integers(0, 500_000),
)
def test_a_large_bitmap_knows_to_the_byte_whether_bounds_hold_a_key(keys: list[int], low: int, length: int) -> None:
    found, high = key_set(pa.array(keys), DRIVER), low + length
    assert found.bits is not None
    assert reaches(found, low, high) or not any(low <= key <= high for key in keys)
    assert not reaches(found, low, high) or any(low - 8 < key < high + 8 for key in keys)


def test_strings_that_are_no_utf_8_are_keys_as_well() -> None:
    stored = [b"a", b"\xff\xfe", b"a\xc3", None]
    keys = pa.array(stored, pa.binary()).cast(pa.string(), safe=False)
    for strings in (1, DRIVER.key_strings):
        found = key_set(keys, replace(DRIVER, key_strings=strings))
        assert (found.low, found.high) == (b"a", b"\xff\xfe")
        probed = pa.array([b"\xff\xfe", b"\xff\xff", None], pa.binary()).cast(pa.string(), safe=False)
        assert rows_passing(KeyFilter("key", found), probed).tolist()[0] is True
