"""The contract of window functions: what is computed from elements, most of which are rows and some stand for many
rows.

A frame is a run of elements. In the plain case element i is row i. If a window is cut into ranges, a few elements in
front or behind stand for rows of other ranges. Examples: a halo row that represents all rows of its key (weight 4711),
the sum of everything before this range, the last three values before it. A function does not need to know where an
element comes from; it is given arrays of partial states and the bounds of each frame in them.

    SUM(x) ROWS UNBOUNDED PRECEDING       elements   [ 900 | 5 7 1 ... ]     900 = sum of the ranges before, one element
                                          counts     [  48 | 1 1 1 ... ]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.buffers import Bools, array_from, both_valid, pooled, validity_of, values_of
from sundog.expr.calls import WindowCall
from sundog.expr.nodes import Literal
from sundog.kernels.windows.picks import gather_found
from sundog.kernels.windows.sliding import (
    frame_totals,
    frame_widths,
    frames_that_contribute,
    frames_with_rows,
    running_totals,
)
from sundog.types import is_plain

Positions = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Inputs:
    """The evaluated arguments of a call, and the rows that pass its FILTER (None: all)."""

    count: int
    args: tuple[pa.Array, ...]
    kept: Bools | None = None

    def contributing(self) -> Bools | None:
        """The rows without NULL arguments that pass the filter; None for all."""
        valid = self.kept
        for array in self.args:
            valid = both_valid(valid, validity_of(array))
        return valid


@dataclass(frozen=True)
class Elements:
    """Arrays of one length, whose meaning belongs to the function. None: 1 or true for every element (a count, a
    flag)."""

    count: int
    arrays: tuple[Any, ...]

    def slice(self, start: int, stop: int) -> Elements:
        if start == 0 and stop == self.count:
            return self
        return Elements(stop - start, tuple(_sliced(array, start, stop) for array in self.arrays))

    def detached(self) -> Elements:
        """A copy with memory of its own: Arrow pickles a slice of three values with the millions around it."""
        own = (array.take(np.arange(self.count)) if isinstance(array, pa.Array) else array for array in self.arrays)
        return Elements(self.count, tuple(own))

    def with_rows(self, rows: Longs, replaced: Elements) -> Elements:
        """These elements with `replaced` in place of `rows`."""
        arrays = (_replaced(old, self.count, rows, new) for old, new in zip(self.arrays, replaced.arrays, strict=True))
        return Elements(self.count, tuple(arrays))

    @classmethod
    def concat(cls, parts: Sequence[Elements]) -> Elements:
        parts = [part for part in parts if part.count] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        counts = [part.count for part in parts]
        columns = zip(*(part.arrays for part in parts), strict=True)
        return cls(sum(counts), tuple(_joined(column, counts) for column in columns))


@dataclass(frozen=True)
class Hazard:
    """Facts about the numbers in a sum, to judge whether adding them up range by range equals adding them in one go."""

    magnitude: float = 0.0  # at least the sum of absolute values
    largest: float = 0.0
    smallest: float = float("inf")  # of those that are not zero
    signs: frozenset[bool] = field(default_factory=frozenset)

    @classmethod
    def merge(cls, hazards: Sequence[Hazard]) -> Hazard:
        return cls(
            sum(hazard.magnitude for hazard in hazards),
            max((hazard.largest for hazard in hazards), default=0.0),
            min((hazard.smallest for hazard in hazards), default=float("inf")),
            frozenset().union(*(hazard.signs for hazard in hazards)),
        )


class FrameFunction(ABC):
    """A function of the elements of a frame."""

    reducible = False  # whether rows of one key may travel as one element
    takes_places = False  # whether `of_same_frames` may have the values
    runs = False  # whether `running` has the values

    def __init__(self, call: WindowCall) -> None:
        self.call = call

    @abstractmethod
    def elements(self, inputs: Inputs) -> Elements:
        """One element per row."""

    @abstractmethod
    def evaluate(self, elements: Elements, starts: Positions, stops: Positions) -> pa.Array:
        """The value of each frame."""

    @abstractmethod
    def summary(self, elements: Elements) -> Elements:
        """The few elements that stand for these in another range. A summary of several summaries is one for all."""

    def of_same_frames(self, elements: Elements, first: int, low: int, high: int, count: int) -> pa.Array | None:
        """The values of `count` frames of one width: the i-th has the elements from first + i + low to first + i +
        high, both inclusive and all there. None where only `evaluate` gives them. Asked for if `takes_places`."""
        return None

    def running(self, before: Elements | None, own: Elements) -> pa.Array:
        """The values that `evaluate` gives for the frames of all `before` and the elements of `own` up to each one.
        Asked for if `runs`."""
        raise InternalError(f"{self.call.function} has no running values")

    def hazard(self, elements: Elements) -> Hazard:
        return Hazard()

    def is_harmless(self, hazard: Hazard) -> bool:
        """Whether merging some of the elements first gives the same result as one pass over all of them."""
        return True


class MergeableFunction(FrameFunction):
    """A function with partial states that merge: rows of one key may be merged before they travel."""

    reducible = True

    @abstractmethod
    def state_types(self) -> list[pa.DataType]:
        """The types of `partials` as Arrow columns."""

    @abstractmethod
    def partials(self, elements: Elements, starts: Positions, stops: Positions) -> Elements:
        """The state of each frame as one element. Exact if the hazard of the elements is harmless."""

    def summary(self, elements: Elements) -> Elements:
        return self.partials(elements, np.zeros(1, np.int32), np.array([elements.count], np.int32))

    def to_columns(self, elements: Elements) -> list[pa.Array]:
        columns = []
        for array, dtype in zip(elements.arrays, self.state_types(), strict=True):
            if array is None:
                array = np.ones(elements.count, np.int64)
            columns.append(array if isinstance(array, pa.Array) else array_from(array, None, dtype))
        return columns

    def from_columns(self, columns: Sequence[pa.Array]) -> Elements:
        arrays = tuple(
            column if isinstance(sample, pa.Array) else column.to_numpy(zero_copy_only=False)
            for column, sample in zip(columns, self._sample().arrays, strict=True)
        )
        return Elements(len(columns[0]), arrays)

    def _sample(self) -> Elements:
        """The elements of no rows: shows which arrays are Arrow arrays."""
        return self.elements(Inputs(0, tuple(pa.array([], arg.dtype) for arg in self.call.args)))


def constant_argument(call: WindowCall, index: int) -> int:
    """An argument that is a number of rows, positions or tiles."""
    expr = call.args[index]
    if not isinstance(expr, Literal) or expr.value is None:
        raise InternalError("the place in nth_value, lag, lead and ntile is a constant")
    return int(expr.value)


def taken(values: pa.Array, places: Longs, found: Bools) -> pa.Array:
    """The values at the places, NULL where none was found."""
    if not len(values):
        return pa.nulls(len(places), values.type)
    if is_plain(values.type) and not values.null_count:
        numbers = values_of(values)
        result = pooled(len(places), numbers.dtype)
        gather_found(numbers, places, found, result)
        return array_from(result, found, values.type)
    if bool(found.all()):
        return values.take(pa.array(places))
    return values.take(pa.array(np.where(found, places, 0), mask=~found))


def frame_counts(counts: Longs | None, starts: Positions, stops: Positions) -> Longs:
    """How many rows count in each frame; `counts` is None if every element counts once."""
    result = np.empty(len(starts), np.int64)
    if counts is None:
        frame_widths(starts, stops, result)
        return result
    totals = np.empty(len(counts) + 1, np.int64)
    running_totals(counts, totals)
    frame_totals(totals, starts, stops, result)
    return result


def frames_that_count(counts: Longs | None, starts: Positions, stops: Positions) -> Bools:
    """The frames in which at least one row counts."""
    result = np.empty(len(starts), np.bool_)
    if counts is None or counts.min(initial=1) > 0:
        frames_with_rows(starts, stops, result)
    else:
        frames_that_contribute(counts, starts, stops, result)
    return result


def as_counts(valid: Bools | None) -> Longs | None:
    return None if valid is None else valid.astype(np.int64)


def _sliced(array: Any, start: int, stop: int) -> Any:
    if array is None:
        return None
    return array.slice(start, stop - start) if isinstance(array, pa.Array) else array[start:stop]


def _joined(column: Sequence[Any], counts: Sequence[int]) -> Any:
    if any(isinstance(array, pa.Array) for array in column):
        return pa.concat_arrays(column)
    if all(array is None for array in column):
        return None
    if all(array is not None for array in column):
        return np.concatenate(column)
    known = next(array for array in column if array is not None)
    result = np.ones(sum(counts), known.dtype)
    stop = 0
    for array, count in zip(column, counts, strict=True):
        stop += count
        if array is not None:
            result[stop - count : stop] = array
    return result


def _replaced(old: Any, count: int, rows: Longs, new: Any) -> Any:
    if isinstance(old, pa.Array):
        places = np.arange(count, dtype=np.int64)
        places[rows] = count + np.arange(len(rows))
        return pa.concat_arrays([old, new]).take(pa.array(places))
    old, new = (np.ones(size, np.int64) if a is None else a for a, size in ((old, count), (new, len(rows))))
    result = old.astype(np.result_type(old, new))
    result[rows] = new
    return result
