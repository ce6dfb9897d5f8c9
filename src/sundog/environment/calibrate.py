"""`sundog doctor --calibrate`: measures costs on the user's own machine and cluster.

The shipped costs (`plan/costs.py`) are those of a machine with 2 cores. Here the main ones are measured with sundog's
own scan and exchange, every slot busy, and written to a file that `spark.sundog.costs` names:

    decode_ns_per_byte     time of a task over the uncompressed bytes of the columns that it reads: numbers and strings,
                           dictionaries and plain values, from a file that the task itself has written
    shuffle_ns_per_row,    rows of 8 and of 128 bytes from every slot to every slot through an exchange, less the time
    shuffle_ns_per_byte    of an exchange of next to no rows, times the slots: two equations for two numbers
    max_scattered_reads    1 + m / r for a row of 24 bytes: the one necessary read, and the reads that take as long as
                           moving the row. m = shuffle_ns_per_row + 24 shuffle_ns_per_byte;
                           r = reread_factor * 24 decode_ns_per_byte, since a row that every task reads is also
                           hashed or compared, and mostly dropped. At most max_shares: more was never tried
    task_bytes             from jobs of few and of many empty tasks. 4 MiB are right for tasks that cost 30 ms and bytes
                           that are decoded in 1.25 ns; in proportion more if a task costs more, or a byte less
    small_step_bytes       bytes that a thread of the driver decodes in the time of a job of one empty task per slot: a
                           small build side, or a sample, of up to this size is read there

Joins need no measurement of their own. Building and probing are the same loops on every machine, and they are compared
with the exchange of both sides, which is measured here.

On the driver only decoding is measured: its exchange is in memory, and an empty task does not show what a task costs
there, which is merging its groups. All other costs stay unchanged.

Each kind of run is done once to warm up (Python workers, compiled kernels), then in turns with the others, and the
median is taken. A number that comes out as zero or less is noise: it is left out, with a warning.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sundog.environment.shipping import ensure_executors, executor_problem
from sundog.errors import EnvironmentProblem, ExecutorEnvironmentError
from sundog.expr.nodes import Column
from sundog.kernels.cache.private_files import publish_private
from sundog.machine import usable_cores
from sundog.operators.base import Operator
from sundog.operators.context import DEFAULT_MEMORY_BYTES, TaskContext
from sundog.operators.scan.scan import ScanTask, scan_tasks
from sundog.operators.sources import Source
from sundog.operators.window.key_partition import KeyPartition
from sundog.parquet.prune.access_plan import plan_access
from sundog.parquet.reading import DataFile, FileColumn
from sundog.plan.costs import DRIVER, EXECUTORS, Costs
from sundog.plan.outputs import Gather
from sundog.plan.records import StageRecords
from sundog.plan.sites import task_limits
from sundog.plan.stages import Parts, Pipeline, Place, StageGraph
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.execute import StageRunner
from sundog.runtime.progress import NO_PROGRESS, ProgressSink
from sundog.runtime.spark import SparkRuntime
from sundog.tables.parquet_folder import ParquetFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_FILE = Path("sundog-costs.json")
_NARROW_COLUMNS, _WIDE_COLUMNS = 1, 16  # of 8 bytes
_TYPICAL_ROW_BYTES = 24  # a key and two numbers
_MAX_SLOTS = 64  # more slots do not make the numbers better, but the shuffle files larger
_TASK_NS = 30e6  # of a Spark task, where `EXECUTORS` was measured
_MAX_TASK_BYTES = 64 << 20  # limits the effect of a scheduler that was busy during the measurement
_MAX_SMALL_STEP_BYTES = 256 << 20  # limits the effect of one slow job
_MAX_SECONDS = 30.0  # after these no further turn begins
_MAX_LOAD = 0.5  # runnable processes for each core; with a higher load the shuffle came out 10 times as slow
_BATCH_ROWS = 65_536
_FILE_MODE = 0o644


@dataclass(frozen=True)
class Sizes:
    """Sizes of the measurement: rows of one task, tasks of a slot, runs of each kind."""

    decoded_rows: int = 1_000_000
    narrow_rows: int = 3_000_000
    wide_rows: int = 500_000
    tasks_per_slot: int = 6
    runs: int = 5


@dataclass
class Calibration:
    """The measured numbers, by the names of `Costs`, and the names of those that could not be measured."""

    driver: dict[str, float] = field(default_factory=dict)
    executors: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> str:
        """The JSON that `read_costs` reads."""
        return json.dumps({"driver": self.driver, "executors": self.executors}, indent=2) + "\n"

    def compared(self) -> list[dict[str, object]]:
        """Each number beside the shipped one."""
        return [*_compared(Place.DRIVER, DRIVER, self.driver), *_compared(Place.EXECUTORS, EXECUTORS, self.executors)]

    def write(self, file: Path) -> None:
        """Replace the whole file, or leave the old one. EnvironmentProblem if it cannot be written."""
        check_writable(file)
        try:
            publish_private(file, self.as_json().encode(), _FILE_MODE)
        except OSError as error:
            raise _unwritable(file, error.strerror or str(error)) from error


def check_writable(file: Path) -> None:
    """EnvironmentProblem if the file cannot be written, found before a minute is spent on measuring."""
    if file.is_dir():
        raise _unwritable(file, "it is a folder")
    if not file.parent.is_dir():
        raise _unwritable(file, f"there is no folder {file.parent}")
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise _unwritable(file, f"you may not write into {file.absolute().parent}")


def _unwritable(file: Path, why: str) -> EnvironmentProblem:
    return EnvironmentProblem(f"{file} cannot be written: {why}. Name another: sundog doctor --calibrate FILE")


def _compared(place: Place, old: Costs, new: Mapping[str, float]) -> Iterator[dict[str, object]]:
    for name, value in new.items():
        before = getattr(old, name)
        yield {"place": place.value, "cost": name, "old": before, "new": value, "ratio": round(value / before, 2)}


def calibrate(
    spark: SparkSession | None, sizes: Sizes | None = None, progress: ProgressSink = NO_PROGRESS
) -> Calibration:
    """Measure the driver and, with a session, its executors."""
    measured, sizes = Calibration(), sizes or Sizes()
    _note_load(measured)
    try:
        _calibrate_driver(measured, sizes, progress)
        if spark is not None:
            _check_executors(spark)
            _calibrate_executors(measured, _ExecutorRuns(spark), sizes, progress)
    finally:
        progress.finish()
    return measured


def _note_load(measured: Calibration) -> None:
    """Warn if this machine is busy with other work: the numbers are then too large, by different factors."""
    load, cores = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0, usable_cores()
    if load > _MAX_LOAD * cores:
        measured.notes.append(
            f"This machine is busy: {load:.1f} processes want to run, cores: {cores}. Calibrate again when it is idle."
        )


def _calibrate_driver(measured: Calibration, sizes: Sizes, progress: ProgressSink) -> None:
    slots = usable_cores()  # as many as run a query's tasks
    progress.start("Calibrate the driver: decode", 0)
    runner = StageRunner(DriverRuntime(slots, DEFAULT_MEMORY_BYTES))
    measured.driver["decode_ns_per_byte"] = _rounded(_decode(runner, Place.DRIVER, slots, sizes))


def _check_executors(spark: SparkSession) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same text follows as an error
        ensure_executors(spark)
    problem = executor_problem(spark)
    if problem is not None:
        raise ExecutorEnvironmentError(problem)


class _ExecutorRuns:
    """Runs that are timed on the executors of one session, a task or several for every slot."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def slots(self) -> int:
        return min(int(self._spark.sparkContext.defaultParallelism), _MAX_SLOTS)

    def runner(self) -> StageRunner:
        def executors(records: StageRecords) -> SparkRuntime:
            return SparkRuntime(self._spark, task_limits(DEFAULT_MEMORY_BYTES), records=records)

        return StageRunner(DriverRuntime(1, DEFAULT_MEMORY_BYTES), executors)

    def decode_ns_per_byte(self, sizes: Sizes) -> float:
        runner = self.runner()
        try:
            return _decode(runner, Place.EXECUTORS, self.slots, sizes)
        finally:
            runner.release()

    def exchange_seconds(self, rows: int, columns: int) -> float:
        """Time of moving `rows` rows of every task to the same number of tasks, where they are counted."""
        source = _MadeRows(rows, columns)
        partitioner = KeyPartition(source.schema, (Column("c0", pa.int64()),), self.slots)
        graph = StageGraph()
        made = Pipeline(Place.EXECUTORS, "Make rows", (Parts((source,) * self.slots),))
        return self._seconds(graph, graph.exchange(made, partitioner, "Count rows"), rows * self.slots)

    def tasks_seconds(self, tasks_per_slot: int) -> float:
        """Time of a job of empty tasks."""
        tasks = self.slots * tasks_per_slot
        rows = Pipeline(Place.EXECUTORS, "Count rows", (Parts((_MadeRows(1, _NARROW_COLUMNS),) * tasks),))
        return self._seconds(StageGraph(), rows, tasks)

    def _seconds(self, graph: StageGraph, rows: Pipeline, expected: int) -> float:
        runner, stage = self.runner(), graph.end(rows.then(_CountRows()), Gather())
        start = perf_counter()
        try:
            counts = runner.rows(stage)
            seconds = perf_counter() - start
        finally:
            runner.release()
        counted = sum(batch.column(0)[0].as_py() for batch in counts)
        if counted != expected:
            raise EnvironmentProblem(f"{expected} rows were made on the executors, and {counted} came back")
        return seconds


def _calibrate_executors(measured: Calibration, executors: _ExecutorRuns, sizes: Sizes, progress: ProgressSink) -> None:
    kinds: dict[str, Callable[[], float]] = {
        "decode": lambda: executors.decode_ns_per_byte(sizes),
        "no rows": lambda: executors.exchange_seconds(1, _NARROW_COLUMNS),
        "narrow rows": lambda: executors.exchange_seconds(sizes.narrow_rows, _NARROW_COLUMNS),
        "wide rows": lambda: executors.exchange_seconds(sizes.wide_rows, _WIDE_COLUMNS),
        "few tasks": lambda: executors.tasks_seconds(1),
        "many tasks": lambda: executors.tasks_seconds(sizes.tasks_per_slot),
    }
    start = perf_counter()
    progress.start("Calibrate the executors: warm up", len(kinds))
    for run in kinds.values():  # the first runs also start late executors, which then count as slots
        run()
        progress.advance()
    found = _in_turns(kinds, sizes, progress, start + _MAX_SECONDS)
    measured.executors["decode_ns_per_byte"] = _rounded(found["decode"])
    narrow_ns = (found["narrow rows"] - found["no rows"]) / sizes.narrow_rows * 1e9
    wide_ns = (found["wide rows"] - found["no rows"]) / sizes.wide_rows * 1e9
    task_ns = (found["many tasks"] - found["few tasks"]) / (sizes.tasks_per_slot - 1) * 1e9
    _add_shuffle(measured, narrow_ns, wide_ns)
    _add_task(measured, task_ns)
    _add_small_step(measured, found["few tasks"] * 1e9)


def _in_turns(
    kinds: Mapping[str, Callable[[], float]], sizes: Sizes, progress: ProgressSink, until: float
) -> dict[str, float]:
    """The median of each kind. In turns, so that other work on the machine slows down all kinds alike."""
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    progress.start("Calibrate the executors: measure", sizes.runs * len(kinds))
    for _ in range(sizes.runs):
        for kind, run in kinds.items():
            found[kind].append(run())
            progress.advance()
        if perf_counter() > until:
            break
    return {kind: median(own) for kind, own in found.items()}


def _add_shuffle(measured: Calibration, narrow_ns: float, wide_ns: float) -> None:
    """Solves `per_row + 8 per_byte = narrow_ns`, `per_row + 128 per_byte = wide_ns`; adds the costs derived from
    them."""
    narrow_bytes, wide_bytes = 8 * _NARROW_COLUMNS, 8 * _WIDE_COLUMNS
    per_byte = (wide_ns - narrow_ns) / (wide_bytes - narrow_bytes)
    per_row = narrow_ns - narrow_bytes * per_byte
    if per_row <= 0 or per_byte <= 0:
        measured.notes.append(
            f"The shuffle could not be measured, with {narrow_ns:.0f} ns for a row of {narrow_bytes} bytes and "
            f"{wide_ns:.0f} ns for one of {wide_bytes}. Its costs stay as they are: calibrate again when it is idle."
        )
        return
    decode = measured.executors["decode_ns_per_byte"]
    moved_ns = per_row + per_byte * _TYPICAL_ROW_BYTES
    reads = 1 + moved_ns / (decode * _TYPICAL_ROW_BYTES * EXECUTORS.reread_factor)
    measured.executors["shuffle_ns_per_row"] = _rounded(per_row)
    measured.executors["shuffle_ns_per_byte"] = _rounded(per_byte)
    measured.executors["max_scattered_reads"] = _rounded(min(reads, EXECUTORS.max_shares))


def _add_task(measured: Calibration, task_ns: float) -> None:
    if task_ns <= 0:
        measured.notes.append(
            "What a task costs could not be measured: many were done as fast as few. task_bytes stays as it is."
        )
        return
    slower_decode = measured.executors["decode_ns_per_byte"] / EXECUTORS.decode_ns_per_byte
    task_bytes = EXECUTORS.task_bytes * task_ns / _TASK_NS / slower_decode
    measured.executors["task_bytes"] = int(min(max(task_bytes, 1024), _MAX_TASK_BYTES))


def _add_small_step(measured: Calibration, job_ns: float) -> None:
    decoded = job_ns / measured.driver["decode_ns_per_byte"]
    measured.executors["small_step_bytes"] = int(min(decoded, _MAX_SMALL_STEP_BYTES))


def _rounded(number: float) -> float:
    """Four digits, more than such a measurement is exact to."""
    return float(f"{number:.4g}")


# --- what tasks do ---------------------------------------------------------------------------------------------------


def _decode(runner: StageRunner, place: Place, slots: int, sizes: Sizes) -> float:
    """Nanoseconds a byte, one task for every slot: the median of all tasks."""
    sources: tuple[Source, ...] = (_DecodedFile(sizes.decoded_rows, sizes.runs),) * slots
    stage = StageGraph().end(Pipeline(place, "Decode", (Parts(sources),)), Gather())
    return float(median(batch.column(0)[0].as_py() for batch in runner.rows(stage)))


@dataclass(frozen=True)
class _DecodedFile(Source):
    """Writes a Parquet file into its task's scratch folder, and gives the nanoseconds a byte of decoding it."""

    rows: int
    runs: int

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        table, file = _file_rows(self.rows), context.scratch() / "calibrate.parquet"
        pq.write_table(table, file, row_group_size=max(self.rows // 8, 1))
        status = file.stat()
        files = (DataFile(str(file), status.st_size, status.st_mtime_ns // 1_000_000),)
        columns = tuple(FileColumn(each.name, each.name, each.type) for each in table.schema)
        access = plan_access(ParquetFolder(files, columns), tuple(table.column_names), None)
        (task,) = scan_tasks(access, 1, DRIVER, frozenset(["text"]))  # strings as stored, as GROUP BY reads them
        self._nanoseconds(task, context)
        taken = median(self._nanoseconds(task, context) for _ in range(self.runs))
        yield pa.record_batch({"ns_per_byte": [taken / access.column_bytes()]})

    def _nanoseconds(self, task: ScanTask, context: TaskContext) -> int:
        start = perf_counter_ns()
        rows = sum(batch.num_rows for batch in task.read(context))
        assert rows == self.rows
        return max(perf_counter_ns() - start, 1)


def _file_rows(rows: int) -> pa.Table:
    random = np.random.default_rng(1)
    words = pa.array([f"word number {number}" for number in range(10_000)])
    return pa.table(
        {
            "key": random.integers(0, 1 << 62, rows),
            "small": random.integers(0, 1000, rows).astype(np.int32),
            "number": random.random(rows),
            "text": words.take(pa.array(random.integers(0, len(words), rows))),
        }
    )


@dataclass(frozen=True)
class _MadeRows(Source):
    """A batch of random numbers, which no block can narrow, repeated up to a number of rows."""

    rows: int
    columns: int

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(f"c{number}", pa.int64()) for number in range(self.columns)])

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(context.partition)
        numbers = random.integers(-(1 << 62), 1 << 62, (self.columns, min(self.rows, _BATCH_ROWS)))
        batch = pa.RecordBatch.from_arrays([pa.array(column) for column in numbers], schema=self.schema)
        for start in range(0, self.rows, _BATCH_ROWS):
            yield batch.slice(0, min(self.rows - start, _BATCH_ROWS))


@dataclass(frozen=True)
class _CountRows(Operator):
    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("rows", pa.int64())])

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], schema=self.schema)

    name = "Count rows"
