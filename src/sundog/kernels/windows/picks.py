"""Values taken from a place near the row: lag, lead, first, last and the n-th of a frame.

A row's place, and whether there is one, are found in one pass. numpy would need half a dozen arrays as long as the
rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sundog.kernels.compile import kernel

Positions = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@kernel
def nth_places(starts: Positions, stops: Positions, number: int, places: Longs, found: Bools) -> None:
    """The `number`-th place of each frame; of 0, the last. Places that are not in the frame are not found."""
    for row in range(len(starts)):
        start, stop = np.int64(starts[row]), np.int64(stops[row])
        place = start + number - 1 if number > 0 else stop - 1
        places[row] = place
        found[row] = start <= place < stop


@kernel
def places_away(rows: Longs, distance: int, starts: Positions, stops: Positions, places: Longs, found: Bools) -> None:
    """The place `distance` after each of `rows`; not found where that is not in the row's segment."""
    for index in range(len(rows)):
        place = rows[index] + distance
        places[index] = place
        found[index] = starts[index] <= place < stops[index]


@kernel
def gather_found(values: npt.NDArray[Any], places: Longs, found: Bools, result: npt.NDArray[Any]) -> None:
    """result[i] = values[places[i]] where found, else 0."""
    for row in range(len(places)):
        if found[row]:
            result[row] = values[places[row]]
        else:
            result[row] = 0
