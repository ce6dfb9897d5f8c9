"""Runs stages on threads of the driver process; exchanges stay in memory.

Kernels and Arrow release the GIL, so threads are enough, and nothing is copied or serialised between stages. What fits
(`spark.sundog.driver.maxBytes`) needs no Spark job, which costs more than most top-ks do.
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

from sundog.metrics import OperatorCounts, chain_counts
from sundog.operators.base import Operator, Partitioner
from sundog.operators.byte_limit import ByteLimit
from sundog.operators.context import MemoryBudget, TaskCancelled, TaskContext, clocked, counted
from sundog.operators.sources import BatchSource, HeldBatches, Source
from sundog.plan.outputs import Build, Exchange, Gather
from sundog.plan.records import StageRecords
from sundog.plan.stages import Stage
from sundog.runtime.cancel import (
    POLL_SECONDS,
    STOP_SECONDS,
    ActionCancelled,
    CancelWatch,
    WatchedEvent,
    current_watch,
)
from sundog.runtime.progress import NO_PROGRESS, ProgressSink
from sundog.runtime.task import run_operators

T = TypeVar("T")
Batches = list[pa.RecordBatch]


@dataclass(frozen=True)
class _Task:
    """One task of a stage: where it counts, and the context of its output."""

    context: TaskContext
    counts: Sequence[OperatorCounts]

    def stream(self, source: Source, operators: Sequence[Operator]) -> Iterator[pa.RecordBatch]:
        read = source.read(self.context.counting_into(self.counts[0]))
        return run_operators(read, operators, self.context, self.counts)


class DriverRuntime:
    """Runs stages with `slots` tasks at once."""

    def __init__(
        self,
        slots: int,
        task_memory_bytes: int,
        progress: ProgressSink = NO_PROGRESS,
        records: StageRecords | None = None,
        max_output_bytes: int | None = None,
    ) -> None:
        """`max_output_bytes`: limit for the rows that one stage puts out, which are all in memory at once."""
        self.progress = progress
        self.records = StageRecords() if records is None else records
        self._slots = max(1, slots)
        self._task_memory_bytes = task_memory_bytes
        self._max_output_bytes = max_output_bytes

    def exchange(self, stage: Stage, sources: Sequence[Source], output: Exchange) -> list[Source]:
        """Run a stage and split its rows; the sources that the tasks of the next stage read."""
        partitioner = output.partitioner
        unsplit_rows = output.unsplit_rows_of_task(len(sources))
        limit = ByteLimit(self._max_output_bytes)

        def split(index: int, task: _Task) -> _Split:
            stream = limit.watched(task.stream(sources[index], stage.operators))
            unsplit: Batches = []
            rows = 0
            counts = task.context.counts
            timed = clocked(stream, counts)
            while rows < unsplit_rows:
                batch = next(timed, None)
                if batch is None:
                    for each in unsplit:
                        counts.add(each.num_rows, each.nbytes)
                    counts.metrics.add("exchange_rows", rows)
                    return _Split(unsplit, None)
                unsplit.append(batch)
                rows += batch.num_rows
            return _Split([], _buckets(partitioner, chain(unsplit, stream), task.context))

        return _targets(output, self._run(stage, len(sources), split))

    def hold(self, stage: Stage, sources: Sequence[Source]) -> list[Source]:
        """Run a stage; the sources that several stages read."""
        return [HeldBatches(batches) for batches in self.gather(stage, sources)]

    def gather(self, stage: Stage, sources: Sequence[Source]) -> list[Batches]:
        """The batches of each partition. Raises TooManyBytes if they are more than may be gathered."""
        planned = stage.output.max_bytes if isinstance(stage.output, Gather | Build) else None
        limit = ByteLimit(planned, self._max_output_bytes)

        def gathered(index: int, task: _Task) -> Batches:
            return list(limit.watched(counted(task.stream(sources[index], stage.operators), task.context.counts)))

        return self._run(stage, len(sources), gathered)

    def _run(self, stage: Stage, count: int, task: Callable[[int, _Task], T]) -> list[T]:
        """Run `task(index, ...)` for each index; the first failure cancels the others and is raised.

        Raises ActionCancelled if the user cancels the action.
        """
        watch = current_watch()
        watch.check()
        on_this_thread = count <= 1 or self._slots == 1
        cancelled = WatchedEvent(watch) if on_this_thread else threading.Event()
        record = self.records.of(stage)
        lock = threading.Lock()
        hints: set[str] = set()
        start = perf_counter()

        def one(index: int) -> T:
            counts = chain_counts(len(stage.operators))
            memory = MemoryBudget(self._task_memory_bytes, self._slots)
            context = TaskContext(index, counts[-1], memory, cancelled, hints)
            try:
                context.check_cancelled()
                return task(index, _Task(context, counts))
            except BaseException:
                cancelled.set()
                raise
            finally:
                context.close()
                self.progress.advance()
                with lock:
                    for total, own in zip(record.operators, counts, strict=True):
                        total.merge(own)
                    record.count_input(stage.input_of(index), counts[0].as_values())

        self.progress.start(stage.purpose, count)
        try:
            return [one(index) for index in range(count)] if on_this_thread else self._run_all(count, one, cancelled)
        finally:
            record.tasks += count
            record.operators[-1].metrics.add("tasks", count)
            record.seconds += perf_counter() - start

    def _run_all(self, count: int, one: Callable[[int], T], cancelled: threading.Event) -> list[T]:
        futures = [_threads(self._slots).submit(one, index) for index in range(count)]
        try:
            return _results(futures, current_watch())
        except BaseException as error:
            cancelled.set()
            is_stopped_by_user = isinstance(error, ActionCancelled | KeyboardInterrupt)
            wait([future for future in futures if not future.cancel()], STOP_SECONDS if is_stopped_by_user else None)
            raise


@lru_cache(maxsize=1)
def _threads(count: int) -> ThreadPoolExecutor:
    """One pool for all queries: starting two threads takes 1 ms or more, much of a top-k. A task starts no tasks, so
    the pool cannot deadlock."""
    return ThreadPoolExecutor(count, "sundog")


os.register_at_fork(after_in_child=_threads.cache_clear)


def _results(futures: list[Future[T]], watch: CancelWatch) -> list[T]:
    """All results. Raises the error that started the cancellation, not one that only followed from it."""
    errors = [error for future in futures if (error := _error_of(future, watch)) is not None]
    if errors:
        raise next((error for error in errors if not isinstance(error, TaskCancelled)), errors[0])
    return [future.result() for future in futures]


def _error_of(future: Future[T], watch: CancelWatch) -> BaseException | None:
    """The error that a task ended with, or None. Checks for cancellation while the task runs."""
    while True:
        try:
            return future.exception(POLL_SECONDS)
        except StillRunning:  # the built-in TimeoutError only since Python 3.11
            watch.check()


@dataclass(frozen=True)
class _Split:
    """A task's rows for each target; or, if they are few, all of them unsplit."""

    unsplit: Batches
    buckets: list[Batches] | None


def _buckets(partitioner: Partitioner, stream: Iterator[pa.RecordBatch], context: TaskContext) -> list[Batches]:
    buckets: list[Batches] = [[] for _ in range(partitioner.partitions)]
    for target, batch in clocked(partitioner.split(stream, context), context.counts):
        if batch.num_rows:
            buckets[target].append(batch)
            context.counts.add(batch.num_rows, batch.nbytes)
            context.metrics.add("exchange_rows", batch.num_rows)
    return buckets


def _targets(output: Exchange, produced: list[_Split]) -> list[Source]:
    """The sources of the next stage's tasks. If no task has split its rows, they are one partition."""
    partitioner = output.partitioner
    if output.unsplit_rows and all(split.buckets is None for split in produced):
        return [BatchSource([batch for split in produced for batch in split.unsplit])]
    spread = [
        _buckets(partitioner, iter(split.unsplit), TaskContext()) if split.buckets is None else split.buckets
        for split in produced
    ]
    targets = [[batch for buckets in spread for batch in buckets[target]] for target in range(partitioner.partitions)]
    groups = output.joined([sum(batch.num_rows for batch in batches) for batches in targets])
    return [BatchSource([batch for target in group for batch in targets[target]]) for group in groups]
