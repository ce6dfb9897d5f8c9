"""row_number, rank, dense_rank, ntile, percent_rank and cume_dist: functions of a row's place, not of values.

`Standing` says where a range stands in its window: how many rows and peer groups are before it, how many rows there are in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.buffers import array_from
from sundog.expr.calls import WindowCall
from sundog.functions.framed import Longs, Positions
from sundog.functions.framed_picks import literal_int
from sundog.kernels.ranks import dense_ranks, ranks, row_numbers, rows_up_to_peers, tiles

PLACE_FUNCTIONS = frozenset({"row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist"})


@dataclass(frozen=True)
class Standing:
    """`rows` is the number of rows of the whole window, None where the range is the whole window."""

    rows_before: int = 0
    groups_before: int = 0
    rows: int | None = None


def place_values(call: WindowCall, segments: Positions, groups: Positions, standing: Standing) -> pa.Array:
    """The function's value for every row of the segments."""
    result = np.empty(int(segments[-1]), np.int64)
    match call.function:
        case "row_number":
            row_numbers(segments, standing.rows_before, result)
        case "rank":
            ranks(segments, groups, standing.rows_before, result)
        case "dense_rank":
            dense_ranks(segments, groups, standing.groups_before, result)
        case "ntile":
            numbers = result.copy()
            row_numbers(segments, standing.rows_before, numbers)
            tiles(numbers, _sizes(segments, standing), literal_int(call.args[0]), result)
        case "percent_rank":
            ranks(segments, groups, standing.rows_before, result)
            others = _sizes(segments, standing) - 1
            return array_from(np.where(others > 0, (result - 1) / np.maximum(others, 1), 0.0), None, pa.float64())
        case "cume_dist":
            rows_up_to_peers(segments, groups, standing.rows_before, result)
            return array_from(result / _sizes(segments, standing), None, pa.float64())
        case _:
            raise InternalError(f"{call.function} is not a function of a row's place")
    return array_from(result, None, call.dtype)


def _sizes(segments: Positions, standing: Standing) -> Longs:
    """How many rows the window of each row has."""
    sizes = np.diff(segments).astype(np.int64)
    if standing.rows is not None:
        sizes[:] = standing.rows
    return np.repeat(sizes, np.diff(segments))
