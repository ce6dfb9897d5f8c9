"""Pairing of probe rows with a build side: the rows that leave the join, in the order of the probe rows.

    probe batch ──► keys ──► numbers of keys ──► pairs of rows ──► condition ──► columns of both sides

A batch whose rows have many partners is put out in pieces of bounded size. Rows that all have exactly one partner, the
usual case of a fact and its dimension, are not copied: only the columns of the build side are gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.arrow import from_arrow, in_plain_form
from sundog.expr.calls import JoinKind
from sundog.expr.evaluate import evaluate, predicate_mask
from sundog.expr.nodes import Expr, columns_of
from sundog.kernels.joins.pairs import count_partners, write_pairs, write_single_pairs
from sundog.operators.context import TaskContext
from sundog.operators.join.build_side import BuildSide

Rows = npt.NDArray[np.int32]


@dataclass(frozen=True)
class _Pairs:
    """Pairs of rows. `probe` is None for all probe rows once, in order; `build` is -1 where there is no partner."""

    probe: Rows | None
    build: Rows


@dataclass(frozen=True, eq=False)
class Pairing:
    """One task's join of probe batches with a build side.

    `kind` takes the probe side as the left side: LEFT keeps each of its rows. `output` has the columns of the result,
    of either side, and `exists` for an existence join. `max_rows`, `max_bytes`: of pairs that are put out at once,
    however many partners a probe row has. `seen`, if given, is set for build rows that have a partner.
    """

    kind: JoinKind
    keys: tuple[Expr, ...]
    build: BuildSide
    condition: Expr | None
    output: pa.Schema
    max_rows: int
    max_bytes: int
    exists: str | None = None
    seen: npt.NDArray[np.bool_] | None = field(default=None, repr=False)

    def join(self, batch: pa.RecordBatch, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """The rows of the result that come from this probe batch."""
        if batch.num_rows == 0:
            return
        arrays = [evaluate(key, batch) for key in self.keys]
        ids = self.build.index.find([from_arrow(array) for array in arrays], batch.num_rows)
        if self.kind is JoinKind.NULL_AWARE_ANTI:
            yield from self._not_in(batch, arrays[0], ids)
        elif self.kind.shows_right:
            yield from self._both_sides(batch, ids, context)
        else:
            yield from self._probe_side(batch, self._has_partner(batch, ids, context))

    def meet(self, batch: pa.RecordBatch, met: npt.NDArray[np.bool_], context: TaskContext) -> Iterator[pa.RecordBatch]:
        """The pairs of this probe batch, where the build side is one of several pieces of its rows.

        `met` is set for probe rows that have a partner. After the last piece, `decided` gives the rows of the others.
        """
        if batch.num_rows == 0:
            return
        arrays = [evaluate(key, batch) for key in self.keys]
        ids = self.build.index.find([from_arrow(array) for array in arrays], batch.num_rows)
        if not self.kind.shows_right:
            met |= self._has_partner(batch, ids, context)
            return
        for pairs in (
            self._pairs(batch, ids, False, context) if self.condition is None else self._matches(batch, ids, context)
        ):
            met[_probe_rows(pairs, batch)] = True
            self._see(pairs)
            yield self._taken(batch, pairs)

    def decided(self, batch: pa.RecordBatch, met: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """The result rows of probe rows that are not pairs, decided by which of them have `met` a partner in any
        piece."""
        if batch.num_rows == 0:
            return
        if not self.kind.shows_right:
            yield from self._probe_side(batch, met)
        elif self.kind is not JoinKind.INNER and not met.all():
            rows = np.flatnonzero(~met).astype(np.int32)
            yield self._taken(batch, _Pairs(rows, np.full(len(rows), -1, np.int32)))

    def _not_in(self, batch: pa.RecordBatch, keys: pa.Array, ids: Rows) -> Iterator[pa.RecordBatch]:
        """`key NOT IN (…)`: true for all rows if the list is empty, for none if it has a NULL."""
        if self.build.rows == 0:
            yield from self._probe_side(batch, np.zeros(batch.num_rows, np.bool_))
        elif not self.build.has_null_key:
            present = keys.is_valid().to_numpy(zero_copy_only=False)
            yield from self._probe_side(batch, ~(present & (ids < 0)))

    def _probe_side(self, batch: pa.RecordBatch, partner: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        if self.kind is JoinKind.EXISTENCE:
            marked = [pa.array(partner) if f.name == self.exists else batch.column(f.name) for f in self.output]
            yield pa.RecordBatch.from_arrays(marked, schema=_schema_of(self.output, marked))
            return
        rows = np.flatnonzero(partner if self.kind is JoinKind.SEMI else ~partner).astype(np.int32)
        if len(rows):
            yield self._taken(batch, _Pairs(None if len(rows) == batch.num_rows else rows, rows))

    def _has_partner(self, batch: pa.RecordBatch, ids: Rows, context: TaskContext) -> npt.NDArray[np.bool_]:
        if self.condition is None:
            return ids >= 0
        partner = np.zeros(batch.num_rows, np.bool_)
        for pairs in self._matches(batch, ids, context):
            partner[_probe_rows(pairs, batch)] = True
        return partner

    def _both_sides(self, batch: pa.RecordBatch, ids: Rows, context: TaskContext) -> Iterator[pa.RecordBatch]:
        keeps = self.kind is not JoinKind.INNER
        if self.condition is None:
            for pairs in self._pairs(batch, ids, keeps, context):
                self._see(pairs)
                yield self._taken(batch, pairs)
            return
        unmatched = np.ones(batch.num_rows, np.bool_)
        for pairs in self._matches(batch, ids, context):
            unmatched[_probe_rows(pairs, batch)] = False
            self._see(pairs)
            yield self._taken(batch, pairs)
        if keeps and unmatched.any():
            rows = np.flatnonzero(unmatched).astype(np.int32)
            yield self._taken(batch, _Pairs(rows, np.full(len(rows), -1, np.int32)))

    def _see(self, pairs: _Pairs) -> None:
        if self.seen is not None:
            self.seen[pairs.build[pairs.build >= 0]] = True

    def _pairs(self, batch: pa.RecordBatch, ids: Rows, keeps_unmatched: bool, context: TaskContext) -> Iterator[_Pairs]:
        index = self.build.index
        if index.has_single_rows and not keeps_unmatched:
            probe, build = np.empty(len(ids), np.int32), np.empty(len(ids), np.int32)
            count = int(write_single_pairs(ids, index.rows, probe, build))
            if count:
                yield _Pairs(None if count == len(ids) else probe[:count], build[:count])
            return
        counts = np.empty(len(ids), np.int64)
        total = int(count_partners(ids, index.starts, keeps_unmatched, counts))
        most = self._rows_at_once(batch)
        ends = np.cumsum(counts) if total > most else None
        for done in range(0, total, most):
            context.check_cancelled()
            first = 0 if ends is None else int(np.searchsorted(ends, done, side="right"))
            partner = 0 if ends is None else done - int(ends[first] - counts[first])
            size = min(most, total - done)
            probe, build = np.empty(size, np.int32), np.empty(size, np.int32)
            write_pairs(ids, counts, first, partner, index.starts, index.rows, probe, build)
            each_once = size == len(ids) == total and bool((counts == 1).all())
            yield _Pairs(None if each_once else probe, build)

    def _rows_at_once(self, batch: pa.RecordBatch) -> int:
        """Rows of the result in one piece: fewer where they are long, as an average row of each side tells."""
        row_bytes = batch.nbytes / batch.num_rows + self.build.columns.nbytes / max(self.build.rows, 1)
        return max(1, min(self.max_rows, int(self.max_bytes / max(row_bytes, 1))))

    def _matches(self, batch: pa.RecordBatch, ids: Rows, context: TaskContext) -> Iterator[_Pairs]:
        """The pairs for which the condition holds."""
        assert self.condition is not None
        names = sorted(columns_of(self.condition))
        fields = [_field(name, batch, self.build.columns) for name in names]
        for pairs in self._pairs(batch, ids, False, context):
            columns = [self._column(name, batch, pairs) for name in names]
            plain = [in_plain_form(column) for column in columns]
            if plain:
                tested = pa.RecordBatch.from_arrays(plain, schema=pa.schema(fields))
            else:
                tested = pa.record_batch([pa.nulls(len(pairs.build))], names=["rows"])
            kept = np.flatnonzero(predicate_mask(self.condition, tested))
            if len(kept):
                probe = _probe_rows(pairs, batch)
                yield _Pairs(probe[kept], pairs.build[kept])

    def _taken(self, batch: pa.RecordBatch, pairs: _Pairs) -> pa.RecordBatch:
        if not self.output.names:
            return pa.record_batch([pa.nulls(len(pairs.build))], names=["rows"]).select([])
        columns = [self._column(field.name, batch, pairs) for field in self.output]
        return pa.RecordBatch.from_arrays(columns, schema=_schema_of(self.output, columns))

    def _column(self, name: str, batch: pa.RecordBatch, pairs: _Pairs) -> pa.Array:
        if name in batch.schema.names:
            column = batch.column(name)
            return column if pairs.probe is None else column.take(pa.array(pairs.probe))
        return taken(self.build.columns.column(name), pairs.build)


def taken(column: pa.Array, rows: Rows) -> pa.Array:
    """These rows of a column; NULL for -1."""
    unmatched = rows < 0
    return column.take(pa.array(rows, mask=unmatched) if unmatched.any() else pa.array(rows))


def _probe_rows(pairs: _Pairs, batch: pa.RecordBatch) -> Rows:
    return np.arange(batch.num_rows, dtype=np.int32) if pairs.probe is None else pairs.probe


def _field(name: str, probe: pa.RecordBatch, build: pa.RecordBatch) -> pa.Field:
    side = probe if name in probe.schema.names else build
    return pa.field(name, _plain_type(side.schema.field(name).type))


def _plain_type(dtype: pa.DataType) -> pa.DataType:
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype


def _schema_of(schema: pa.Schema, columns: Sequence[pa.Array]) -> pa.Schema:
    """The schema with the real types of the columns: strings may come as dictionaries."""
    if all(column.type == each.type for column, each in zip(columns, schema, strict=True)):
        return schema
    return pa.schema([(each.name, column.type) for column, each in zip(columns, schema, strict=True)])
