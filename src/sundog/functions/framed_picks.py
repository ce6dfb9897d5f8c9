"""first, last, nth_value, lag and lead: values found by their place among the elements.

A *candidate* is an element that may be picked: one that the FILTER keeps and, with IGNORE NULLS, that is not NULL. Where all
elements are candidates the place is plain arithmetic on the frame's bounds; else it goes through running counts.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.buffers import Bools, both_valid, validity_of
from sundog.expr.nodes import Expr, Literal
from sundog.functions.framed import Elements, FrameFunction, Inputs, Longs, Positions


def literal_int(expr: Expr) -> int:
    if not isinstance(expr, Literal) or expr.value is None:
        raise InternalError("the place in nth_value, lag, lead and ntile is a constant")
    return int(expr.value)


class Pick(FrameFunction):
    """first, last, any_value and nth_value of a frame. Elements: the values, and which of them the filter keeps."""

    def elements(self, inputs: Inputs) -> Elements:
        kept = np.ones(inputs.count, np.bool_) if inputs.kept is None else inputs.kept
        return Elements(inputs.count, (inputs.args[0], kept))

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        first, last = starts.astype(np.int64), stops.astype(np.int64)
        candidates = self._candidates(elements)
        if candidates is not None:
            before = np.concatenate([[0], np.cumsum(candidates)])
            first, last = before[first], before[last]
        place = last - 1 if self.call.function == "last" else first + self._number - 1
        found = (place >= first) & (place < last)
        if candidates is not None:
            place = np.append(np.flatnonzero(candidates), 0)[np.where(found, place, -1)]
        return taken(elements.arrays[0], place, found)

    def essence(self, elements: Elements) -> Elements:
        candidates = self._candidates(elements)
        rows = np.arange(elements.count) if candidates is None else np.flatnonzero(candidates)
        rows = rows[-1:] if self.call.function == "last" else rows[: self._number]
        values, kept = elements.arrays
        return Elements(len(rows), (values.take(pa.array(rows)), kept[rows]))

    @property
    def _number(self) -> int:
        return literal_int(self.call.args[1]) if self.call.function == "nth_value" else 1

    def _candidates(self, elements: Elements) -> Bools | None:
        values, kept = elements.arrays
        valid = validity_of(values) if self.call.ignore_nulls else None
        return both_valid(None if kept.all() else kept, valid)


class Shift(FrameFunction):
    """lag and lead: the value some rows away, whatever the frame. Its segments stand in for frames."""

    @property
    def distance(self) -> int:
        """Rows ahead; negative for rows back."""
        number = literal_int(self.call.args[1])
        return -number if self.call.function == "lag" else number

    def elements(self, inputs: Inputs) -> Elements:
        return Elements(inputs.count, (inputs.args[0],))

    def essence(self, elements: Elements) -> Elements:
        """What is before this range's neighbour for a lag, what is behind it for a lead."""
        rows = np.arange(elements.count)
        if self.call.ignore_nulls and (valid := validity_of(elements.arrays[0])) is not None:
            rows = np.flatnonzero(valid)
        wanted = abs(self.distance)
        rows = rows[max(len(rows) - wanted, 0) :] if self.distance < 0 else rows[:wanted]
        return Elements(len(rows), (elements.arrays[0].take(pa.array(rows)),))

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        raise InternalError("lag and lead have no frame")

    def evaluate_rows(
        self, elements: Elements, rows: Longs, starts: Positions, stops: Positions
    ) -> tuple[pa.Array, Bools]:
        """The value for each of `rows`, which lie in segments from `starts` to `stops`; and whether there is one."""
        values = elements.arrays[0]
        first, last = starts.astype(np.int64), stops.astype(np.int64)
        valid = validity_of(values) if self.call.ignore_nulls and self.distance != 0 else None
        if valid is None:
            place = rows + self.distance
            found = (place >= first) & (place < last)
            return taken(values, place, found), found
        before = np.concatenate([[0], np.cumsum(valid)])
        place = before[rows] + self.distance if self.distance < 0 else before[rows + 1] + self.distance - 1
        found = (place >= before[first]) & (place < before[last])
        place = np.append(np.flatnonzero(valid), 0)[np.where(found, place, -1)]
        return taken(values, place, found), found


def taken(values: pa.Array, places: Longs, found: Bools) -> pa.Array:
    """The values at the places, NULL where nothing was found."""
    if not len(values):
        return pa.nulls(len(places), values.type)
    if bool(found.all()):
        return values.take(pa.array(places))
    return values.take(pa.array(np.where(found, places, 0), mask=~found))
