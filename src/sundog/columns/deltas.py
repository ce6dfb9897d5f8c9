"""Integer columns that grow in small steps, sent as the steps.

    numbers of rows that one range gets     4711, 4714, 4715, 4721     first 4711, least step 1, steps 2, 0, 5

A range's rows are in the order in which they were read, so their row numbers take one byte each instead of four or
eight. So do the keys of tables that were written in key order.

Invariant: decoding gives exactly the encoded values. Steps wrap around in 64 bits in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.buffers import array_from, values_of

Longs = npt.NDArray[np.int64]
_FIRST, _STEP = b"first", b"step"
STEP_TYPE = pa.uint8()
_STEPS = 1 << STEP_TYPE.bit_width  # different steps that it can hold


@dataclass(frozen=True)
class Steps:
    """A column without NULLs: its first value, and for each value one byte, the step above `least`."""

    first: int
    least: int
    column: pa.Array

    @property
    def metadata(self) -> dict[bytes, bytes]:
        return {_FIRST: str(self.first).encode(), _STEP: str(self.least).encode()}


def steps_of(chunks: Sequence[pa.Array], sample: int) -> Steps | None:
    """The steps of a column of integers; None if they need more than a byte, or a value is NULL.

    The first `sample` values rule out most columns whose steps are too large; shorter columns are left as they are.
    """
    chunks = [chunk for chunk in chunks if len(chunk)]
    if sum(map(len, chunks)) < sample or any(chunk.null_count for chunk in chunks):
        return None
    values = [values_of(chunk) for chunk in chunks]
    start: Longs = values[0][:sample].astype(np.int64)
    if _range_of(start[1:] - start[:-1]) is None:
        return None
    whole: Longs = np.concatenate(values, dtype=np.int64) if len(values) > 1 else values[0].astype(np.int64, copy=False)
    steps: Longs = whole[1:] - whole[:-1]
    least = _range_of(steps)
    if least is None:
        return None
    narrow = np.zeros(len(whole), np.uint8)
    np.subtract(steps, least, out=narrow[1:], casting="unsafe")
    return Steps(int(whole[0]), least, pa.array(narrow))


def _range_of(steps: Longs) -> int | None:
    """The least step, if one byte holds the difference to the greatest; else None."""
    if not len(steps):
        return 0
    least, greatest = int(steps.min()), int(steps.max())
    return least if greatest - least < _STEPS else None


def is_of_steps(metadata: Mapping[bytes, bytes]) -> bool:
    """Whether a column with this metadata holds steps."""
    return _FIRST in metadata


def values_of_steps(chunks: Sequence[pa.Array], metadata: Mapping[bytes, bytes]) -> list[pa.Array]:
    """The 64-bit integers given to `steps_of`, in the chunks of their steps."""
    least = int(metadata[_STEP])
    before = _wrapped(int(metadata[_FIRST]) - least)
    found = []
    for chunk in chunks:
        values: Longs = values_of(chunk).astype(np.int64)
        values += least
        if len(values):
            values[:1] += before
            np.cumsum(values, out=values)
            before = int(values[-1])
        found.append(array_from(values, None, pa.int64()))
    return found


def _wrapped(number: int) -> int:
    """The number wrapped to 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
