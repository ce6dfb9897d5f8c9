"""Bytes of the strings of vectors, and whether they fit Arrow arrays, whose offsets have 32 bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sundog.columns.vectors import Vector
from sundog.kernels.strings import total_length
from sundog.types import is_text

LARGEST_STRING_BYTES = 2**31 - 1
_ESTIMATE_ERROR = 64  # how many times longer than the sampled strings the others may be


def text_bytes(vector: Vector) -> int:
    """The bytes of its strings."""
    return int(total_length(vector.values, 1)) if is_text(vector.dtype) and not vector.all_null else 0


def is_writable(vectors: Sequence[Vector]) -> bool:
    """Whether the strings of each vector fit one Arrow array. Lengths are added up only if an estimate is too close."""
    return all(
        vector.nbytes <= LARGEST_STRING_BYTES // _ESTIMATE_ERROR or text_bytes(vector) <= LARGEST_STRING_BYTES
        for vector in vectors
        if is_text(vector.dtype)
    )


def writable_pieces(vectors: Sequence[Vector], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The rows in pieces that fit Arrow arrays: mostly one piece; more if many long strings are together."""
    if end - start <= 1 or is_writable([vector.slice(start, end) for vector in vectors]):
        yield start, end
        return
    half = (start + end) // 2
    yield from writable_pieces(vectors, start, half)
    yield from writable_pieces(vectors, half, end)
