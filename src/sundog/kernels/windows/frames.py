"""Where each row's window frame starts and stops, in one pass over sorted rows.

`SUM(x) OVER (ORDER BY t RANGE BETWEEN 10 PRECEDING AND CURRENT ROW)` asks for each row which rows lie within its frame.
Searching them costs O(log n) per row, comparing all O(n). But rows are sorted and so are the bounds, hence both ends
only ever move forward: two pointers, n steps each. That is also how Spark walks a frame, so a bound that (by a month's
end, or an infinite offset) steps back moves nothing here either.

Every kernel works per *segment*: `offsets` holds the first row of each segment and, last, the number of rows. A frame
never leaves its segment. Positions are int32; a start is inclusive, a stop exclusive; an empty frame has start >= stop.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sundog.kernels.compile import kernel

Positions = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@kernel
def starts_at_distance(words: Longs, distance: int, offsets: Positions, starts: Positions) -> None:
    """starts[i]: the first row of the segment whose word is at least words[i] + distance (which never overflows)."""
    for segment in range(len(offsets) - 1):
        first, last = offsets[segment], offsets[segment + 1]
        pointer = first
        for row in range(first, last):
            bound = words[row] + distance
            while pointer < last and words[pointer] < bound:
                pointer += 1
            starts[row] = pointer


@kernel
def stops_at_distance(words: Longs, distance: int, offsets: Positions, stops: Positions) -> None:
    """stops[i]: the first row of the segment whose word is above words[i] + distance (which never overflows)."""
    for segment in range(len(offsets) - 1):
        first, last = offsets[segment], offsets[segment + 1]
        pointer = first
        for row in range(first, last):
            bound = words[row] + distance
            while pointer < last and words[pointer] <= bound:
                pointer += 1
            stops[row] = pointer


@kernel
def starts_at_bound(words: Longs, bounds: Longs, offsets: Positions, starts: Positions) -> None:
    """starts[i]: the first row of the segment whose word is at least bounds[i]; pointers never go back."""
    for segment in range(len(offsets) - 1):
        first, last = offsets[segment], offsets[segment + 1]
        pointer = first
        for row in range(first, last):
            while pointer < last and words[pointer] < bounds[row]:
                pointer += 1
            starts[row] = pointer


@kernel
def stops_at_bound(words: Longs, bounds: Longs, offsets: Positions, stops: Positions) -> None:
    """stops[i]: the first row of the segment whose word is above bounds[i]; pointers never go back."""
    for segment in range(len(offsets) - 1):
        first, last = offsets[segment], offsets[segment + 1]
        pointer = first
        for row in range(first, last):
            while pointer < last and words[pointer] <= bounds[row]:
                pointer += 1
            stops[row] = pointer


@kernel
def rows_at_distance(distance: int, offsets: Positions, result: Positions) -> None:
    """result[i]: row i + distance, held within the segment (its stop included)."""
    for segment in range(len(offsets) - 1):
        first, last = np.int64(offsets[segment]), np.int64(offsets[segment + 1])
        for row in range(first, last):
            result[row] = first if row + distance < first else last if row + distance > last else row + distance


@kernel
def places_at_distance(first: int, count: int, result: Positions) -> None:
    """result[i]: first + i, held within 0 .. count."""
    for row in range(len(result)):
        result[row] = min(max(first + row, 0), count)


@kernel
def moved_places(places: Positions, low: int, high: int, shift: int, count: int, result: Positions) -> None:
    """result[i]: places[i], held within low .. high, + shift, held within 0 .. count."""
    for row in range(len(places)):
        place = shift + (low if places[row] < low else high if places[row] > high else np.int64(places[row]))
        result[row] = 0 if place < 0 else count if place > count else place


@kernel
def segment_bounds(offsets: Positions, starts: Positions, stops: Positions) -> None:
    """The whole segment of each row."""
    for segment in range(len(offsets) - 1):
        first, last = offsets[segment], offsets[segment + 1]
        for row in range(first, last):
            starts[row] = first
            stops[row] = last


@kernel
def word_changes(words: Longs, changes: Bools) -> None:
    """Set changes[i] where the word differs from the row before; what is set already stays set."""
    for row in range(1, len(words)):
        if words[row] != words[row - 1]:
            changes[row] = True
