"""Order of rows: every type, direction and NULLS FIRST or LAST, against a simple comparator."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.nodes import Column
from sundog.expr.order_words import digits
from sundog.expr.ordering import SortKey, select_k, sort_indices
from tests.oracle.batches import ALL_TYPES, arrow_arrays, record_batches


def key(dtype: pa.DataType, descending: bool = False, nulls_first: bool = True) -> SortKey:
    return SortKey(Column("a#1", dtype), descending, nulls_first)


def plain_values(array: pa.Array) -> list[Any]:
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    return array.to_pylist()


def naive_compare(left: Any, right: Any, key: SortKey) -> int:
    if left is None or right is None:
        if left is right:
            return 0
        return (-1 if left is None else 1) * (1 if key.nulls_first else -1)
    if isinstance(left, float) and (math.isnan(left) or math.isnan(right)):
        result = math.isnan(left) - math.isnan(right)
    else:
        if isinstance(left, str):
            left, right = left.encode(), right.encode()
        result = (left > right) - (left < right)
    return -result if key.descending else result


def naive_order(arrays: Sequence[pa.Array], keys: Sequence[SortKey]) -> list[int]:
    columns = [plain_values(array) for array in arrays]

    def compare(one: int, other: int) -> int:
        for column, sort_key in zip(columns, keys, strict=True):
            if result := naive_compare(column[one], column[other], sort_key):
                return result
        return 0

    return sorted(range(len(columns[0])), key=functools.cmp_to_key(compare))


@st.composite
def keyed_columns(draw: st.DrawFn, max_size: int = 60) -> tuple[list[pa.Array], list[SortKey]]:
    types = draw(st.lists(st.sampled_from(ALL_TYPES), min_size=1, max_size=3))
    batch = draw(record_batches(pa.schema([(str(i), t) for i, t in enumerate(types)]), max_size=max_size))
    keys = [key(t, draw(st.booleans()), draw(st.booleans())) for t in types]
    offset = draw(st.integers(0, len(batch)))
    return batch.slice(offset).columns, keys


@settings(max_examples=200, deadline=None)
@given(keyed_columns())
def test_sort_is_stable_and_in_sparks_order(case: tuple[list[pa.Array], list[SortKey]]) -> None:
    arrays, keys = case
    assert sort_indices(arrays, keys).tolist() == naive_order(arrays, keys)


@settings(max_examples=150, deadline=None)
@given(keyed_columns(), st.integers(0, 70))
def test_select_k_is_the_head_of_the_sort(case: tuple[list[pa.Array], list[SortKey]], k: int) -> None:
    arrays, keys = case
    assert select_k(arrays, keys, k).tolist() == naive_order(arrays, keys)[:k]


def digit_words(array: pa.Array, sort_key: SortKey) -> list[np.ndarray]:
    return [digit(None) for digit in digits(array, sort_key.descending, sort_key.nulls_first)]


@settings(max_examples=100, deadline=None)
@given(keyed_columns(max_size=12))
def test_words_order_and_tie_as_the_rows(case: tuple[list[pa.Array], list[SortKey]]) -> None:
    arrays, keys = case
    for array, sort_key in zip(arrays, keys, strict=True):
        words = list(zip(*(word.tolist() for word in digit_words(array, sort_key)), strict=True))
        values = plain_values(array)
        if not words:
            continue
        for i in range(len(values)):
            for j in range(len(values)):
                assert (words[i] > words[j]) - (words[i] < words[j]) == naive_compare(values[i], values[j], sort_key)


@pytest.mark.parametrize("descending", [False, True])
def test_negative_zero_ties_with_zero_and_nan_is_greatest(descending: bool) -> None:
    array = pa.array(np.array([np.nan, 0.0, -np.inf, -0.0, np.inf, np.copysign(np.nan, -1)]))
    ascending = [2, 1, 3, 4, 0, 5]
    expected = [0, 5, 4, 1, 3, 2] if descending else ascending
    assert sort_indices([array], [key(pa.float64(), descending)]).tolist() == expected


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_nulls_go_where_the_key_says_also_beside_the_extremes(descending: bool, nulls_first: bool) -> None:
    array = pa.array([2**63 - 1, None, -(2**63), None, 0])
    middle = [0, 4, 2] if descending else [2, 4, 0]
    expected = [1, 3, *middle] if nulls_first else [*middle, 1, 3]
    assert sort_indices([array], [key(pa.int64(), descending, nulls_first)]).tolist() == expected


@pytest.mark.parametrize("length", [7, 8, 9, 31, 32, 33, 100])
def test_strings_that_differ_late(length: int) -> None:
    common = "x" * length
    array = pa.array([common + "b", common, common + "a", common + "\x00", None, common + "a"])
    assert sort_indices([array], [key(pa.string())]).tolist() == [4, 1, 3, 2, 5, 0]
    assert sort_indices([array], [key(pa.string(), True)]).tolist() == [4, 0, 2, 5, 3, 1]


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_large_columns_with_wide_words(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 2**32))
    random = np.random.default_rng(seed)
    wide = pa.array(random.integers(-(2**63), 2**63 - 1, 50_000) >> random.choice([0, 1, 30, 60]))
    second = data.draw(arrow_arrays(pa.string(), 50_000, 50_000))
    keys = [key(pa.int64(), data.draw(st.booleans())), key(pa.string())]
    order = sort_indices([wide, second], keys)
    expected = np.lexsort([*digit_words(second, keys[1])[::-1], *digit_words(wide, keys[0])[::-1]])
    assert (order == expected).all()
    assert (select_k([wide, second], keys, 1000) == expected[:1000]).all()


def test_the_packed_sort_refines_words_that_share_their_high_bits() -> None:
    random = np.random.default_rng(3)
    words = (random.integers(0, 3, 5000) << 62) | random.integers(0, 4, 5000)
    array = pa.array(words.astype(np.uint64).view(np.int64))
    assert (sort_indices([array], [key(pa.int64())]) == np.argsort(np.asarray(array), kind="stable")).all()


def test_void_columns_leave_the_input_order() -> None:
    assert sort_indices([pa.nulls(3)], [key(pa.null())]).tolist() == [0, 1, 2]
    assert select_k([pa.nulls(3)], [key(pa.null())], 2).tolist() == [0, 1]
