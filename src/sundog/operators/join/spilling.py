"""One task's part of an exchanged join: in memory, or spilled if its build side does not fit.

    build ──► fits ─────────────────────────────────────► index ──► probe rows as they come
          ──► does not ──► both sides cut by hash to files ──► cut by cut the same again      (Grace hash join)
                           one key has too many rows ──► its build rows in pieces, each paired with all probe rows

Rows of one key stay in one cut, so the results of all cuts are the result. Pieces of one key's build rows are paired
with the same probe rows: a row without a partner in one piece may have one in the next, so it is decided after the
last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.arrow import batch_in_plain_form, in_plain_form
from sundog.columns.key_layout import KeyLayout
from sundog.columns.key_words import SPILL_LEVEL
from sundog.expr.calls import JoinKind
from sundog.operators.context import TaskContext
from sundog.operators.join.build_side import BuildSide
from sundog.operators.join.hash_join import JoinSpec
from sundog.operators.join.key_cuts import cut_by_keys, have_one_key
from sundog.operators.join.pairing import Pairing, taken
from sundog.operators.spill_files import CUTS, SpillFiles

_DEEPEST_LEVEL = SPILL_LEVEL + 8
_MAX_BYTES = 1 << 30  # of a build side in memory: its strings must fit one array of Arrow's, of 2 GiB
_MIN_SHARE = 8  # task memory over the build side that is always allowed, whatever other operators hold
_INDEX_BYTES_PER_ROW = 64  # of slots, starts and row numbers
_INDEX_BYTES_PER_WORD = 16  # of keys, once as they are looked up and once in the table


class _HeldRows:
    """Batches of a build side in memory, accounted for in the task's budget."""

    def __init__(self, join: JoinSpec, context: TaskContext) -> None:
        self._memory = context.memory
        words = KeyLayout.of([key.dtype for key in join.build_keys]).value_words
        self._index_bytes = _INDEX_BYTES_PER_ROW + _INDEX_BYTES_PER_WORD * words
        self.batches: list[pa.RecordBatch] = []
        self._nbytes = 0
        self._rows = 0
        self._charged = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self._nbytes += batch.nbytes
        self._rows += batch.num_rows
        self._charge(self._needed)

    @property
    def _needed(self) -> int:
        """The bytes of the batches, of one batch made of them, and of its index."""
        return 2 * self._nbytes + self._rows * self._index_bytes

    @property
    def too_much(self) -> bool:
        """Whether a build side of them would exceed the task's memory budget."""
        limit, others = self._memory.limit, self._memory.used - self._charged
        return self._needed > max(limit - others, limit // _MIN_SHARE) or self._nbytes > _MAX_BYTES

    def as_build_side(self, join: JoinSpec, schema: pa.Schema) -> BuildSide:
        """A build side of the rows, which are then no longer accounted for here."""
        batches, self.batches = self.batches, []
        build = join.build_side(batches, schema)
        self._nbytes = self._rows = 0
        self._charge(build.nbytes)
        return build

    def drain(self) -> Iterator[pa.RecordBatch]:
        """The rows, which are then no longer accounted for here."""
        batches, self.batches = self.batches[::-1], []
        while batches:
            yield batches.pop()
        self.clear()

    def clear(self) -> None:
        self.batches, self._nbytes, self._rows = [], 0, 0
        self._charge(0)

    def _charge(self, new: int) -> None:
        self._memory.resize(self._charged, new)
        self._charged = new


@dataclass(frozen=True)
class SpillingJoin:
    """Joins the rows that one task has of both sides."""

    join: JoinSpec
    build_schema: pa.Schema
    context: TaskContext

    def run(
        self,
        build: Iterator[pa.RecordBatch],
        probe: Iterator[pa.RecordBatch],
        level: int = SPILL_LEVEL,
        name: str = "join",
    ) -> Iterator[pa.RecordBatch]:
        """`build` is read to its end before `probe`. `level`: of the next cut. `name`: unique prefix of the files."""
        held = _HeldRows(self.join, self.context)
        try:
            for batch in build:
                held.add(self._plain_build(batch))
                if held.too_much:
                    yield from self._through_files(held, build, probe, level, name)
                    return
            side = held.as_build_side(self.join, self.build_schema)
            yield from self._in_memory(side, probe)
        finally:
            held.clear()

    def _in_memory(self, build: BuildSide, probe: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pairing = self._pairing(build)
        for batch in probe:
            self.context.check_cancelled()
            yield from pairing.join(batch, self.context)
        yield from self._unmatched(pairing)

    def _through_files(
        self, held: _HeldRows, build: Iterator[pa.RecordBatch], probe: Iterator[pa.RecordBatch], level: int, name: str
    ) -> Iterator[pa.RecordBatch]:
        """Cut at least once: the rows so far may be of one key, and the rest of many."""
        cannot_cut = level > SPILL_LEVEL and have_one_key(held.batches, self.join.build_keys)
        if cannot_cut or level >= _DEEPEST_LEVEL:
            yield from self._in_pieces(held, build, probe, name)
        else:
            rest = map(self._plain_build, build)
            yield from self._in_cuts(chain(held.drain(), rest), probe, level, name)

    def _in_cuts(
        self, build: Iterable[pa.RecordBatch], probe: Iterator[pa.RecordBatch], level: int, name: str
    ) -> Iterator[pa.RecordBatch]:
        builds, probes = (SpillFiles(self.context, f"{name}-{side}") for side in ("build", "probe"))
        for batch in build:
            self.context.check_cancelled()
            for cut, piece in cut_by_keys(batch, self.join.build_keys, level, CUTS):
                builds.write(cut, piece)
        written = set(builds.finish_writing())
        for batch in probe:
            self.context.check_cancelled()
            for cut, piece in cut_by_keys(batch_in_plain_form(batch), self.join.probe_keys, level, CUTS):
                if cut in written or not self.join.kind.drops_left:
                    probes.write(cut, piece)
        written |= set(probes.finish_writing())
        for cut in sorted(written):
            yield from self.run(builds.read(cut), probes.read(cut), level + 1, f"{name}-{cut}")

    def _in_pieces(
        self, held: _HeldRows, build: Iterator[pa.RecordBatch], probe: Iterator[pa.RecordBatch], name: str
    ) -> Iterator[pa.RecordBatch]:
        """`held` is the first piece."""
        probes = SpillFiles(self.context, f"{name}-pieces")
        met: list[npt.NDArray[np.bool_]] = []
        for batch in probe:
            self.context.check_cancelled()
            if batch.num_rows:
                probes.write(0, batch_in_plain_form(batch))
                met.append(np.zeros(batch.num_rows, np.bool_))
        probes.finish_writing()
        met_bytes = sum(flags.nbytes for flags in met)
        self.context.memory.resize(0, met_bytes)
        try:
            yield from self._met_by_pieces(held, build, probes, met)
        finally:
            self.context.memory.resize(met_bytes, 0)

    def _met_by_pieces(
        self,
        held: _HeldRows,
        build: Iterator[pa.RecordBatch],
        probes: SpillFiles,
        met: list[npt.NDArray[np.bool_]],
    ) -> Iterator[pa.RecordBatch]:
        pairing = None
        while held.batches:
            pairing = self._pairing(held.as_build_side(self.join, self.build_schema))
            for number, batch in enumerate(probes.read(0, again=True)):
                self.context.check_cancelled()
                yield from pairing.meet(batch, met[number], self.context)
            yield from self._unmatched(pairing)
            held.clear()
            for batch in build:
                held.add(self._plain_build(batch))
                if held.too_much:
                    break
        assert pairing is not None, "there is a first piece"
        for number, batch in enumerate(probes.read(0)):
            yield from pairing.decided(batch, met[number])

    def _plain_build(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with the declared types: strings may come as dictionaries, and each batch has its own."""
        if batch.schema == self.build_schema:
            return batch
        columns = [
            in_plain_form(column).cast(field.type) for column, field in zip(batch, self.build_schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.build_schema)

    def _pairing(self, build: BuildSide) -> Pairing:
        pairing = self.join.pairing(build)
        keeps_build = self.join.kind is JoinKind.FULL
        return replace(pairing, seen=np.zeros(build.rows, np.bool_)) if keeps_build else pairing

    def _unmatched(self, pairing: Pairing) -> Iterator[pa.RecordBatch]:
        """Rows of the build side without a partner, if they are part of the result."""
        if pairing.seen is None or pairing.seen.all():
            return
        rows = np.flatnonzero(~pairing.seen).astype(np.int32)
        if not self.join.output.names:
            yield pa.record_batch([pa.nulls(len(rows))], names=["rows"]).select([])
            return
        columns = [
            taken(pairing.build.columns.column(field.name), rows)
            if field.name in self.build_schema.names
            else pa.nulls(len(rows), field.type)
            for field in self.join.output
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=self.join.output)
