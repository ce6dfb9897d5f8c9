"""Snappy must be what Arrow's codec makes of it, and damage must neither crash nor write outside of the room."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.kernels.pages.parquet_values import BROKEN
from sundog.kernels.pages.snappy import SLACK, unpack_snappy

CODEC = pa.Codec("snappy")
GUARD = 0xA5


def unpack(packed: bytes, size: int) -> bytes | None:
    source = np.frombuffer(packed, np.uint8)
    room = np.full(size + SLACK + 64, GUARD, np.uint8)
    start = source.ctypes.data
    outcome = unpack_snappy(start, start + len(source), room.ctypes.data, size)
    assert (room[size + SLACK :] == GUARD).all()
    return None if outcome == BROKEN else room[:size].tobytes()


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Bytes with repetitions near and far, short and long."""
    text = b""
    for _ in range(draw(st.integers(0, 12))):
        piece = draw(st.binary(min_size=1, max_size=draw(st.sampled_from([1, 3, 7, 9, 70, 300]))))
        text += piece * draw(st.sampled_from([1, 1, 2, 5, 40]))
        if text and draw(st.booleans()):
            start = draw(st.integers(0, len(text) - 1))
            text += text[start : start + draw(st.integers(1, 100))]
    return text


@settings(max_examples=300, deadline=None)
@given(text=texts())
def test_what_was_packed(text: bytes) -> None:
    assert unpack(CODEC.compress(text, asbytes=True), len(text)) == text


@pytest.mark.parametrize("size", [0, 1, 59, 60, 61, 255, 256, 257, 65_535, 65_536, 65_537, 1 << 20])
@pytest.mark.parametrize("values", [1, 2, 17, 256])
def test_lengths_of_every_kind(size: int, values: int) -> None:
    text = np.random.default_rng(size).integers(0, values, size, np.uint8).tobytes()
    assert unpack(CODEC.compress(text, asbytes=True), size) == text


@pytest.mark.parametrize("distance", range(1, 20))
@pytest.mark.parametrize("count", [4, 11, 60, 64])
def test_copies_that_overlap(distance: int, count: int) -> None:
    """Written by hand: a literal of `distance` bytes, then a copy of more bytes than there were."""
    pattern = bytes(range(65, 65 + distance))
    packed = bytes([distance + count, (distance - 1) << 2]) + pattern
    packed += bytes([(count - 1) << 2 | 2]) + distance.to_bytes(2, "little")
    assert unpack(packed, distance + count) == (pattern * (count + 1))[: distance + count]
    far = packed[: -3 - distance] + pattern + bytes([(count - 1) << 2 | 3]) + distance.to_bytes(4, "little")
    assert unpack(far, distance + count) == (pattern * (count + 1))[: distance + count]


@settings(max_examples=400, deadline=None)
@given(text=texts(), data=st.data())
def test_damage_is_found_or_harmless(text: bytes, data: st.DataObject) -> None:
    packed = bytearray(CODEC.compress(text, asbytes=True))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    packed = packed[: data.draw(st.integers(0, len(packed)))]
    found = unpack(bytes(packed), len(text))
    assert found is None or len(found) == len(text)


@pytest.mark.parametrize("size", [3, 5, 400])
def test_another_length_than_the_page_says_is_broken(size: int) -> None:
    assert unpack(CODEC.compress(b"text", asbytes=True), size) is None
