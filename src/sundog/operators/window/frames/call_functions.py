"""The elements that a window call is computed from, and the summaries of them that other ranges need."""

from __future__ import annotations

from typing import TypeGuard

from sundog.expr.calls import BoundKind, WindowCall
from sundog.functions.framed import Elements, FrameFunction, Inputs, MergeableFunction
from sundog.functions.shifts import Shift
from sundog.operators.window.frames.frame_need import reach_of
from sundog.operators.window.frames.range_columns import RangeColumns


def inputs_of(call: WindowCall, columns: RangeColumns) -> Inputs:
    """The inputs of a call. A FILTER selects rows, but argument and FILTER are evaluated for all, errors included."""
    return Inputs(columns.count, tuple(columns.values(arg) for arg in call.args), columns.mask(call.filter))


def carried_forward(function: FrameFunction, elements: Elements) -> Elements | None:
    """The summary of these elements for the ranges behind; None if these need nothing."""
    if isinstance(function, Shift):
        return function.summary(elements) if function.distance < 0 else None
    frame = function.call.frame
    if frame.start.kind is BoundKind.UNBOUNDED_PRECEDING:
        return function.summary(elements)
    rows = reach_of(frame)[0] if frame.units == "rows" else 0
    return elements.slice(max(elements.count - rows, 0), elements.count) if rows else None


def carried_back(function: FrameFunction, elements: Elements) -> Elements | None:
    """The summary of these elements for the ranges before; None if these need nothing."""
    if isinstance(function, Shift):
        return function.summary(elements) if function.distance > 0 else None
    frame = function.call.frame
    if frame.end.kind is BoundKind.UNBOUNDED_FOLLOWING:
        return function.summary(elements)
    rows = reach_of(frame)[1] if frame.units == "rows" else 0
    return elements.slice(0, min(rows, elements.count)) if rows else None


def has_one_value(function: FrameFunction) -> TypeGuard[MergeableFunction]:
    """Whether every frame is all rows, and its value follows from the summaries of the ranges."""
    frame = function.call.frame
    is_whole = frame.start.kind is BoundKind.UNBOUNDED_PRECEDING and frame.end.kind is BoundKind.UNBOUNDED_FOLLOWING
    return is_whole and isinstance(function, MergeableFunction)


def merges_ranges(call: WindowCall) -> bool:
    """Whether a frame of the call may have summaries of other ranges among its elements."""
    unbounded = BoundKind.UNBOUNDED_PRECEDING, BoundKind.UNBOUNDED_FOLLOWING
    return call.frame.start.kind in unbounded or call.frame.end.kind in unbounded
