"""Made-up rows of a planner's steps: what probes, samples and rounds of a top-k would find in a synthetic table.

Probes and samples are the real operators, run over a few rows drawn from the bounds of the row groups that they would
read. A round of a top-k finds the k best rows of the best row group that it reads, as if its keys were spread evenly.
Summaries of ranges (`Summarize`) are not made up: the planner then plans without them, as for explain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sundog.expr.rank_columns import RankColumn
from sundog.expr.ranks import array_of_ranks
from sundog.operators.aggregate.key_probe import ProbeKeys
from sundog.operators.context import TaskContext
from sundog.operators.scan.scan import ScanTask
from sundog.operators.topk.materialize import FetchTask
from sundog.operators.topk.row_group_search import POSITION
from sundog.operators.topk.topk_scan import TopKTask
from sundog.operators.window.ranges.cuts import SampleKeys
from sundog.plan.lower.planner import Rows, Step
from sundog.plan.stages import Parts, Stage
from sundog.simulate.synthetic import SyntheticTable

_SAMPLED_ROWS = 1 << 18  # of all row groups of a sample
_PROBED_ROWS = 1 << 16


class Answers:
    """Answers the steps of a planner."""

    def __init__(self, made: SyntheticTable) -> None:
        self._made = made
        self._random = np.random.default_rng(1)

    def __call__(self, step: Step) -> Rows | None:
        stage = step.stage
        last = stage.operators[-1] if stage.operators else None
        if isinstance(last, ProbeKeys | SampleKeys):
            groups = sum(len(part.row_groups) for _, task in self._scans(stage) for part in task.slices)
            rows = _PROBED_ROWS if isinstance(last, ProbeKeys) else max(_SAMPLED_ROWS // max(groups, 1), 16)
            return [batch for number, task in self._scans(stage) for batch in self._run(stage, number, task, rows)]
        sources = [source for given in stage.inputs if isinstance(given, Parts) for source in given.sources]
        if sources and all(isinstance(source, TopKTask) for source in sources):
            return self._best_rows([source for source in sources if isinstance(source, TopKTask)])
        if sources and all(isinstance(source, FetchTask) for source in sources):
            return [batch for source in sources if isinstance(source, FetchTask) for batch in _fetched(source)]
        return None

    @staticmethod
    def _scans(stage: Stage) -> Iterator[tuple[int, ScanTask]]:
        sources = [source for given in stage.inputs if isinstance(given, Parts) for source in given.sources]
        for number, source in enumerate(sources):
            if isinstance(source, ScanTask):
                yield number, source

    def _run(self, stage: Stage, number: int, task: ScanTask, rows: int) -> Iterator[pa.RecordBatch]:
        batches = iter(list(self._drawn(task, rows)))
        context = TaskContext(partition=number)
        for operator in stage.operators:
            batches = operator.run(batches, context)
        yield from batches

    def _drawn(self, task: ScanTask, rows: int) -> Iterator[pa.RecordBatch]:
        """A batch for each row group."""
        footers = self._made.footers
        for part in task.slices:
            first = int(footers.starts[footers.number_of[part.file.path]])
            for group in part.row_groups:
                count = min(rows, int(footers.row_counts[first + group]))
                arrays = [self._values(name, first + group, count) for name in task.columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=task.schema)

    def _values(self, name: str, slot: int, count: int) -> pa.Array:
        column, bounds = self._made.column(name), self._made.rank_bounds(name)
        low, high = bounds.low[slot], bounds.high[slot]
        if not isinstance(low, int) or not isinstance(high, int):
            return pa.array([f"n{number:08d}" for number in self._random.integers(0, 10**8, count).tolist()])
        if pa.types.is_floating(column.dtype):
            return pa.array(self._random.random(count), column.dtype)
        return RankColumn.all_known(self._random.integers(low, high, count, endpoint=True)).to_array(column.dtype)

    def _best_rows(self, tasks: list[TopKTask]) -> Rows:
        """k rows, all as good as the k-th best of the best row group."""
        spec, key = tasks[0].spec, tasks[0].spec.order[0]
        footers = self._made.footers
        name = getattr(key.expr, "name", "")
        bounds, best = self._made.rank_bounds(name), None
        for candidate in (each for task in tasks for each in task.candidates):
            slot = int(footers.starts[candidate.file]) + candidate.row_group
            low, high = bounds.low[slot], bounds.high[slot]
            assert isinstance(low, int), "synthetic sort keys are integers"
            assert isinstance(high, int), "synthetic sort keys are integers"
            inside = (high - low) * min(spec.k, candidate.rows) // candidate.rows
            rank = high - inside if key.descending else low + inside
            if best is None or (rank > best[0] if key.descending else rank < best[0]):
                best = rank, candidate
        if best is None:
            return []
        rank, winner = best
        place = {"#file": winner.file, "#row_group": winner.row_group}
        columns = []
        for field in spec.schema:
            if field.name in POSITION.names:
                own = np.arange(spec.k) if field.name == "#row" else np.full(spec.k, place[field.name])
                columns.append(pa.array(own).cast(field.type))
            elif field.name == spec.key_columns[0]:
                columns.append(array_of_ranks([rank] * spec.k, field.type))
            else:
                columns.append(pa.nulls(spec.k, field.type))
        return [pa.RecordBatch.from_arrays(columns, schema=spec.schema)]


def _fetched(task: FetchTask) -> Iterator[pa.RecordBatch]:
    for _, groups in task.parts:
        for group in groups:
            nulls = [pa.nulls(len(group.slots), field.type) for field in task.schema][:-1]
            yield pa.RecordBatch.from_arrays([*nulls, pa.array(group.slots)], schema=task.schema)
