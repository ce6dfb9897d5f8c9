from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.parquet.meta.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    ThriftError,
    read_struct,
    write_struct,
)

numbers = st.integers(-(2**63), 2**63 - 1)
leaves = st.one_of(
    st.tuples(st.just(TRUE), st.just(True)),
    st.tuples(st.just(BYTE), st.integers(0, 255)),
    st.tuples(st.sampled_from([I16, I32, I64]), numbers),
    st.tuples(st.just(DOUBLE), st.binary(min_size=8, max_size=8)),
    st.tuples(st.just(BINARY), st.binary(max_size=40)),
    st.tuples(st.just(LIST), st.tuples(st.just(I32), st.lists(numbers, max_size=20))),
    st.tuples(st.just(LIST), st.tuples(st.just(TRUE), st.lists(st.booleans(), max_size=20))),
)


def structs(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.dictionaries(st.integers(1, 60), values, max_size=6)


nested = st.recursive(
    structs(leaves),
    lambda inner: structs(
        st.one_of(
            leaves,
            inner.map(lambda s: (STRUCT, s)),
            st.lists(inner, max_size=17).map(lambda items: (LIST, (STRUCT, items))),
        )
    ),
    max_leaves=10,
)


@given(nested, st.binary(max_size=5))
def test_what_is_written_is_read_back(struct, rest):
    written = write_struct(struct)
    assert read_struct(written + rest) == (struct, len(written))


@given(structs(leaves).filter(bool))
def test_a_struct_cut_short_is_an_error(struct):
    with pytest.raises(ThriftError):
        read_struct(write_struct(struct)[:-1])


@pytest.mark.parametrize("opening", [b"\x1c", b"\x19\x19"])
def test_structs_and_lists_inside_each_other_without_end_are_an_error(opening):
    with pytest.raises(ThriftError):
        read_struct(opening * 100_000)


@pytest.mark.parametrize("number", [b"\xff" * 100_000, b"\xff" * 9 + b"\x02"])
def test_a_number_of_more_than_64_bits_is_an_error(number):
    with pytest.raises(ThriftError):
        read_struct(b"\x16" + number)
