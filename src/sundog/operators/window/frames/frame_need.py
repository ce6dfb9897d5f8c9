"""What each call needs to know of rows outside a range: the basis for cutting a window into ranges.

| frame or function | need | example |
|---|---|---|
| RANGE, offsets on both sides | the *halo*: rows whose keys lie within reach | RANGE 10 PRECEDING |
| ROWS, offsets on both sides; lag, lead | *edges*: values of the next rows before and behind | lag(x, 2) |
| unbounded on one side or both | *carried state*: a summary of all rows before or behind | SUM(x) OVER (ORDER BY t) |
| rank, row_number | the number of rows and keys before | ROW_NUMBER() OVER (ORDER BY t) |
| ntile, percent_rank, cume_dist | that, and the number of all rows | NTILE(4) OVER (ORDER BY t) |

A frame that is unbounded on one side and ends before the row on the other (UNBOUNDED PRECEDING .. 5 PRECEDING) would
need the state at a point inside another range. Such frames, infinite offsets and very wide ROWS frames are computed in
one range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from sundog.expr.calls import Bound, BoundKind, Frame, WindowCall
from sundog.functions.declaration import Order, Reach
from sundog.functions.table import constant_of, function_of
from sundog.operators.window.frames.order_key import is_finite

MAX_EDGE_ROWS = 200_000  # of a ROWS frame, lag or lead: values that each range receives from its neighbours, at most


class FrameNeed(Enum):
    """The greatest need of a call; the planner chooses its passes by it."""

    OWN_ROWS = "own rows"  # RANGE BETWEEN CURRENT ROW AND CURRENT ROW: peers are in one range
    HALO = "halo"  # RANGE BETWEEN 10 PRECEDING AND CURRENT ROW; ROWS 3 PRECEDING; lag(x)
    CARRIED_STATE = "carried state"  # SUM(x) OVER (ORDER BY t); ROW_NUMBER(); RANK()
    WHOLE_COUNT = "whole count"  # NTILE(4); PERCENT_RANK(); CUME_DIST()
    ONE_RANGE = "one range"  # ROWS BETWEEN UNBOUNDED PRECEDING AND 5 PRECEDING


@dataclass(frozen=True)
class Need:
    """The need of a set of calls. `reach`: the frames whose offset bounds move keys."""

    kind: FrameNeed = FrameNeed.OWN_ROWS
    reach: tuple[Frame, ...] = ()
    carried_calls: tuple[str, ...] = ()  # names of calls that need a summary of the rows before or behind
    order_sensitive: bool = False  # whether the order of rows with equal keys changes the result

    @property
    def two_passes(self) -> bool:
        """Whether all ranges must be summarized before any of them can be computed."""
        return bool(self.carried_calls) and self.kind is not FrameNeed.ONE_RANGE


def need_of(call: WindowCall) -> Need:
    """The need of one call."""
    function = function_of(call)
    decides = function.order is Order.DECIDES
    match function.reach:
        case Reach.ALL:
            return Need(FrameNeed.WHOLE_COUNT, (), (call.name,), decides)
        case Reach.BEFORE:
            return Need(FrameNeed.CARRIED_STATE, (), (call.name,), decides)
        case Reach.NEIGHBOUR:
            return _edges(call, abs(constant_of(call)))
        case Reach.FRAME:
            return _need_of_frame(call, decides or call.frame.units == "rows" or call.in_order)


def _need_of_frame(call: WindowCall, sensitive: bool) -> Need:
    frame = call.frame
    if not (is_finite(frame.start) and is_finite(frame.end)):
        return Need(FrameNeed.ONE_RANGE, order_sensitive=sensitive)
    opens = frame.start.kind is BoundKind.UNBOUNDED_PRECEDING
    stays_open = frame.end.kind is BoundKind.UNBOUNDED_FOLLOWING
    if opens or stays_open:
        if call.in_order:  # adding up the ranges' sums is not adding the rows in order
            return Need(FrameNeed.ONE_RANGE, _offset_frames(frame), order_sensitive=True)
        away = (opens and _is_preceding(frame.end)) or (stays_open and _is_following(frame.start))
        wide = frame.units == "rows" and max(reach_of(frame)) > MAX_EDGE_ROWS
        if away or wide:
            return Need(FrameNeed.ONE_RANGE, _offset_frames(frame), order_sensitive=sensitive)
        return Need(FrameNeed.CARRIED_STATE, _offset_frames(frame), (call.name,), sensitive)
    if frame.units == "rows":
        return _edges(call, max(reach_of(frame)))
    reach = _offset_frames(frame)
    return Need(FrameNeed.HALO if reach else FrameNeed.OWN_ROWS, reach, (), sensitive)


def needs_of(calls: Sequence[WindowCall]) -> Need:
    """The need of all calls together."""
    needs = [need_of(call) for call in calls]
    order = list(FrameNeed)
    return Need(
        max((need.kind for need in needs), key=order.index, default=FrameNeed.OWN_ROWS),
        tuple(dict.fromkeys(frame for need in needs for frame in need.reach)),
        tuple(name for need in needs for name in need.carried_calls),
        any(need.order_sensitive for need in needs),
    )


def reach_of(frame: Frame) -> tuple[int, int]:
    """How many rows before and behind its own a ROWS frame can reach; 0 for an unbounded end, which has no edges."""
    before = -int(frame.start.offset) if frame.start.kind is BoundKind.OFFSET else 0
    behind = int(frame.end.offset) if frame.end.kind is BoundKind.OFFSET else 0
    return max(before, 0), max(behind, 0)


def _edges(call: WindowCall, rows: int) -> Need:
    if rows > MAX_EDGE_ROWS:
        return Need(FrameNeed.ONE_RANGE, order_sensitive=True)
    return Need(FrameNeed.HALO, (), (call.name,) if rows else (), True)


def _offset_frames(frame: Frame) -> tuple[Frame, ...]:
    has_offset = frame.units == "range" and BoundKind.OFFSET in (frame.start.kind, frame.end.kind)
    return (frame,) if has_offset else ()


def _is_preceding(bound: Bound) -> bool:
    return bound.kind is BoundKind.OFFSET and bound.offset < 0


def _is_following(bound: Bound) -> bool:
    return bound.kind is BoundKind.OFFSET and bound.offset > 0
