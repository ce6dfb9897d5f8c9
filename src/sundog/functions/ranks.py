"""row_number, rank, dense_rank, ntile, percent_rank and cume_dist: functions of a row's position, not of values.

`Standing` is the position of a range in its window: the number of rows and peer groups before it, and of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sundog.expr.buffers import array_from
from sundog.expr.calls import WindowCall
from sundog.functions.declaration import Function, Nulls, Order, Reach, always
from sundog.functions.framed import Longs, Positions, constant_argument
from sundog.kernels.windows.ranks import dense_ranks, ranks, row_numbers, rows_up_to_peers, tiles


@dataclass(frozen=True)
class Standing:
    """`rows` is the number of rows of the whole window; None if the range is the whole window."""

    rows_before: int = 0
    groups_before: int = 0
    rows: int | None = None


Peers = Callable[[], Positions]
"""Gives the starts of the groups of peers. Only some functions need them: they take a pass over the order keys."""

# The call, the starts of its segments, the groups of peers in them, and the range's position -> a value per row.
RankFunction = Callable[[WindowCall, Positions, Peers, Standing], pa.Array]


def _row_number(call: WindowCall, segments: Positions, peers: Peers, standing: Standing) -> pa.Array:
    return array_from(_numbers(segments, standing), None, call.dtype)


def _rank(call: WindowCall, segments: Positions, peers: Peers, standing: Standing) -> pa.Array:
    return array_from(_ranks(segments, peers, standing), None, call.dtype)


def _dense_rank(call: WindowCall, segments: Positions, peers: Peers, standing: Standing) -> pa.Array:
    result = _empty(segments)
    dense_ranks(segments, peers(), standing.groups_before, result)
    return array_from(result, None, call.dtype)


def _ntile(call: WindowCall, segments: Positions, peers: Peers, standing: Standing) -> pa.Array:
    result = _empty(segments)
    tiles(_numbers(segments, standing), _sizes(segments, standing), constant_argument(call, 0), result)
    return array_from(result, None, call.dtype)


def _percent_rank(call: WindowCall, segments: Positions, peers: Peers, standing: Standing) -> pa.Array:
    result = _ranks(segments, peers, standing)
    others = _sizes(segments, standing) - 1
    return array_from(np.where(others > 0, (result - 1) / np.maximum(others, 1), 0.0), None, call.dtype)


def _cume_dist(call: WindowCall, segments: Positions, peers: Peers, standing: Standing) -> pa.Array:
    result = _empty(segments)
    rows_up_to_peers(segments, peers(), standing.rows_before, result)
    return array_from(result / _sizes(segments, standing), None, call.dtype)


def _empty(segments: Positions) -> Longs:
    return np.empty(int(segments[-1]), np.int64)


def _numbers(segments: Positions, standing: Standing) -> Longs:
    result = _empty(segments)
    row_numbers(segments, standing.rows_before, result)
    return result


def _ranks(segments: Positions, peers: Peers, standing: Standing) -> Longs:
    result = _empty(segments)
    ranks(segments, peers(), standing.rows_before, result)
    return result


def _sizes(segments: Positions, standing: Standing) -> Longs:
    """The number of rows in the window of each row."""
    sizes = np.diff(segments).astype(np.int64)
    if standing.rows is not None:
        sizes[:] = standing.rows
    return np.repeat(sizes, np.diff(segments))


def _of_place(
    name: str,
    catalyst: str,
    dtype: pa.DataType,
    ranked: RankFunction,
    reach: Reach,
    *,
    order: Order = Order.IGNORED,
    constant: int | None = None,
    counts_keys: bool = False,
) -> Function:
    return Function(
        name=name,
        catalyst=catalyst,
        arguments=0 if constant is None else 1,
        result=always(dtype),
        ranked=ranked,
        nulls=Nulls.NO_ARGUMENT,
        order=order,
        reach=reach,
        constant=constant,
        counts_keys=counts_keys,
    )


FUNCTIONS = (
    _of_place("row_number", "RowNumber", pa.int32(), _row_number, Reach.BEFORE, order=Order.DECIDES),
    _of_place("rank", "Rank", pa.int32(), _rank, Reach.BEFORE),
    _of_place("dense_rank", "DenseRank", pa.int32(), _dense_rank, Reach.BEFORE, counts_keys=True),
    _of_place("ntile", "NTile", pa.int32(), _ntile, Reach.ALL, order=Order.DECIDES, constant=0),
    _of_place("percent_rank", "PercentRank", pa.float64(), _percent_rank, Reach.ALL),
    _of_place("cume_dist", "CumeDist", pa.float64(), _cume_dist, Reach.ALL),
)
