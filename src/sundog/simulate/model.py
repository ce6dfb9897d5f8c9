"""Estimates of a graph's stages: rows, bytes, processor time and memory, by the costs of their site.

The graph is the planner's, with the objects that a runtime would run: sources give their row groups, operators and
partitioners are distinguished by class. There is one number of nanoseconds a row for each kind of operator
(`plan/costs.py`), and one rule for how many rows leave it; whole shapes have no formula.

    processor time of a task   bytes read, rows through each operator, rows and bytes in and out of an exchange
    time of a stage            the longest task, or all of them over the slots; and what starting tasks takes

Keys are assumed to be spread evenly: hot keys are ignored, except for ranges, whose cuts are those of the plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.nodes import Column
from sundog.operators.aggregate.distinct_operator import DistinctAggregate
from sundog.operators.aggregate.final_operator import FinalAggregate
from sundog.operators.aggregate.grouping.pending import MERGE_COPIES
from sundog.operators.aggregate.partial_operator import PartialAggregate
from sundog.operators.base import Operator, Partitioner
from sundog.operators.scan.footers import FooterScan
from sundog.operators.scan.scan import ScanTask
from sundog.operators.sources import Source
from sundog.operators.topk.materialize import FetchTask
from sundog.operators.topk.topk import TopKOperator
from sundog.operators.topk.topk_scan import TopKTask
from sundog.operators.window.ranges.carry import SummarizeRange
from sundog.operators.window.ranges.cuts import SampleKeys
from sundog.operators.window.ranges.halo import HaloDrop, RangeRepartition
from sundog.operators.window.ranges.own_reads import KeepRange
from sundog.operators.window.ranges.routes import WordRanges
from sundog.operators.window.ranges.scans import RangeScan
from sundog.operators.window.window_operator import SortRange, WindowOperator
from sundog.parquet.prune.access_plan import FileSlice
from sundog.plan.costs import Costs
from sundog.plan.outputs import Build, Exchange, Gather, Hold, Result
from sundog.plan.stages import Parts, Place, Site, Stage, StageGraph, StageRows, Summaries
from sundog.simulate.synthetic import SyntheticTable
from sundog.types import is_text

Floats = npt.NDArray[np.float64]
_TEXT_BYTES = 16.0


@dataclass(frozen=True)
class SimulatedCluster:
    """Executors of `cores` cores. `processors`: real cores for all slots; None, one for each slot.

    Bytes a second of each executor's network and storage; 0: not a limit.
    """

    executors: int
    cores: int
    memory_bytes: int = 1 << 30  # of a task
    processors: int | None = None
    network: float = 0.0
    storage: float = 0.0
    one_process: bool = True

    @property
    def slots(self) -> int:
        return self.executors * self.cores

    @property
    def busy(self) -> int:
        """Slots that compute at the same time."""
        return min(self.slots, self.processors or self.slots)


@dataclass
class StageEstimate:
    """One stage. Times in seconds; `tasks` are Spark's, `partitions` what they compute."""

    number: int
    purpose: str
    place: str
    partitions: int
    tasks: int
    rows_in: float = 0.0
    bytes_read: float = 0.0
    rows_out: float = 0.0
    bytes_moved: float = 0.0
    halo_rows: float = 0.0
    cpu_seconds: float = 0.0
    skew: float = 1.0
    memory_bytes: float = 0.0
    seconds: float = 0.0


@dataclass
class _PartitionRows:
    """Rows of each partition after some operators of a stage, and the nanoseconds that they took so far."""

    rows: Floats
    nanoseconds: Floats
    halo: float = 0.0
    memory: float = 0.0

    def spend(self, ns_per_row: float) -> None:
        self.nanoseconds = self.nanoseconds + self.rows * ns_per_row


@dataclass
class Model:
    """Estimates the stages of one graph."""

    made: SyntheticTable
    cluster: SimulatedCluster
    sites: dict[Place, Site]
    _moved: dict[int, tuple[Floats, float, float]] = field(default_factory=dict)  # rows, bytes of a row, halo

    def estimate(self, graph: StageGraph) -> list[StageEstimate]:
        return [self._stage(stage) for stage in graph.stages]

    def _stage(self, stage: Stage) -> StageEstimate:
        site = self.sites[stage.place]
        costs = site.costs
        flow, rows_in, bytes_read, width = self._input(stage, costs)
        found = StageEstimate(stage.number, stage.purpose, stage.place.value, len(flow.rows), 0)
        found.rows_in, found.bytes_read = rows_in, bytes_read
        for operator in stage.operators:
            self._apply(operator, stage, flow, width, costs)
            width = _row_bytes(operator.schema)
        found.halo_rows = flow.halo
        found.rows_out = float(flow.rows.sum())
        found.bytes_moved = self._output(stage, flow, width, costs)
        found.cpu_seconds = float(flow.nanoseconds.sum()) / 1e9
        mean = float(flow.nanoseconds.mean()) if len(flow.nanoseconds) else 0.0
        found.skew = float(flow.nanoseconds.max()) / mean if mean else 1.0
        found.memory_bytes = flow.memory
        found.tasks = stage.process_tasks or len(flow.rows)
        found.seconds = self._seconds(stage, flow, found, costs)
        return found

    def _seconds(self, stage: Stage, flow: _PartitionRows, found: StageEstimate, costs: Costs) -> float:
        if stage.place is Place.DRIVER:
            return max(
                float(flow.nanoseconds.max(initial=0.0)) / 1e9, found.cpu_seconds / self.sites[stage.place].slots
            )
        busy = self.cluster.busy
        longest = float(flow.nanoseconds.max(initial=0.0)) / 1e9
        computing = max(
            longest * self.cluster.slots / busy if len(flow.rows) >= busy else longest, found.cpu_seconds / busy
        )
        wires = found.bytes_moved / (self.cluster.network * self.cluster.executors) if self.cluster.network else 0.0
        disks = found.bytes_read / (self.cluster.storage * self.cluster.executors) if self.cluster.storage else 0.0
        starting = costs.task_seconds * math.ceil(
            found.tasks / (self.sites[stage.place].processes if stage.process_tasks else busy)
        )
        is_job = isinstance(stage.output, Gather | Build | Result)
        return max(computing, wires, disks) + starting + (costs.job_seconds if is_job else 0.0)

    # inputs

    def _input(self, stage: Stage, costs: Costs) -> tuple[_PartitionRows, float, float, float]:
        """Rows that leave the input, rows and bytes that are read, bytes of a row."""
        parts, rows_in, bytes_read, width = [], 0.0, 0.0, 0.0
        for given in stage.inputs:
            if isinstance(given, Parts):
                read = np.array([self._read(source, costs) for source in given.sources] or [(0.0, 0.0, 0.0, 0.0)])
                rows_in += float(read[:, 0].sum())
                bytes_read += float(read[:, 1].sum())
                parts.append(_PartitionRows(read[:, 3], read[:, 2]))
                width = _source_bytes(given.sources[0]) if given.sources else 0.0
            elif isinstance(given, StageRows):
                rows, width, halo = self._moved[given.stage.number]
                rows_in += float(rows.sum())
                taken = _PartitionRows(rows, np.zeros(len(rows)), halo)
                if isinstance(given.stage.output, Gather):
                    taken = _PartitionRows(rows.sum(keepdims=True), np.zeros(1), halo)
                elif stage.place is Place.EXECUTORS:
                    taken.spend((costs.shuffle_ns_per_row + width * costs.shuffle_ns_per_byte) / 2)
                parts.append(taken)
            elif isinstance(given, Summaries):
                tasks = float(len(self._moved[given.stage.number][0]))
                rows_in += tasks
                parts.append(_PartitionRows(np.array([tasks]), np.zeros(1)))
        flow = _PartitionRows(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.nanoseconds for part in parts]),
            sum(part.halo for part in parts),
        )
        return flow, rows_in, bytes_read, width

    def _read(self, source: Source, costs: Costs) -> tuple[float, float, float, float]:
        """Rows that are read, uncompressed bytes, nanoseconds, rows that leave the source."""
        kept = math.inf
        match source:
            case ScanTask():
                tested = [column.name for column in source.reading.file_columns]
                rows, size = self._size(source.slices, tested)
            case RangeScan():
                found = [self._read(part, costs) for part in source.parts]
                rows, size = sum(each[0] for each in found), sum(each[1] for each in found)
            case TopKTask():
                names = [
                    column.name for column in source.spec.reading.file_columns if column.name in source.spec.carried
                ]
                slots = np.array(
                    [self.made.footers.starts[each.file] + each.row_group for each in source.candidates], np.int64
                )
                rows, size = self._at(slots, names)
                kept = float(source.spec.k)
            case FetchTask():
                wanted = [(part.file.path, group.row_group) for part, groups in source.parts for group in groups]
                slots = np.array([self._slot(path, group) for path, group in wanted], np.int64)
                rows, size = self._at(slots, list(source.columns))
                kept = float(sum(len(group.rows) for _, groups in source.parts for group in groups))
            case FooterScan():
                return float(len(source.files)), 0.0, len(source.files) * costs.footer_ns, float(len(source.files))
            case _:
                rows = size = 0.0
        return rows, size, size * costs.decode_ns_per_byte + rows * costs.scan_ns_per_row, min(rows, kept)

    def _slot(self, path: str, group: int) -> int:
        return int(self.made.footers.starts[self.made.footers.number_of[path]]) + group

    def _size(self, slices: tuple[FileSlice, ...], names: list[str]) -> tuple[float, float]:
        slots = [self._slot(part.file.path, 0) + np.array(part.row_groups, np.int64) for part in slices]
        return self._at(np.concatenate(slots) if slots else np.zeros(0, np.int64), names)

    def _at(self, slots: npt.NDArray[np.int64], names: list[str]) -> tuple[float, float]:
        size = sum(float(self.made.sizes(name)[slots].sum(dtype=np.int64)) for name in names)
        return float(self.made.footers.row_counts[slots].sum()), size

    # operators

    def _apply(self, operator: Operator, stage: Stage, flow: _PartitionRows, width: float, costs: Costs) -> None:
        """Set the rows that leave an operator, and add its time."""
        match operator:
            case PartialAggregate():
                flow.spend(costs.group_ns_per_row)
                groups = self._groups(operator.keys[0].expr) if operator.keys else 1
                found = groups * -np.expm1(-flow.rows / groups)
                reduces = found <= costs.max_new_share_direct * flow.rows
                flow.memory = max(flow.memory, float(found.max(initial=0.0)) * _row_bytes(operator.schema))
                flow.rows = np.where(reduces, found, flow.rows) / operator.shares
            case FinalAggregate() | DistinctAggregate():
                flow.spend(costs.merge_ns_per_row)
                flow.memory = max(flow.memory, float(flow.rows.max(initial=0.0)) * width * MERGE_COPIES)
                keys = getattr(operator, "keys", ())
                groups = self._groups(keys[0].expr) if keys else 1
                flow.rows = np.minimum(flow.rows, groups / max(len(flow.rows), 1))
            case SortRange():
                flow.spend(costs.other_ns_per_row if self._is_in_order(operator, stage) else costs.sort_ns_per_row)
                flow.memory = max(flow.memory, float(flow.rows.max(initial=0.0)) * width * costs.sort_memory_factor)
            case WindowOperator() | SummarizeRange():
                flow.spend(costs.window_ns_per_row)
                if isinstance(operator, SummarizeRange):
                    flow.rows = np.minimum(flow.rows, 1.0)
            case KeepRange():
                flow.spend(costs.other_ns_per_row)
                spans = [(read.owned, read.needed) for read in operator.ranges.reads]
                self._keep(flow, spans, operator.ranges.key.expr)
            case HaloDrop():
                flow.spend(costs.other_ns_per_row)
                total = float(flow.rows.sum())
                flow.rows = flow.rows * ((total - flow.halo) / total if total else 1.0)
            case TopKOperator():
                flow.spend(costs.other_ns_per_row)
                flow.rows = np.minimum(flow.rows, operator.limit)
            case SampleKeys():
                flow.spend(costs.other_ns_per_row)
                halvings = np.ceil(np.log2(np.maximum(flow.rows / costs.sample_rows_per_task, 1.0)))
                flow.rows = flow.rows / 2**halvings
            case _:
                flow.spend(costs.other_ns_per_row)

    def _is_in_order(self, operator: SortRange, stage: Stage) -> bool:
        """Whether rows come from files in the order of the key, so that sorting only checks them."""
        key = operator.order_by[0].expr if operator.order_by else None
        from_files = all(isinstance(given, Parts) for given in stage.inputs)
        return from_files and isinstance(key, Column) and self.made.column(key.name).clustering == 1.0

    def _groups(self, key: object) -> int:
        column = self.made.column(key.name) if isinstance(key, Column) else None
        rows = int(self.made.footers.row_counts.sum())
        return rows if column is None or column.distinct is None else min(column.distinct, rows)

    def _keep(self, flow: _PartitionRows, spans: list[tuple[tuple[int, int], tuple[int, int]]], key: object) -> None:
        """The rows that ranges own or need of those they have read, by the widths of their keys."""
        owned, needed = self._shares_of_rows(spans, key)
        flow.rows = np.minimum(flow.rows, needed)
        flow.halo = float(np.maximum(flow.rows - owned, 0.0).sum())

    def _shares_of_rows(
        self, spans: list[tuple[tuple[int, int], tuple[int, int]]], key: object
    ) -> tuple[Floats, Floats]:
        """Rows that each range owns, and needs with its own, if keys lie evenly."""
        name = key.name if isinstance(key, Column) else ""
        bounds, rows = self.made.rank_bounds(name), float(self.made.footers.row_counts.sum())
        low, high = bounds.low.extreme(np.min) or 0, bounds.high.extreme(np.max) or 0

        def share(start: int, stop: int) -> float:
            return max(min(stop, high) - max(start, low) + 1, 0) / (high - low + 1) * rows

        return (
            np.array([share(*own) for own, _ in spans]),
            np.array([share(*all_of_it) for _, all_of_it in spans]),
        )

    # outputs

    def _output(self, stage: Stage, flow: _PartitionRows, width: float, costs: Costs) -> float:
        """Bytes that leave the stage for another; the rows of the next stage are kept."""
        output, rows = stage.output, flow.rows
        if isinstance(output, Exchange):
            if output.partitioner.summarizes:
                flow.spend(costs.other_ns_per_row)
            rows, width = self._routed(output.partitioner, flow), _row_bytes(output.partitioner.schema)
        bytes_moved = float(rows.sum()) * width
        self._moved[stage.number] = rows, width, flow.halo
        if stage.place is Place.DRIVER and not isinstance(output, Exchange):
            return 0.0
        ns_per_row = (costs.shuffle_ns_per_row + width * costs.shuffle_ns_per_byte) / 2
        if stage.place is Place.DRIVER:
            ns_per_row = costs.other_ns_per_row
        flow.nanoseconds = flow.nanoseconds + float(rows.sum()) / max(len(flow.nanoseconds), 1) * ns_per_row
        return 0.0 if isinstance(output, Hold | Result) else bytes_moved

    def _routed(self, partitioner: Partitioner, flow: _PartitionRows) -> Floats:
        """The rows that each target receives."""
        total = float(flow.rows.sum())
        if isinstance(partitioner, RangeRepartition) and isinstance(partitioner.ranges, WordRanges):
            cut = partitioner.ranges
            starts, stops = [cut.lows[0], *cut.cuts], [*(word - 1 for word in cut.cuts), cut.highs[-1]]
            spans = [
                ((first, last), (min(low, first), max(high, last)))
                for first, last, low, high in zip(starts, stops, cut.lows, cut.highs, strict=True)
            ]
            owned, needed = self._shares_of_rows(spans, cut.order_by[0].expr)
            flow.halo = float((needed - owned).sum())
            return needed
        return np.full(partitioner.partitions, total / partitioner.partitions)


def _source_bytes(source: Source) -> float:
    """Bytes of a row that leaves a source."""
    first = source.parts[0] if isinstance(source, RangeScan) and source.parts else source
    schema = getattr(first, "schema", None)
    return 0.0 if schema is None else _row_bytes(schema)


def _row_bytes(schema: pa.Schema) -> float:
    def width(dtype: pa.DataType) -> float:
        if is_text(dtype) or pa.types.is_nested(dtype):
            return _TEXT_BYTES
        return 0.0 if pa.types.is_null(dtype) else float(dtype.bit_width) / 8

    return sum(width(each.type) for each in schema)
