"""The search within one row group for rows that may be among the k best, with as little decoding as possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from sundog.expr.buffers import Bools, Indices
from sundog.expr.dynamic_filters.threshold import LiveThreshold, Threshold
from sundog.expr.evaluate import evaluate
from sundog.expr.evaluation.where import where_mask
from sundog.expr.nodes import Column, Expr, columns_of
from sundog.expr.ordering import SortKey, select_k
from sundog.metrics import Metrics
from sundog.operators.base import Described
from sundog.operators.context import TaskContext
from sundog.operators.costs import TopKCosts
from sundog.operators.scan.scan import column_schema, to_batch
from sundog.operators.scan.table_scan import TableScan
from sundog.operators.topk.topk import BestRows, topk_text
from sundog.parquet.decode.reader import FileReader
from sundog.parquet.prune.access_plan import ScannedTable
from sundog.parquet.prune.bloom_filter import BloomFilterPruner, wanted_values
from sundog.parquet.prune.row_group_pruner import Candidate
from sundog.parquet.reading import ReadSpec

POSITION = pa.schema([("#file", pa.int32()), ("#row_group", pa.int32()), ("#row", pa.int64())])


@dataclass(frozen=True)
class Switches:
    """The layers of pruning, each of which can be switched off to measure its worth."""

    initial_threshold: bool = True
    row_groups: bool = True  # re-check each row group against the live threshold
    rows: bool = True  # drop decoded rows past the live threshold before anything else is done with them
    late_materialization: bool = True

    @classmethod
    def static_only(cls) -> Switches:
        """`spark.sundog.topk.dynamicPruning.enabled=false`: statistics are used once, at the start, for the WHERE."""
        return cls(initial_threshold=False, row_groups=False)


@dataclass(frozen=True)
class BestOfScan(Described):
    """The k best rows of a scan, as a line of explain. `counted`: the counts of the whole search."""

    name = "TopK"

    order: tuple[SortKey, ...]
    limit: int
    offset: int = 0
    counted: Mapping[str, float] = field(default_factory=dict)

    @property
    def details(self) -> str:
        return topk_text(self.order, self.limit, self.offset)

    @property
    def planned_metrics(self) -> Mapping[str, float]:
        return self.counted


@dataclass(frozen=True)
class TopKSpec:
    """The part of a search that does not change. Picklable.

    `checks` are expressions that may raise and that plain Spark would evaluate for every row that passes the WHERE.
    They are evaluated for their errors, and no row group in which one may raise is pruned.
    """

    reading: ReadSpec
    predicate: Expr | None
    order: tuple[SortKey, ...]
    k: int
    carried: tuple[str, ...]  # output columns that the search decodes anyway
    checks: tuple[Expr, ...] = ()
    switches: Switches = Switches()

    @cached_property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that hold the values of the sort keys."""
        return tuple(
            key.expr.name if isinstance(key.expr, Column) and key.expr.name in self.carried else f"#key {number}"
            for number, key in enumerate(self.order)
        )

    def steps(self, table: ScannedTable) -> tuple[Described, ...]:
        """The steps of a task of the search, the last step first."""
        return (BestOfScan(self.order, self.k), self.scan(table))

    def scan(self, table: ScannedTable, counted: Mapping[str, float] = MappingProxyType({})) -> TableScan:
        """The scan below the search. It reads the columns that the search needs."""
        dynamic, checks = self.switches.row_groups, self.checks
        return TableScan(table, self.carried, self.predicate, dynamic=dynamic, checks=checks, counted=counted)

    @property
    def _key_exprs(self) -> tuple[Expr, ...]:
        return tuple(key.expr for key in self.order)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of candidates and winners: carried columns, computed sort keys, place in the table."""
        keys = zip(self.key_columns, self.order, strict=True)
        computed = [(name, key.expr.dtype) for name, key in keys if name not in self.carried]
        return pa.schema([*column_schema(self.reading, self.carried), *computed, *POSITION])

    def best_rows(self, live: LiveThreshold, costs: TopKCosts) -> BestRows:
        return BestRows(self.schema, self.order, self.key_columns, self.k, live, costs, POSITION.names)

    def bloom_filters(self, costs: TopKCosts) -> BloomFilterPruner:
        """A task's pruner by Bloom filters, for the values that the WHERE compares with."""
        return BloomFilterPruner(wanted_values(self.predicate, (), costs.bloom_filter_values))

    def search(
        self, reader: FileReader, candidate: Candidate, live: LiveThreshold, context: TaskContext, costs: TopKCosts
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one row group that may be among the k best, at most k from each piece of it."""
        metrics, most = context.metrics, costs.whole_bytes(context.memory.limit)
        metrics.add("row_groups_scanned")
        metrics.add("input_rows", candidate.rows)
        first, second = self._stages(candidate)
        start = 0
        for piece in self._decode(reader, candidate.row_group, first, second, most):
            threshold = live.snapshot()
            found = self._search_piece(piece, start, candidate, threshold, metrics)
            if found is not None:
                yield found
            start += piece.rows

    def _stages(self, candidate: Candidate) -> tuple[list[str], list[str]]:
        """Columns to decode at once, and those to decode only if rows are left: the sort columns, then the WHERE's."""
        first = set(self.carried).union(*(columns_of(expr) for expr in (*self._key_exprs, *self.checks)))
        tested = set() if self.predicate is None or candidate.all_rows_match else columns_of(self.predicate)
        return sorted(first), sorted(tested - first)

    def _decode(
        self, reader: FileReader, group: int, first: list[str], second: list[str], max_bytes: int
    ) -> Iterator[_Piece]:
        together = [*first, *second]
        if reader.layout.memory_bytes(together, group) > max_bytes:
            schema = column_schema(self.reading, together)
            for arrays in reader.pieces(group, together, max_bytes):
                yield _Piece(to_batch(arrays, schema, 0))
            return
        rows = int(reader.layout.footer.row_counts[group])
        head = to_batch(reader.read([group], first), column_schema(self.reading, first), rows)
        yield _Piece(head, reader, group, tuple(second), column_schema(self.reading, second))

    def _search_piece(
        self, piece: _Piece, start: int, candidate: Candidate, threshold: Threshold, metrics: Metrics
    ) -> pa.RecordBatch | None:
        # Rows that may raise are tested first, as Spark does: the WHERE shields what is evaluated after it.
        chosen: Indices | None = None  # rows of the piece; None is all of them
        if self.switches.rows and not candidate.must_read:
            chosen = self._drop_past_threshold(piece, candidate, threshold, metrics)
            if chosen is not None and not len(chosen):
                return None
        if not candidate.all_rows_match:
            chosen = self._test(piece, chosen, metrics)
        batch = piece.rows_at(chosen)
        for expr in self.checks:
            evaluate(expr, batch)
        keys = [evaluate(expr, batch) for expr in self._key_exprs]
        if batch.num_rows > self.k:
            local = np.sort(select_k(keys, self.order, self.k))
            chosen = local if chosen is None else chosen[local]
            taken = pa.array(local)
            batch, keys = batch.take(taken), [array.take(taken) for array in keys]
        if batch.num_rows == 0:
            return None
        rows = np.arange(batch.num_rows, dtype=np.int64) if chosen is None else chosen
        return self._held(batch, keys, rows + start, candidate)

    def _drop_past_threshold(
        self, piece: _Piece, candidate: Candidate, threshold: Threshold, metrics: Metrics
    ) -> Indices | None:
        if not threshold.bounded:
            return None
        leads = evaluate(self.order[0].expr, piece.batch)
        mask = threshold.passing(leads, ties=threshold.ties_can_win(candidate.position))
        if mask is None or bool(mask.all()):
            return None
        chosen = np.flatnonzero(mask)
        metrics.add("rows_pruned_dynamic_filter", piece.rows - len(chosen))
        return chosen

    def _test(self, piece: _Piece, chosen: Indices | None, metrics: Metrics) -> Indices | None:
        """The rows among the chosen that pass the WHERE."""
        if self.predicate is None:
            return chosen
        piece.complete()
        batch = piece.rows_at(chosen)
        mask: Bools = where_mask(self.predicate, batch)
        passed = np.flatnonzero(mask)
        metrics.add("rows_filtered", batch.num_rows - len(passed))
        return passed if chosen is None else chosen[passed]

    def _held(self, batch: pa.RecordBatch, keys: list[pa.Array], rows: Indices, candidate: Candidate) -> pa.RecordBatch:
        count = len(rows)
        carried = [batch.column(name) for name in self.carried]
        computed = [array for name, array in zip(self.key_columns, keys, strict=True) if name not in self.carried]
        place = [
            pa.array(np.full(count, candidate.file, np.int32)),
            pa.array(np.full(count, candidate.row_group, np.int32)),
            pa.array(rows),
        ]
        return pa.RecordBatch.from_arrays([*carried, *computed, *place], schema=self.schema)


@dataclass
class _Piece:
    """Decoded rows of a row group; the columns of the second stage come when first needed."""

    batch: pa.RecordBatch
    reader: FileReader | None = None
    group: int = 0
    later: tuple[str, ...] = ()
    later_schema: pa.Schema = field(default_factory=lambda: pa.schema([]))

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)

    def complete(self) -> None:
        if self.later and self.reader is not None:
            arrays = [*self.batch.columns, *self.reader.read([self.group], self.later)]
            self.batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*self.batch.schema, *self.later_schema]))
            self.later = ()

    def rows_at(self, chosen: Indices | None) -> pa.RecordBatch:
        return self.batch if chosen is None else self.batch.take(pa.array(chosen))
