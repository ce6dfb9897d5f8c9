"""Numbers that depend on a row's place and its peers: row_number, rank, dense_rank, ntile.

`offsets` are the segments as in `frames.py`; `groups` are the peer groups (rows with equal order keys) in the same
form, and no group crosses a segment. `before` says how many rows, or groups, of the segment lie in ranges before this
one: a range of a larger window then counts on where the one before it stopped. It has an effect on the first segment
only, since a window that is cut into ranges has one segment.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sundog.kernels.compile import kernel

Positions = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


@kernel
def row_numbers(offsets: Positions, before: int, result: Longs) -> None:
    """1, 2, 3 ... in each segment."""
    for segment in range(len(offsets) - 1):
        first = np.int64(offsets[segment])
        number = np.int64(before) if segment == 0 else np.int64(0)
        for row in range(first, offsets[segment + 1]):
            result[row] = number + row - first + 1


@kernel
def ranks(offsets: Positions, groups: Positions, before: int, result: Longs) -> None:
    """One more than the number of rows of the segment before the row's first peer."""
    segment = 0
    for group in range(len(groups) - 1):
        first = np.int64(groups[group])
        while first >= offsets[segment + 1]:
            segment += 1
        rank = first - offsets[segment] + 1
        if segment == 0:
            rank += before
        for row in range(first, groups[group + 1]):
            result[row] = rank


@kernel
def dense_ranks(offsets: Positions, groups: Positions, before: int, result: Longs) -> None:
    """1, 2, 3 ... for the peer groups of each segment."""
    segment = 0
    rank = np.int64(before)
    for group in range(len(groups) - 1):
        first = groups[group]
        while first >= offsets[segment + 1]:
            segment += 1
            rank = np.int64(0)
        rank += 1
        for row in range(first, groups[group + 1]):
            result[row] = rank


@kernel
def rows_up_to_peers(offsets: Positions, groups: Positions, before: int, result: Longs) -> None:
    """How many rows of the segment are not after the row's last peer: the numerator of cume_dist."""
    segment = 0
    for group in range(len(groups) - 1):
        first = groups[group]
        while first >= offsets[segment + 1]:
            segment += 1
        count = np.int64(groups[group + 1]) - offsets[segment]
        if segment == 0:
            count += before
        for row in range(first, groups[group + 1]):
            result[row] = count


@kernel
def tiles(numbers: Longs, sizes: Longs, buckets: int, result: Longs) -> None:
    """ntile(buckets) of row number numbers[i] in a segment of sizes[i] rows: the first buckets are one row larger."""
    for row in range(len(numbers)):
        small = sizes[row] // buckets
        larger = sizes[row] % buckets
        place = numbers[row] - 1
        if place < larger * (small + 1):
            result[row] = place // (small + 1) + 1
        else:
            result[row] = larger + (place - larger * (small + 1)) // small + 1
