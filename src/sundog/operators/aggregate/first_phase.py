"""The first phase of an aggregation: make the rows of one task fewer before they travel, where that is possible.

    rows ──► group a batch ──► pending groups ──► merge when there are many ──► emit when merging does not help
         └─► pass on, each row a group of its own, while grouping does not reduce

No hash table lives from batch to batch. A batch is grouped on its own, while it is in the cache; the groups of several
batches are merged when they have become many, and stay if that halves them. So low cardinality costs one small merge now
and then, sorted input emits each group about once, and memory stays bounded by what is pending.
"""

from __future__ import annotations

from collections.abc import Iterator

from sundog.operators.aggregate.accumulator import Accumulator
from sundog.operators.aggregate.grouping import SAMPLE_LEVEL, group_rows_once, merge_chunks, spread_chunks
from sundog.operators.aggregate.inputs import Rows
from sundog.operators.aggregate.skip_partial import PROBE_ROWS, SkipProbe
from sundog.operators.aggregate.states import Chunk, StateLayout
from sundog.operators.context import TaskContext

FEWEST_PENDING_ROWS = 1 << 17
MOST_PENDING_ROWS = 1 << 20
_SAMPLED_PARTS = 64
_WORTH_MERGING = 0.7


class FirstPhase:
    """Turns one task's rows into partial groups. `combine_rows` rows are gathered before they travel ungrouped."""

    def __init__(self, layout: StateLayout, context: TaskContext, skip_ratio: float, combine_rows: int) -> None:
        self._layout = layout
        self._context = context
        self._probe = SkipProbe(skip_ratio)
        self._pending = Pending(context)
        self._merge_at = FEWEST_PENDING_ROWS
        self._passing = Pending(context)
        self._combine_rows = combine_rows
        self._accumulators: list[Accumulator] = layout.accumulators()

    def take_in(self, rows: Rows) -> Iterator[Chunk]:
        metrics = self._context.metrics
        metrics.add("partial_input_rows", rows.length)
        while self._layout.keys and self._probe.probing and rows.length > PROBE_ROWS:
            yield from self._take(rows.slice(0, PROBE_ROWS))
            rows = rows.slice(PROBE_ROWS, rows.length)
        yield from self._take(rows)
        if self._context.memory.exceeded and self._pending.rows + self._passing.rows:
            metrics.add("early_emits")
            yield from self._emit(self._pending.drain())
            yield from self._emit(self._passing.drain())

    def _take(self, rows: Rows) -> Iterator[Chunk]:
        if self._probe.skipping:
            self._probe.skipped(rows.length)
            yield from self._pass_on(rows)
            return
        grouped = group_rows_once(self._layout, rows.keys, rows.calls, rows.length)
        if self._layout.keys:
            self._probe.grouped(rows.length, grouped.count)
        if self._probe.skipping:  # not the few groups that were made: rows all of one kind are cheaper to merge
            yield from self._pass_on(rows)
        else:
            self._pending.add(grouped.states())
            if self._pending.rows >= self._merge_at:
                yield from self._merge_pending()

    def finish(self) -> Iterator[Chunk]:
        if not self._passing.rows and len(self._pending.chunks) > 1:
            self._merge()
        yield from self._combine([*self._passing.drain(), *self._pending.drain()])

    def _single_groups(self, rows: Rows) -> Chunk:
        states = []
        for accumulator, call in zip(self._accumulators, rows.calls, strict=True):
            states.append(call.vectors if call.merging else accumulator.singles(call.vectors, call.rows, rows.length))
        return Chunk(rows.length, rows.keys, states)

    def _merge(self) -> int:
        """Merge what is pending; how many rows that was."""
        before = self._pending.rows
        merged = merge_chunks(self._layout, self._pending.drain()).states().compact()
        self._pending.add(merged)
        return before

    def _merge_pending(self) -> Iterator[Chunk]:
        before = self._merge()
        if 2 * self._pending.rows > before or self._pending.rows > MOST_PENDING_ROWS:
            yield from self._send(self._pending.drain())
            self._merge_at = FEWEST_PENDING_ROWS
        else:
            self._merge_at = max(FEWEST_PENDING_ROWS, 4 * self._pending.rows)

    def _pass_on(self, rows: Rows) -> Iterator[Chunk]:
        self._context.metrics.add("partial_aggregation_skipped", rows.length)
        yield from self._send([self._single_groups(rows)])

    def _send(self, chunks: list[Chunk]) -> Iterator[Chunk]:
        """Emit, or gather first where sending is expensive."""
        if self._combine_rows == 0:
            yield from self._emit(chunks)
            return
        for chunk in chunks:
            self._passing.add(chunk)
        if self._passing.rows >= self._combine_rows:
            yield from self._combine(self._passing.drain())

    def _combine(self, chunks: list[Chunk]) -> Iterator[Chunk]:
        """Send chunks on, merged if that makes them much fewer rows."""
        if len(chunks) > 1 and self._estimated_share(chunks) < _WORTH_MERGING:
            chunks = [merge_chunks(self._layout, chunks).states()]
        yield from self._emit(chunks)

    def _estimated_share(self, chunks: list[Chunk]) -> float:
        """Groups among rows, judged by the keys whose hash falls into one part of 64."""
        (_, sample), *_ = spread_chunks(self._layout, chunks, SAMPLE_LEVEL, _SAMPLED_PARTS)
        return merge_chunks(self._layout, [sample]).count / sample.length

    def _emit(self, chunks: list[Chunk]) -> Iterator[Chunk]:
        for chunk in chunks:
            self._context.metrics.add("partial_output_rows", chunk.length)
            if chunk.length:
                yield chunk


class Pending:
    """Chunks that wait, accounted for in the task's memory."""

    def __init__(self, context: TaskContext) -> None:
        self._memory = context.memory
        self._bytes = 0
        self.chunks: list[Chunk] = []
        self.rows = 0

    def add(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.rows += chunk.length
        self._charge(self._bytes + chunk.nbytes)

    def drain(self) -> list[Chunk]:
        chunks, self.chunks, self.rows = self.chunks, [], 0
        self._charge(0)
        return chunks

    def _charge(self, new: int) -> None:
        self._memory.resize(self._bytes, new)
        self._bytes = new

    @property
    def nbytes(self) -> int:
        return self._bytes
