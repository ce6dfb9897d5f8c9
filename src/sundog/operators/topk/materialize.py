"""Late columns: the columns that only the result needs, read for the winners alone.

The search decodes only the columns of the sort and the WHERE, and knows each winner's place (file, row group, row). The
other columns are then read from the winners' row groups and nowhere else: `SELECT *` costs k rows, not the table.

    winners: (file, row group, row) ──► one fetch per row group (and, on the driver, per share of its columns)
                                          ──► rows picked ──► put back into the winners' order
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.errors import InternalError
from sundog.operators.base import Described
from sundog.operators.context import TaskContext
from sundog.operators.scan.scan import column_schema, open_slice, to_batch
from sundog.operators.sources import Source
from sundog.operators.topk.row_group_search import POSITION, BestOfScan
from sundog.operators.topk.topk_plan import TopKPlan
from sundog.operators.topk.topk_scan import TopKSearch
from sundog.parquet.decode.late import LateCosts, RowPicker
from sundog.parquet.prune.access_plan import FileSlice, restricted
from sundog.parquet.reading import ReadSpec

SLOT = "#slot"


@dataclass(frozen=True)
class RowGroupRows:
    """Rows to fetch from one row group, ascending, and for each the number of its winner."""

    row_group: int
    rows: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]


@dataclass(frozen=True)
class LateMaterialize(Described):
    """Columns that are read for the winners only, as a line of explain."""

    name = "LateMaterialize"

    columns: tuple[str, ...]

    @property
    def details(self) -> str:
        return f"columns=[{', '.join(self.columns)}]"


@dataclass(frozen=True)
class FetchTask(Source):
    """Fetches some columns of some winners. Its batches have the columns and `#slot`, the winner's number."""

    reading: ReadSpec
    columns: tuple[str, ...]
    parts: tuple[tuple[FileSlice, tuple[RowGroupRows, ...]], ...]
    costs: LateCosts

    @property
    def steps(self) -> tuple[Described, ...]:
        return (LateMaterialize(self.columns),)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*column_schema(self.reading, self.columns), (SLOT, pa.int64())])

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        for part, wanted in self.parts:
            with open_slice(self.reading, part, context) as reader:
                picker = RowPicker(reader, self.costs)
                for group in wanted:
                    context.check_cancelled()
                    context.metrics.add("row_groups_materialized")
                    arrays = picker.take(group.row_group, self.columns, group.rows)
                    yield pa.RecordBatch.from_arrays([*arrays, pa.array(group.slots)], schema=schema)


def plan_fetch(
    plan: TopKPlan, winners: pa.RecordBatch, tasks: int, split_columns: bool, costs: LateCosts
) -> list[FetchTask]:
    """Fetches for the winners' missing columns; none if nothing is missing.

    With fewer row groups than tasks, `split_columns` divides the columns of a row group among tasks as well. The tasks
    then differ in schema, which driver threads allow and a Spark stage does not.
    """
    names = plan.late_columns
    if not names or winners.num_rows == 0:
        return []
    units = list(_by_row_group(winners))
    reading = restricted(plan.spec.reading, set(names))
    shares = _column_shares(plan, names, units[0][0], -(-tasks // len(units)) if split_columns else 1)
    loads: list[dict[int, list[RowGroupRows]]] = [{} for _ in range(min(max(tasks // len(shares), 1), len(units)))]
    for number, (file, wanted) in enumerate(units):
        loads[number % len(loads)].setdefault(file, []).append(wanted)
    parts = [tuple((plan.access.whole_file(file), tuple(each)) for file, each in load.items()) for load in loads]
    return [FetchTask(reading, share, part, costs) for part in parts for share in shares]


def fetched_bytes(plan: TopKPlan, winners: pa.RecordBatch) -> int:
    """Uncompressed bytes of the missing columns in the row groups of the winners: no fetch decodes more."""
    if not plan.late_columns or winners.num_rows == 0:
        return 0
    starts = plan.access.statistics.footers.starts
    slots = np.array([starts[file] + wanted.row_group for file, wanted in _by_row_group(winners)], np.int64)
    return plan.access.column_bytes(plan.late_columns, slots)


def assemble(plan: TopKPlan, winners: pa.RecordBatch, fetched: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """The winners with all output columns, in their order."""
    columns: dict[str, pa.Array] = {name: winners.column(name) for name in plan.spec.carried}
    by_schema: dict[tuple[str, ...], list[pa.RecordBatch]] = {}
    for batch in fetched:
        by_schema.setdefault(tuple(batch.schema.names), []).append(batch)
    for batches in by_schema.values():
        whole = pa.concat_batches(batches)
        order = np.argsort(whole.column(SLOT).to_numpy())
        whole = whole.take(pa.array(order))
        if whole.num_rows != winners.num_rows:
            raise InternalError(f"{winners.num_rows} winners, but the columns of {whole.num_rows} were fetched")
        columns |= zip(whole.schema.names, whole.columns, strict=True)
    schema = column_schema(plan.spec.reading, plan.access.columns)
    return to_batch(
        [columns[name] if name in columns else pa.nulls(0, schema.field(name).type) for name in plan.access.columns],
        schema,
        winners.num_rows,
    )


@dataclass(frozen=True, eq=False)
class Winners(Source):
    """The result of a search: what its stages have found, `winners`, and fetched, put together.

    `winners` is None in a plan that is only explained.
    """

    search: TopKSearch
    limit: int
    offset: int
    winners: pa.RecordBatch | None = None
    fetched: tuple[pa.RecordBatch, ...] = ()

    @property
    def steps(self) -> tuple[Described, ...]:
        plan, search = self.search.plan, self.search
        best = BestOfScan(plan.spec.order, self.limit, self.offset, search.counted)
        table = plan.access.scanned
        scan = plan.spec.scan(table, {**table.counted, **search.scan_counted})
        return (*([LateMaterialize(plan.late_columns)] if plan.late_columns else []), best, scan)

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        if self.winners is None:
            raise InternalError("a search that did not run has no winners")
        rows = assemble(self.search.plan, self.winners, self.fetched)
        if rows.num_rows:
            if self.search.plan.late_columns:
                context.step(1).add(self.winners.num_rows, self.winners.nbytes)
            yield rows


def _by_row_group(winners: pa.RecordBatch) -> Iterator[tuple[int, RowGroupRows]]:
    """(file, rows to fetch) for each row group that holds winners, in table order."""
    files, groups, rows = (winners.column(name).to_numpy() for name in POSITION.names)
    order = np.lexsort((rows, groups, files))
    files, groups, rows = files[order], groups[order], rows[order]
    changes = np.flatnonzero((np.diff(files) != 0) | (np.diff(groups) != 0)) + 1
    for first, last in pairwise([0, *changes.tolist(), len(rows)]):
        yield int(files[first]), RowGroupRows(int(groups[first]), rows[first:last], order[first:last])


def _column_shares(plan: TopKPlan, names: Sequence[str], file: int, count: int) -> list[tuple[str, ...]]:
    """The columns in `count` shares of about equal bytes, by the sizes in a row group of this file."""
    first = plan.access.statistics.footers.starts[file : file + 1]
    sizes = {name: plan.access.column_bytes([name], first) for name in names}
    shares: list[list[str]] = [[] for _ in range(min(count, len(names)))]
    weights = [0] * len(shares)
    for name in sorted(names, key=lambda name: -sizes[name]):
        lightest = weights.index(min(weights))
        shares[lightest].append(name)
        weights[lightest] += sizes[name] + 1
    return [tuple(share) for share in shares]
