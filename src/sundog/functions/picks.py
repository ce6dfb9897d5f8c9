"""Functions whose result is a value of one of the rows: first, last, any_value, nth_value, min_by, max_by.

The result depends on the order of rows. So does that of min_by and max_by if several rows have the same extreme value:
the last one wins. Spark's buffer keeps its row only if the new one is strictly worse. Spark's order by group is the
order of rows in a task, then the order of tasks; `operators/aggregate/phases.py` says how sundog keeps it.

Over frames, a *candidate* is an element that may be picked: one that passes the FILTER and, with IGNORE NULLS, is not
NULL. If all elements are candidates, the position follows from the frame's bounds; else from running counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sundog.columns.vectors import Bytes, Vector, both, full_mask, nulls
from sundog.expr.buffers import Bools, both_valid, validity_of
from sundog.expr.calls import AggregateCall, WindowCall
from sundog.functions.declaration import Function, Nulls, Order, same, same_or_untyped
from sundog.functions.framed import Elements, FrameFunction, Inputs, Positions, constant_argument, taken
from sundog.functions.grouped import FLAG, Groups, counted, mask_of
from sundog.functions.winning_rows import Rows, WinningRow, extreme_places, extreme_rows
from sundog.kernels.groups.by_group import first_row_by_group, last_row_by_group
from sundog.kernels.windows.picks import nth_places


class GroupedPick(WinningRow):
    """The first or last row of a group; a NULL counts as a value unless nulls are ignored.

    A state is (value, whether there is one).
    """

    def __init__(self, call: AggregateCall, *, last: bool = False) -> None:
        super().__init__(call)
        self._last = last

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (self.call.args[0].dtype, FLAG)

    def _win(self, columns: Sequence[Vector], valid: Bytes | None, groups: Groups) -> Rows:
        rows = np.full(groups.count, -1, np.int64)
        find = last_row_by_group if self._last else first_row_by_group
        find(groups.ids, mask_of(valid), rows)
        return rows

    def _competing(self, args: Sequence[Vector], rows: Bytes | None) -> Bytes | None:
        return counted(args, rows) if self.call.ignore_nulls else rows

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self._compete(args[:1], self._competing(args, rows), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        there = self._competing(args, rows)
        flags = Vector(FLAG, length, np.ones(length, np.uint8) if there is None else there)
        return [args[0].where(rows), flags]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        there = states[1].values & full_mask(states[1])
        self._compete(states[:1], there, groups)

    def state(self) -> list[Vector]:
        return [self.evaluate(), Vector(FLAG, self.groups, self._chosen)]


class GroupedExtremeBy(WinningRow):
    """min_by(x, y), max_by(x, y): x of the row with the extreme y; rows with a NULL y do not count.

    A state is (x, y), and y is NULL where no row counted.
    """

    def __init__(self, call: AggregateCall, *, largest: bool) -> None:
        super().__init__(call)
        self._largest = largest

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return tuple(arg.dtype for arg in self.call.args)

    def _win(self, columns: Sequence[Vector], valid: Bytes | None, groups: Groups) -> Rows:
        return extreme_rows(columns[1], valid, self._largest, groups)

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self._compete(args, both(counted(args[1:], None), rows), groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        return [args[0], args[1].where(rows)]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.update(states, None, groups)

    def state(self) -> list[Vector]:
        return list(self._held or [nulls(dtype, self.groups) for dtype in self.state_types])


class FramedExtremeBy(FrameFunction):
    """The same over frames. Elements: the values, and the values that order them, NULL if a row does not count.

    Rows of one key may not be merged: their order decides which of equal ones wins.
    """

    def __init__(self, call: WindowCall, *, largest: bool) -> None:
        super().__init__(call)
        self._largest = largest

    def elements(self, inputs: Inputs) -> Elements:
        values, order = inputs.args
        if inputs.kept is not None:
            order = pc.if_else(pa.array(inputs.kept), order, pa.scalar(None, order.type))
        return Elements(inputs.count, (values, order))

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        values, order = elements.arrays
        return taken(values, *extreme_places(order, self._largest, starts, stops))

    def summary(self, elements: Elements) -> Elements:
        values, order = elements.arrays
        whole = np.zeros(1, np.int32), np.array([elements.count], np.int32)
        places, found = extreme_places(order, self._largest, *whole)
        row = pa.array(places[found])
        return Elements(len(row), (values.take(row), order.take(row)))


class FramedPick(FrameFunction):
    """The first, n-th or last value of a frame. Elements: the values, and which of them pass the filter.

    `number` is the index of the argument with the n of nth_value; None for the first.
    """

    takes_places = True

    def __init__(self, call: WindowCall, *, last: bool = False, number: int | None = None) -> None:
        super().__init__(call)
        self._last = last
        self._number = 1 if number is None else constant_argument(call, number)

    @property
    def rows_at_end(self) -> int:
        """How many candidates at one end of the rows other ranges need."""
        return 1 if self._last else self._number

    def elements(self, inputs: Inputs) -> Elements:
        return Elements(inputs.count, (inputs.args[0], inputs.kept))

    def of_same_frames(self, elements: Elements, first: int, low: int, high: int, count: int) -> pa.Array | None:
        """The values themselves, from another row on: nothing is copied."""
        place = high if self._last else low + self._number - 1
        if place > high or self._candidates(elements) is not None:
            return None
        return elements.arrays[0].slice(first + place, count)

    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        candidates = self._candidates(elements)
        if candidates is not None:
            before = np.concatenate([[0], np.cumsum(candidates)]).astype(np.int32)
            starts, stops = before[starts], before[stops]
        places, found = np.empty(len(starts), np.int64), np.empty(len(starts), np.bool_)
        nth_places(starts, stops, 0 if self._last else self._number, places, found)
        if candidates is not None:
            places = np.append(np.flatnonzero(candidates), 0)[np.where(found, places, -1)]
        return taken(elements.arrays[0], places, found)

    def summary(self, elements: Elements) -> Elements:
        candidates = self._candidates(elements)
        rows = np.arange(elements.count) if candidates is None else np.flatnonzero(candidates)
        rows = rows[-1:] if self._last else rows[: self._number]
        values, kept = elements.arrays
        return Elements(len(rows), (values.take(pa.array(rows)), None if kept is None else kept[rows]))

    def _candidates(self, elements: Elements) -> Bools | None:
        values, kept = elements.arrays
        valid = validity_of(values) if self.call.ignore_nulls else None
        return both_valid(None if kept is None or kept.all() else kept, valid)


def _pick(name: str, *, catalyst: str = "", last: bool = False) -> Function:
    return Function(
        name=name,
        catalyst=catalyst,
        result=same_or_untyped,
        grouped=partial(GroupedPick, last=last),
        framed=partial(FramedPick, last=last),
        nulls=Nulls.VALUES,
        order=Order.DECIDES,
    )


def _extreme_by(name: str, *, catalyst: str, largest: bool) -> Function:
    return Function(
        name=name,
        catalyst=catalyst,
        arguments=2,
        result=same,
        grouped=partial(GroupedExtremeBy, largest=largest),
        framed=partial(FramedExtremeBy, largest=largest),
        nulls=Nulls.OF_ORDER_SKIPPED,
        order=Order.DECIDES,
    )


FUNCTIONS = (
    _pick("first", catalyst="First"),
    _pick("last", catalyst="Last", last=True),
    _pick("any_value"),  # Catalyst rewrites it to First
    Function(
        name="nth_value",
        catalyst="NthValue",
        arguments=2,
        result=same_or_untyped,
        framed=partial(FramedPick, number=1),
        nulls=Nulls.VALUES,
        order=Order.DECIDES,
        constant=1,
    ),
    _extreme_by("max_by", catalyst="MaxBy", largest=True),
    _extreme_by("min_by", catalyst="MinBy", largest=False),
)
