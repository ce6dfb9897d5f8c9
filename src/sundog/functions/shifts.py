"""lag and lead: the value some rows before or behind, whatever the frame. They have no grouped face."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.buffers import Bools, validity_of
from sundog.expr.calls import WindowCall
from sundog.functions.declaration import Function, Nulls, Order, Reach, same_or_untyped
from sundog.functions.framed import Elements, FrameFunction, Inputs, Longs, Positions, constant_argument, taken
from sundog.kernels.windows.picks import places_away

_NUMBER = 1  # index of the argument with the number of rows; the third argument is the default


class Shift(FrameFunction):
    """The value some rows before or behind. Segments take the place of frames."""

    def __init__(self, call: WindowCall, *, back: bool) -> None:
        super().__init__(call)
        number = constant_argument(call, _NUMBER)
        self.distance = -number if back else number  # rows ahead; negative for rows back

    def elements(self, inputs: Inputs) -> Elements:
        return Elements(inputs.count, (inputs.args[0],))

    def summary(self, elements: Elements) -> Elements:
        """The values before the next range for a lag, those behind the previous range for a lead."""
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
        """The value for each of `rows`, which are in segments from `starts` to `stops`; and whether there is one."""
        values = elements.arrays[0]
        valid = validity_of(values) if self.call.ignore_nulls and self.distance != 0 else None
        if valid is None:
            places, there = np.empty(len(rows), np.int64), np.empty(len(rows), np.bool_)
            places_away(rows, self.distance, starts, stops, places, there)
            return taken(values, places, there), there
        first, last = starts.astype(np.int64), stops.astype(np.int64)
        before = np.concatenate([[0], np.cumsum(valid)])
        place = before[rows] + self.distance if self.distance < 0 else before[rows + 1] + self.distance - 1
        found = (place >= before[first]) & (place < before[last])
        place = np.append(np.flatnonzero(valid), 0)[np.where(found, place, -1)]
        return taken(values, place, found), found


def _shift(name: str, *, catalyst: str, back: bool) -> Function:
    return Function(
        name=name,
        catalyst=catalyst,
        arguments=3,
        result=same_or_untyped,
        framed=partial(Shift, back=back),
        nulls=Nulls.VALUES,
        order=Order.DECIDES,
        reach=Reach.NEIGHBOUR,
        constant=_NUMBER,
    )


FUNCTIONS = (_shift("lag", catalyst="Lag", back=True), _shift("lead", catalyst="Lead", back=False))
