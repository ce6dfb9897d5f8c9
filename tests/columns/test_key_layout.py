"""Key words: hashing by column gives the hashes of the rows' words, and scattering keys while they are laid out gives
the same as scattering the words afterwards."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.arrow import from_arrow
from sundog.columns.key_layout import MAX_TARGETS, KeyLayout
from sundog.columns.key_words import KeyEncoder, assign_by_hash, hash_words
from sundog.columns.vectors import Vector
from sundog.errors import InternalError
from sundog.operators.aggregate.grouping.buckets import Spread
from tests.oracle.batches import ALL_TYPES, record_batches

LEVEL = 3


@st.composite
def key_chunks(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[Vector]]]:
    """Some chunks of keys, of which one at least is a string; strings may come as dictionary or view."""
    others = draw(st.lists(st.sampled_from(ALL_TYPES), max_size=4))
    text = draw(st.sampled_from([pa.string(), pa.binary()]))
    types = draw(st.permutations([text, *others]))
    schema = pa.schema([(f"k{number}", dtype) for number, dtype in enumerate(types)])
    chunks = []
    for _ in range(draw(st.integers(1, 3))):
        batch = draw(record_batches(schema, max_size=30))
        form = draw(st.sampled_from(["plain", "dictionary", "view"]))
        chunks.append([from_arrow(in_form(column, form)) for column in batch.columns])
    return types, chunks


def in_form(array: pa.Array, form: str) -> pa.Array:
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)) or form == "plain":
        return array
    if form == "dictionary":
        return array.dictionary_encode()
    return array.cast(pa.string_view() if pa.types.is_string(array.type) else pa.binary_view())


@settings(max_examples=150, deadline=None)
@given(key_chunks(), st.booleans())
def test_hashes_without_words(drawn: tuple[list[pa.DataType], list[list[Vector]]], null_mask: bool) -> None:
    types, chunks = drawn
    layout = KeyLayout.of(types)
    for keys in chunks:
        length = keys[0].length
        encoder = KeyEncoder.over(layout, [keys])
        with_nulls = null_mask or encoder.null_mask
        firsts = [places[0] for places in encoder._first_blocks]
        words = layout.encode(keys, length, with_nulls, firsts)
        expected = hash_words(layout, words, with_nulls, encoder.addresses)
        assert layout.hashes(keys, length).tolist() == expected.tolist()


@settings(max_examples=150, deadline=None)
@given(key_chunks(), st.integers(1, 5))
def test_words_scattered_at_once(drawn: tuple[list[pa.DataType], list[list[Vector]]], partitions: int) -> None:
    types, chunks = drawn
    encoder = KeyEncoder.over(KeyLayout.of(types), chunks)
    encoded = [encoder.encode(at, keys, keys[0].length) for at, keys in enumerate(chunks)]
    spread = Spread.by_hash([part.hashes for part in encoded], LEVEL, partitions)
    words = encoder.scatter(chunks, spread.targets, spread.starts)
    assert words.tolist() == spread.encoded(encoded).words.tolist()
    counts = np.zeros(partitions, np.int64)
    for part, target in zip(encoded, spread.targets, strict=True):
        assert assign_by_hash(part.hashes, LEVEL, partitions, counts).tolist() == target.tolist()
    assert np.diff(spread.starts).tolist() == counts.tolist()


def test_more_partitions_than_can_be_numbered_are_refused() -> None:
    hashes = np.arange(10, dtype=np.uint64) << np.uint64(60)
    counts = np.zeros(MAX_TARGETS + 1, np.int64)
    targets = assign_by_hash(hashes, LEVEL, MAX_TARGETS, counts)
    assert np.bincount(targets, minlength=MAX_TARGETS + 1).tolist() == counts.tolist()
    with pytest.raises(InternalError, match="65,537 partitions"):
        assign_by_hash(hashes, LEVEL, MAX_TARGETS + 1, counts)
