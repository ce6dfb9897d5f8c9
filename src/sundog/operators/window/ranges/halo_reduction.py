"""Halo rows of one key as one row: a hot key with nine million rows crosses to each neighbour as a single state.

Rows with equal keys are in the same RANGE frames, so rows that go to another range only to be aggregated there can be
aggregated before. A reduced row carries its key, `__halo_rows` (how many rows it stands for) and, for each call, the
columns of the call's partial state (`MergeableFunction.state_types`). All of these are NULL in ordinary rows, and take
space in every row; so the planner asks for reduction only if the halo would be large.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.errors import InternalError
from sundog.expr.buffers import validity_of
from sundog.expr.calls import WindowCall
from sundog.functions.framed import Elements, MergeableFunction
from sundog.functions.table import frame_function, is_ranked
from sundog.operators.window.frames.call_functions import inputs_of
from sundog.operators.window.frames.range_columns import RangeColumns, has

HALO_ROWS = "__halo_rows"
Longs = npt.NDArray[np.int64]


def is_reducible(calls: tuple[WindowCall, ...]) -> bool:
    """Whether all calls have RANGE frames and partial states that may stand for rows."""
    return all(
        call.frame.units == "range" and not is_ranked(call) and frame_function(call).reducible and not call.in_order
        for call in calls
    )


@dataclass(frozen=True)
class HaloReduction:
    """How rows of one key become one. `key_columns` are the columns that the order keys read.

    `min_repetition`: rows of a key in a batch, on average, below which its rows stay as they are.
    """

    calls: tuple[WindowCall, ...]
    key_columns: tuple[str, ...]
    min_repetition: float = field(repr=False)

    @property
    def fields(self) -> list[pa.Field]:
        states = [
            pa.field(_state_name(call, number), dtype)
            for call in self.calls
            for number, dtype in enumerate(_function(call).state_types())
        ]
        return [pa.field(HALO_ROWS, pa.int64()), *states]

    def reduce(self, rows: pa.RecordBatch, words: Longs) -> dict[str, pa.Array] | None:
        """The columns of the reduced rows by name; None if that would not be exact, or save nothing."""
        order = np.argsort(words, kind="stable")
        ordered = words[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        if len(starts) * self.min_repetition > len(words):
            return None
        stops = np.append(starts[1:], len(words))
        columns = RangeColumns(pa.Table.from_batches([rows.take(pa.array(order))]))
        firsts = pa.array(starts)
        result = {name: columns.column(name).take(firsts) for name in self.key_columns}
        result[HALO_ROWS] = pa.array(stops - starts, pa.int64())
        for call in self.calls:
            function = _function(call)
            elements = function.elements(inputs_of(call, columns))
            if not function.is_harmless(function.hazard(elements)):
                return None
            merged = function.partials(elements, starts.astype(np.int32), stops.astype(np.int32))
            for number, column in enumerate(function.to_columns(merged)):
                result[_state_name(call, number)] = column
        return result


class ReducedRows:
    """The reduced rows of a range, put back among its elements."""

    def __init__(self, columns: RangeColumns, rows: Longs) -> None:
        self._columns = columns
        self._rows = rows

    def put_into(self, elements: Elements, function: MergeableFunction) -> Elements:
        rows = pa.array(self._rows)
        count = len(function.state_types())
        states = [self._columns.column(_state_name(function.call, number)).take(rows) for number in range(count)]
        return elements.with_rows(self._rows, function.from_columns(states))


def reduced_rows(columns: RangeColumns) -> ReducedRows | None:
    if not has(columns.table.schema, HALO_ROWS):
        return None
    valid = validity_of(columns.column(HALO_ROWS))
    return ReducedRows(columns, np.arange(columns.count) if valid is None else np.flatnonzero(valid))


def _function(call: WindowCall) -> MergeableFunction:
    function = frame_function(call)
    if not isinstance(function, MergeableFunction):
        raise InternalError(f"{call.function} has no partial states")
    return function


def _state_name(call: WindowCall, number: int) -> str:
    return f"__state_{call.name}_{number}"
