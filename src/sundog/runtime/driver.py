"""Runs tasks on threads of the driver's own process; exchanges stay in memory.

Kernels and Arrow release the GIL, so threads are enough, and nothing is copied or serialised between stages. For work
that fits (`spark.sundog.driver.maxBytes`) this avoids a Spark job altogether, which costs more than most top-ks do.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as StillRunning
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from time import perf_counter
from typing import TypeVar

import pyarrow as pa

from sundog.metrics import Metrics
from sundog.operators.base import Operator, Partitioner
from sundog.operators.context import MemoryBudget, TaskCancelled, TaskContext
from sundog.operators.window.ranges.own_reads import MAX_READ_AMPLIFICATION
from sundog.runtime.cancel import POLL_SECONDS, STOP_SECONDS, ActionCancelled, CancelWatch, WatchedEvent, current_watch
from sundog.runtime.flow import Flow, Runtime, StageRecord
from sundog.runtime.progress import NO_PROGRESS, ProgressSink, stage_name
from sundog.runtime.task import BatchSource, HeldBatches, Source, run_operators

T = TypeVar("T")
_FEW_ROWS = 1 << 16  # which one task groups in less time than it takes to share them out


class DriverRuntime(Runtime):
    name = "driver"
    most_read = MAX_READ_AMPLIFICATION
    scan_tasks_per_slot = 4  # a task costs 0.1 ms

    def __init__(self, parallelism: int, task_memory_bytes: int, progress: ProgressSink = NO_PROGRESS) -> None:
        self.parallelism = max(1, parallelism)
        self.progress = progress
        self.metrics = Metrics()
        self.stages: list[StageRecord] = []
        self.task_memory_bytes = task_memory_bytes

    def start(self, sources: Sequence[Source], label: str) -> Flow:
        return _DriverFlow(self, list(sources), (), label)

    def release(self) -> None:
        """What is held here belongs to the flows, and goes with them."""

    def run_tasks(self, count: int, task: Callable[[int, TaskContext], T], label: str) -> list[T]:
        """Run `task(index, context)` for each index; the first failure cancels the others and is raised.

        Raises ActionCancelled if the user cancels the action meanwhile.
        """
        watch = current_watch()
        watch.check()
        on_this_thread = count <= 1 or self.parallelism == 1
        cancelled = WatchedEvent(watch) if on_this_thread else threading.Event()
        stage_metrics = Metrics()
        lock = threading.Lock()
        hints: set[str] = set()
        start = perf_counter()

        def one(index: int) -> T:
            context = TaskContext(index, Metrics(), MemoryBudget(self.task_memory_bytes), cancelled, hints)
            try:
                context.check_cancelled()
                return task(index, context)
            except BaseException:
                cancelled.set()
                raise
            finally:
                context.close()
                self.progress.advance()
                with lock:
                    stage_metrics.merge(context.metrics)

        self.progress.start(stage_name(label), count)
        try:
            results = [one(index) for index in range(count)] if on_this_thread else self._run_all(count, one, cancelled)
        finally:
            stage_metrics.add("tasks", count)
            stage_metrics.add("stages")
            self.metrics.merge(stage_metrics)
            self.stages.append(StageRecord(label, count, perf_counter() - start, stage_metrics.as_dict()))
        return results

    def _run_all(self, count: int, one: Callable[[int], T], cancelled: threading.Event) -> list[T]:
        futures = [_threads(self.parallelism).submit(one, index) for index in range(count)]
        try:
            return _results(futures, current_watch())
        except BaseException as error:
            cancelled.set()
            is_stopped_by_user = isinstance(error, ActionCancelled | KeyboardInterrupt)
            wait([future for future in futures if not future.cancel()], STOP_SECONDS if is_stopped_by_user else None)
            raise


@lru_cache(maxsize=1)
def _threads(count: int) -> ThreadPoolExecutor:
    """Kept for all queries: starting two threads takes 1 ms or more, which is much of a top-k. Tasks start no tasks."""
    return ThreadPoolExecutor(count, "sundog")


os.register_at_fork(after_in_child=_threads.cache_clear)


def _results(futures: list[Future[T]], watch: CancelWatch) -> list[T]:
    """All results, or the error that started the cancellation rather than one that only followed from it."""
    errors = [error for future in futures if (error := _error_of(future, watch)) is not None]
    if errors:
        raise next((error for error in errors if not isinstance(error, TaskCancelled)), errors[0])
    return [future.result() for future in futures]


def _error_of(future: Future[T], watch: CancelWatch) -> BaseException | None:
    """What a task ended with, looking for the user's wish to cancel while it runs."""
    while True:
        try:
            return future.exception(POLL_SECONDS)
        except StillRunning:  # the built-in TimeoutError only since Python 3.11
            watch.check()


@dataclass(frozen=True)
class _Split:
    """What a task has for each target; or, where it is little, all of it unsplit."""

    unsplit: list[pa.RecordBatch]
    buckets: list[list[pa.RecordBatch]] | None


def _buckets(
    partitioner: Partitioner, stream: Iterator[pa.RecordBatch], context: TaskContext
) -> list[list[pa.RecordBatch]]:
    buckets: list[list[pa.RecordBatch]] = [[] for _ in range(partitioner.partitions)]
    for target, batch in partitioner.split(stream, context):
        if batch.num_rows:
            buckets[target].append(batch)
            context.metrics.add("exchange_rows", batch.num_rows)
    return buckets


def _targets(partitioner: Partitioner, produced: list[_Split]) -> list[Source]:
    """What the tasks of the next stage read. If no task had much, one of them reads all."""
    if partitioner.joinable and all(split.buckets is None for split in produced):
        return [BatchSource([batch for split in produced for batch in split.unsplit])]
    spread = [
        _buckets(partitioner, iter(split.unsplit), TaskContext()) if split.buckets is None else split.buckets
        for split in produced
    ]
    targets = [[batch for buckets in spread for batch in buckets[target]] for target in range(partitioner.partitions)]
    return [BatchSource(batches) for batches in (_joined(targets) if partitioner.joinable else targets)]


def _joined(targets: list[list[pa.RecordBatch]]) -> list[list[pa.RecordBatch]]:
    """Neighbours together as long as they are few rows: a task costs more than to group some thousands."""
    joined: list[list[pa.RecordBatch]] = []
    room = 0
    for batches in targets:
        rows = sum(batch.num_rows for batch in batches)
        if joined and rows <= room:
            joined[-1] = joined[-1] + batches
            room -= rows
        else:
            joined.append(batches)
            room = _FEW_ROWS - rows
    return joined


class _DriverFlow(Flow):
    def __init__(
        self, runtime: DriverRuntime, sources: list[Source], operators: tuple[Operator, ...], label: str
    ) -> None:
        self._runtime = runtime
        self._sources = sources
        self._operators = operators
        self._label = label

    def then(self, *operators: Operator) -> Flow:
        return _DriverFlow(self._runtime, self._sources, (*self._operators, *operators), self._label)

    def exchange(self, partitioner: Partitioner) -> Flow:
        few = _FEW_ROWS // max(len(self._sources), 1) if partitioner.joinable else 0

        def split(index: int, context: TaskContext) -> _Split:
            stream = run_operators(self._sources[index].read(context), self._operators, context)
            unsplit: list[pa.RecordBatch] = []
            rows = 0
            while rows < few:
                batch = next(stream, None)
                if batch is None:
                    context.metrics.add("exchange_rows", rows)
                    return _Split(unsplit, None)
                unsplit.append(batch)
                rows += batch.num_rows
            return _Split([], _buckets(partitioner, chain(unsplit, stream), context))

        produced = self._runtime.run_tasks(len(self._sources), split, self._label)
        return _DriverFlow(self._runtime, _targets(partitioner, produced), (), partitioner.describe())

    def hold(self) -> Flow:
        held = [HeldBatches(batches) for batches in self.collect_partitions()]
        return _DriverFlow(self._runtime, list(held), (), self._label)

    def gather(self) -> Flow:
        return _DriverFlow(self._runtime, [BatchSource(self.collect())], (), "Gather")

    def collect(self) -> list[pa.RecordBatch]:
        return [batch for batches in self.collect_partitions() for batch in batches]

    def collect_partitions(self) -> list[list[pa.RecordBatch]]:
        def run(index: int, context: TaskContext) -> list[pa.RecordBatch]:
            return list(run_operators(self._sources[index].read(context), self._operators, context))

        return self._runtime.run_tasks(len(self._sources), run, self._label)
