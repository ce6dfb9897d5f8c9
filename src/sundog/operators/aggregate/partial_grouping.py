"""Partial aggregation: group the rows of one task before they travel, as long as that reduces them.

    rows ──► look up their groups, update the states ──► emit when the table or memory is full, and at the end
         └─► pass on, each row a group of its own, while grouping does not reduce

The table is kept small enough for the caches. When it is full it is emitted and starts empty: the final aggregation
merges in any case, and in a table that grows with the data every row would wait for memory. So a key of few values is
grouped completely here, sorted input emits each group about once, and a hot key is reduced wherever it occurs. Keys of
many values are left to the final aggregation, which groups them faster.

Ungrouped rows that would go through Spark's shuffle are collected, and merged if that leaves much fewer of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sundog.functions.grouped import Accumulator, Groups, one_group
from sundog.operators.aggregate.grouping.pending import Pending
from sundog.operators.aggregate.grouping.state_merger import estimated_share, merge_in_parts
from sundog.operators.aggregate.grouping.states import Chunk, StateLayout
from sundog.operators.aggregate.inputs import Rows
from sundog.operators.aggregate.keys.group_table import GroupTable
from sundog.operators.aggregate.skip_probe import SkipProbe
from sundog.operators.context import TaskContext
from sundog.operators.costs import GroupingCosts

_WRITING_SHARE = 16  # the task's memory over the groups that are written out at once, which copies their strings


class PartialGrouping:
    """Turns one task's rows into partial groups.

    Ungrouped rows before a shuffle are collected and merged if that reduces them. Merging takes at most 50 ns a row;
    looking all of them up in the table would take 200.
    """

    def __init__(self, layout: StateLayout, context: TaskContext, costs: GroupingCosts) -> None:
        self._layout = layout
        self._context = context
        self._costs = costs
        self._running = RunningGroups(layout, context, costs)
        self._probe = SkipProbe(costs, context.hints)
        self._probed: list[Rows] = []
        self._gave_up = False
        self._singles = layout.accumulators()
        self._passing = Pending(context)

    def take_in(self, rows: Rows) -> Iterator[Chunk]:
        self._context.metrics.add("partial_input_rows", rows.length)
        while self._layout.keys and self._probe.probing and rows.length > self._probe.window:
            window = self._probe.window
            yield from self._take(rows.slice(0, window))
            rows = rows.slice(window, rows.length)
        yield from self._take(rows)
        if self._context.memory.exceeded and self._running.count + self._passing.rows:
            self._context.metrics.add("early_emits")
            yield from self._emit([*self._passing.drain(), *self._running.drain()])

    def finish(self) -> Iterator[Chunk]:
        yield from self._combine([*self._passing.drain(), *self._running.drain()])

    def _take(self, rows: Rows) -> Iterator[Chunk]:
        if self._probe.skipping:
            self._probe.skipped(rows.length)
            yield from self._pass_on(rows)
            return
        new = self._running.add(rows)
        if not self._layout.keys:
            return
        probing = self._probe.probing
        self._probe.grouped(rows.length, new, self._running.cheap)
        if self._probe.skipping:
            yield from self._give_up(rows)
        else:
            self._probed = [*self._probed, rows] if probing and self._probe.probing else []
            if self._running.count > self._costs.partial_table_groups:
                yield from self._emit(self._running.drain())

    def _give_up(self, rows: Rows) -> Iterator[Chunk]:
        """Stop grouping. Rows of the probe alone are passed on ungrouped: rows of one kind are merged faster."""
        if not self._gave_up:
            self._context.metrics.add("partial_aggregations_given_up")
            self._gave_up = True
        if self._running.rows == sum(probed.length for probed in self._probed) + rows.length:
            self._running.forget()
            for probed in [*self._probed, rows]:
                yield from self._pass_on(probed)
        else:
            yield from self._send(self._running.drain())
        self._probed = []

    def _pass_on(self, rows: Rows) -> Iterator[Chunk]:
        self._context.metrics.add("partial_aggregation_skipped", rows.length)
        states = [
            call.vectors if call.merging else accumulator.singles(call.vectors, call.rows, rows.length)
            for accumulator, call in zip(self._singles, rows.calls, strict=True)
        ]
        yield from self._send([Chunk(rows.length, rows.keys, states)])

    def _send(self, chunks: list[Chunk]) -> Iterator[Chunk]:
        """Emit, or collect first if sending is expensive."""
        if self._layout.in_process:
            yield from self._emit(chunks)
            return
        for chunk in chunks:
            self._passing.add(chunk)
        if self._passing.rows >= self._costs.combine_rows or self._passing.too_much_to_merge:
            yield from self._combine(self._passing.drain())
            pa.default_memory_pool().release_unused()  # before as much is collected again

    def _combine(self, chunks: list[Chunk]) -> Iterator[Chunk]:
        """Emit chunks, merged if that leaves much fewer rows."""
        share = estimated_share(self._layout, chunks, self._costs) if len(chunks) > 1 else 1.0
        if share < self._costs.max_combined_share:
            for grouped in merge_in_parts(self._layout, chunks, self._context, self._costs):
                yield from self._emit([grouped.states()])
        else:
            yield from self._emit(chunks)

    def _emit(self, chunks: list[Chunk]) -> Iterator[Chunk]:
        """Empties the list: a chunk is released when the next one is wanted."""
        chunks.reverse()
        while chunks:
            chunk = chunks.pop()
            self._context.metrics.add("partial_output_rows", chunk.length)
            yield from self._pieces(chunk)

    def _pieces(self, chunk: Chunk) -> Iterator[Chunk]:
        """The chunk, in pieces if it is large and is to be written out."""
        pieces = 1
        if not self._layout.in_process:
            pieces = min(chunk.length, 1 + chunk.nbytes // max(1, self._context.memory.limit // _WRITING_SHARE))
        for piece in range(pieces):
            start, end = (chunk.length * at // pieces for at in (piece, piece + 1))
            if end > start:
                yield chunk.slice(start, end)


class RunningGroups:
    """The groups seen so far and their states, accounted for in the task's memory."""

    def __init__(self, layout: StateLayout, context: TaskContext, costs: GroupingCosts) -> None:
        self._layout = layout
        self._memory = context.memory
        self._charged = 0
        self._table = GroupTable(layout.key_layout, costs)
        self._start()

    def _start(self) -> None:
        self._table.clear()
        self._accumulators: list[Accumulator] = self._layout.accumulators()
        self.rows = 0

    @property
    def count(self) -> int:
        return self._table.count if self._layout.keys else min(self.rows, 1)

    @property
    def cheap(self) -> bool:
        return self._table.cheap

    def add(self, rows: Rows) -> int:
        """Take in rows; the number of new groups."""
        before = self.count
        self.rows += rows.length
        if self._layout.keys:
            ids = self._table.assign(rows.keys, rows.length)
            groups = Groups(ids, self._table.count)
        else:
            groups = one_group(rows.length)
        for accumulator, call in zip(self._accumulators, rows.calls, strict=True):
            if call.merging:
                accumulator.merge(call.vectors, groups)
            else:
                accumulator.update(call.vectors, call.rows, groups)
        self._charge(self._table.nbytes + self.count * self._layout.state_bytes)
        return self.count - before

    def drain(self) -> list[Chunk]:
        """The collected groups, as one chunk or none; starts empty again."""
        if self.rows == 0:
            return []
        keys = self._table.group_keys() if self._layout.keys else []
        chunk = Chunk(self.count, keys, [accumulator.state() for accumulator in self._accumulators])
        self.forget()
        return [chunk]

    def forget(self) -> None:
        self._start()
        self._charge(0)

    def _charge(self, new: int) -> None:
        self._memory.resize(self._charged, new)
        self._charged = new
