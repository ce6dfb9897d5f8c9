"""Random segments of sorted rows and their frames in plain Python: the reference for the window kernels."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

Positions = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Frames:
    """Segments (as offsets) and, for each row, a frame within its segment; starts and stops never decrease."""

    offsets: Positions
    starts: Positions
    stops: Positions

    @property
    def rows(self) -> int:
        return len(self.starts)


@st.composite
def segment_offsets(draw: st.DrawFn, max_segments: int = 4, min_rows: int = 0, max_rows: int = 30) -> Positions:
    sizes = draw(st.lists(st.integers(min_rows, max_rows), min_size=1, max_size=max_segments))
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


@st.composite
def frames(draw: st.DrawFn) -> Frames:
    offsets = draw(segment_offsets())
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    starts, stops = np.zeros(offsets[-1], np.int32), np.zeros(offsets[-1], np.int32)
    for first, last in itertools.pairwise(offsets):
        for array in (starts, stops):
            array[first:last] = np.sort(random.integers(first, last + 1, last - first))
    return Frames(offsets, starts, stops)


def segment_of(offsets: Positions, row: int) -> tuple[int, int]:
    number = int(np.searchsorted(offsets, row, side="right")) - 1
    return int(offsets[number]), int(offsets[number + 1])
