"""Our Snappy decompression gives the bytes of Arrow's codec; damaged input neither crashes nor writes outside of the
buffer."""

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


def block(size: int, *pieces: bytes) -> bytes:
    """A block of `size` bytes by hand."""
    length = bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes(length) + bytes([size]) + b"".join(pieces)


def literal(text: bytes, number_bytes: int = 0) -> bytes:
    """A literal of Snappy: its length is in the tag, or in a number of bytes after the tag."""
    if number_bytes == 0:
        return bytes([(len(text) - 1) << 2]) + text
    return bytes([(59 + number_bytes) << 2]) + (len(text) - 1).to_bytes(number_bytes, "little") + text


def copy(distance: int, count: int, kind: int) -> bytes:
    if kind == 1:
        return bytes([(distance >> 8) << 5 | (count - 4) << 2 | 1, distance & 255])
    return bytes([(count - 1) << 2 | kind]) + distance.to_bytes(2 if kind == 2 else 4, "little")


# Behind a piece: it is read in the loop for the last pieces of a block, or in the one for those before.
ENDS = pytest.mark.parametrize("end", [b"", b"the rest of a block, of more bytes than are read at once"])


@ENDS
@pytest.mark.parametrize("distance", range(1, 20))
@pytest.mark.parametrize(("count", "kind"), [(4, 1), (11, 1), (4, 2), (11, 2), (60, 2), (64, 2), (11, 3), (64, 3)])
def test_copies_that_overlap(distance: int, count: int, kind: int, end: bytes) -> None:
    """A literal of `distance` bytes, then a copy of more bytes than there were."""
    pattern = bytes(range(65, 65 + distance))
    text = (pattern * (count + 1))[: distance + count] + end
    last = [literal(end)] if end else []
    assert unpack(block(len(text), literal(pattern), copy(distance, count, kind), *last), len(text)) == text


@ENDS
@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("distance", [255, 256, 1027, 2047])
def test_copies_from_far_away(distance: int, kind: int, end: bytes) -> None:
    before = np.random.default_rng(1).integers(0, 256, 2100, np.uint8).tobytes()
    text = before + before[2100 - distance :][:9] + end
    last = [literal(end)] if end else []
    assert unpack(block(len(text), literal(before, 2), copy(distance, 9, kind), *last), len(text)) == text


@ENDS
@pytest.mark.parametrize("number_bytes", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [1, 16, 17, 61, 200])
def test_literals_whose_length_is_apart(count: int, number_bytes: int, end: bytes) -> None:
    text = bytes(range(40, 40 + count)) + end
    last = [literal(end)] if end else []
    assert unpack(block(len(text), literal(text[:count], number_bytes), *last), len(text)) == text


@ENDS
@pytest.mark.parametrize(
    "piece",
    [
        *(copy(distance, 8, kind) for distance in (0, 9) for kind in (1, 2, 3)),
        copy(1 << 31, 8, 3),
        copy(4, 64, 2),
        bytes([63 << 2]) + b"\xff\xff\xff\xff",
    ],
)
def test_pieces_that_cannot_be(piece: bytes, end: bytes) -> None:
    """From nowhere, from before the first of eight bytes, or more than the block has, or than it says that it has."""
    assert unpack(block(40, literal(b"abcdefgh"), piece, end), 40) is None


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
