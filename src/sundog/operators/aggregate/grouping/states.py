"""The rows between partial and final aggregation: key columns and the state columns of each aggregate.

    UserID | SearchPhrase | count#7.0 | avg#8.0 | avg#8.1
    -------+--------------+-----------+---------+--------
    a row is a partial group: of many rows, or of one row that skipped the partial aggregation

`in_process`: the next operator runs in the same process. Strings then travel as string_view, whose rows point into the
buffers that they were read into, and the hashes of keys with strings travel along. Otherwise the bytes of strings are
written out, so that a block can go through a shuffle. There every byte costs time: hashes are computed again where they
are needed, and counts are run-end encoded, since those of ungrouped rows are all 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sundog.columns.arrow import compact, from_arrow, to_arrow
from sundog.columns.key_layout import Hashes, KeyLayout
from sundog.columns.text import is_writable, writable_pieces
from sundog.columns.vectors import Ints, Vector, storage
from sundog.expr.calls import AggregateCall, NamedExpr
from sundog.functions.grouped import Accumulator
from sundog.functions.table import accumulator_for
from sundog.types import is_text

HASH_COLUMN = "__hash"
REPEATED_COUNT = pa.run_end_encoded(pa.int32(), pa.int64())


@dataclass(frozen=True)
class StateLayout:
    """The columns of partial groups: keys as (name, type), then the states of the calls."""

    keys: tuple[tuple[str, pa.DataType], ...]
    calls: tuple[AggregateCall, ...]
    in_process: bool = False

    @classmethod
    def of(cls, keys: Sequence[NamedExpr], calls: tuple[AggregateCall, ...], in_process: bool) -> StateLayout:
        return cls(tuple((key.name, key.expr.dtype) for key in keys), calls, in_process)

    @cached_property
    def key_layout(self) -> KeyLayout:
        return KeyLayout.of([dtype for _, dtype in self.keys])

    @cached_property
    def state_types(self) -> tuple[tuple[pa.DataType, ...], ...]:
        return tuple(accumulator_for(call).state_types for call in self.calls)

    @cached_property
    def state_bytes(self) -> int:
        """Bytes of the states of one group, without the bytes of strings."""
        return _bytes(dtype for types in self.state_types for dtype in types)

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of a partial group with its key, without the bytes of strings."""
        return self.state_bytes + _bytes(dtype for _, dtype in self.keys)

    @cached_property
    def single_bytes(self) -> int:
        """Bytes of a row that is passed on ungrouped, with its key, without the bytes of strings. Its counts take
        none."""
        counts = (
            accumulator.state_types[index] for accumulator in self.accumulators() for index in accumulator.count_columns
        )
        return self.row_bytes - _bytes(counts)

    @cached_property
    def schema(self) -> pa.Schema:
        fields = [(name, self._travelling(dtype)) for name, dtype in self.keys]
        for call in self.calls:
            accumulator = accumulator_for(call)
            for index, dtype in enumerate(accumulator.state_types):
                is_count = index in accumulator.count_columns and not self.in_process
                fields.append((f"{call.name}.{index}", REPEATED_COUNT if is_count else self._travelling(dtype)))
        return pa.schema(fields)

    @property
    def carries_hashes(self) -> bool:
        return self.in_process and self.key_layout.has_text

    @cached_property
    def exchange_schema(self) -> pa.Schema:
        """The columns after the exchange."""
        return self.schema.append(pa.field(HASH_COLUMN, pa.uint64())) if self.carries_hashes else self.schema

    @property
    def written(self) -> StateLayout:
        """The layout of the same groups outside this process, such as in a file."""
        return StateLayout(self.keys, self.calls, in_process=False)

    def _travelling(self, dtype: pa.DataType) -> pa.DataType:
        if not self.in_process or not is_text(dtype):
            return dtype
        return pa.string_view() if pa.types.is_string(dtype) else pa.binary_view()

    def accumulators(self) -> list[Accumulator]:
        return [accumulator_for(call) for call in self.calls]

    def to_batches(self, chunk: Chunk) -> list[pa.RecordBatch]:
        """Batches of `schema`: one, or several if a column has more bytes of strings than an array can hold."""
        return [self._to_batch(piece) for piece in self._within_limits(chunk)]

    def to_exchange(self, chunk: Chunk) -> list[pa.RecordBatch]:
        """Batches of `exchange_schema`."""
        if not self.carries_hashes:
            return self.to_batches(chunk)
        return [
            pa.RecordBatch.from_arrays(
                [*self._to_batch(piece).columns, pa.array(piece.hashes)], schema=self.exchange_schema
            )
            for piece in self._within_limits(chunk)
        ]

    def _to_batch(self, chunk: Chunk) -> pa.RecordBatch:
        arrays = [to_arrow(vector, field.type) for vector, field in zip(chunk.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _within_limits(self, chunk: Chunk) -> Iterator[Chunk]:
        if self.in_process or is_writable(chunk.columns):
            yield chunk
            return
        for start, end in writable_pieces(chunk.columns, 0, chunk.length):
            yield chunk.slice(start, end)

    def from_batch(self, batch: pa.RecordBatch) -> Chunk:
        """Partial groups from before or after the exchange."""
        vectors = [from_arrow(column) for column in batch.columns]
        hashes = vectors.pop().values if batch.num_columns > len(self.schema) else None
        keys, rest = vectors[: len(self.keys)], vectors[len(self.keys) :]
        states = []
        for types in self.state_types:
            states.append(rest[: len(types)])
            rest = rest[len(types) :]
        return Chunk(batch.num_rows, keys, states, hashes)


def _bytes(dtypes: Iterable[pa.DataType]) -> int:
    """Bytes of one value of each type, with its part of the NULL mask."""
    return sum(numpy_type.itemsize * words + 1 for numpy_type, words in map(storage, dtypes))


@dataclass(frozen=True, eq=False)
class Chunk:
    """Partial groups as vectors: `states[i]` are the state columns of the i-th call. `hashes` if they are known."""

    length: int
    keys: Sequence[Vector]
    states: Sequence[Sequence[Vector]]
    hashes: Hashes | None = None

    @property
    def columns(self) -> list[Vector]:
        return [*self.keys, *(vector for states in self.states for vector in states)]

    @property
    def nbytes(self) -> int:
        return sum(vector.nbytes for vector in self.columns)

    def take(self, rows: Ints) -> Chunk:
        keys = [vector.take(rows) for vector in self.keys]
        states = [[vector.take(rows) for vector in states] for states in self.states]
        return Chunk(len(rows), keys, states, None if self.hashes is None else self.hashes.take(rows))

    def compact(self) -> Chunk:
        """A copy that does not hold on to the batches that it came from."""
        states = [[compact(vector) for vector in states] for states in self.states]
        return Chunk(self.length, [compact(key) for key in self.keys], states)

    def slice(self, start: int, end: int) -> Chunk:
        keys = [vector.slice(start, end) for vector in self.keys]
        states = [[vector.slice(start, end) for vector in states] for states in self.states]
        return Chunk(end - start, keys, states, None if self.hashes is None else self.hashes[start:end])
