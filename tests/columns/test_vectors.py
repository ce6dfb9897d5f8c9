"""Arrow -> vectors -> Arrow loses nothing, for every type, slice and encoding."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.arrow import compact, from_arrow, to_arrow
from sundog.columns.blocks import concat
from sundog.columns.vectors import Vector, nulls
from tests.oracle.batches import ALL_TYPES, arrow_arrays

LONG = "a string that is longer than twelve bytes"


def same(left: pa.Array, right: pa.Array) -> bool:
    """Bit by bit, NaN included."""
    left.validate(full=True)
    if pa.types.is_floating(left.type):
        storage = pa.int32() if left.type.bit_width == 32 else pa.int64()
        return left.view(storage).equals(right.view(storage))
    return left.equals(right)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ALL_TYPES).flatmap(arrow_arrays), st.integers(0, 9), st.integers(0, 9))
def test_round_trip(array: pa.Array, start: int, end: int) -> None:
    sliced = array.slice(start, max(len(array) - start - end, 0))
    vector = from_arrow(sliced)
    assert vector.length == len(sliced)
    assert same(to_arrow(vector), sliced)
    assert same(
        to_arrow(concat([vector, vector, nulls(array.type, 2)])),
        pa.concat_arrays([sliced, sliced, pa.nulls(2, array.type)]),
    )


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([pa.string(), pa.binary()]).flatmap(arrow_arrays), st.integers(0, 5))
def test_dictionaries_and_views(array: pa.Array, start: int) -> None:
    view = pa.string_view() if pa.types.is_string(array.type) else pa.binary_view()
    for encoded in (array.dictionary_encode(), array.cast(view)):
        vector = from_arrow(encoded.slice(start))
        assert vector.dtype == array.type
        assert same(to_arrow(vector), array.slice(start))
        again = to_arrow(vector, view)
        again.validate(full=True)
        assert again.cast(array.type).equals(array.slice(start))


def test_a_dictionary_may_hold_null() -> None:
    indices = pa.array([0, 1, None, 1], pa.int32())
    array = pa.DictionaryArray.from_arrays(indices, pa.array([LONG, None]))
    assert to_arrow(from_arrow(array)).to_pylist() == [LONG, None, None, None]


def test_concat_of_strings_from_different_blocks() -> None:
    left, right = from_arrow(pa.array([LONG, "x"])), from_arrow(pa.array([LONG + "!", None]))
    joined = concat([left, right, left.slice(0, 1)])
    assert len(joined.blocks) == 2
    assert to_arrow(joined).to_pylist() == [LONG, "x", LONG + "!", None, LONG]


def test_compact_lets_go_of_large_blocks() -> None:
    vector = from_arrow(pa.array([LONG * 1000] * 10 + [LONG]))
    kept = compact(vector.slice(10, 11))
    assert sum(block.size for block in kept.blocks) < 100
    assert to_arrow(kept).to_pylist() == [LONG]


def test_a_vector_of_nulls_has_no_values() -> None:
    vector = from_arrow(pa.nulls(3, pa.int64()))
    assert vector.all_null
    assert vector.nbytes == 0
    assert to_arrow(vector.take(vector.values[:2])).to_pylist() == [None, None]


def test_where_hides_rows() -> None:
    vector: Vector = from_arrow(pa.array([1, 2, None]))
    mask = from_arrow(pa.array([True, False, True])).values
    assert to_arrow(vector.where(mask)).to_pylist() == [1, None, None]


@pytest.mark.parametrize("dtype", [pa.bool_(), pa.int16(), pa.decimal128(20, 2), pa.string()], ids=str)
def test_empty(dtype: pa.DataType) -> None:
    assert to_arrow(from_arrow(pa.array([], dtype))).equals(pa.array([], dtype))
