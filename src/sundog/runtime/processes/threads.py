"""Several partitions of a stage on threads of one process, between one stream of input and one of output.

    input ──► thread that reads it ──► a queue for each partition ──► a thread for each ──► output, in one stream
                      ▲                                                                          │
                      └──── reads on only when no output is waiting ◄──────────────────────────────────────────┘

Spark gives a task its rows as one iterator and takes its output as another. The thread that Spark calls does both. It
never waits for one side only: it waits until there is output, or until the queues have run low and more input can be
read. Every partition of the input has a thread from the start, so each queue is being emptied, and a full one cannot
keep another from being filled.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import pyarrow as pa

from sundog.operators.context import MAX_WAITING_BYTES, TaskCancelled

T = TypeVar("T")
Emit = Callable[[pa.RecordBatch], None]
Work = Callable[[int, Iterator[T], Emit], None]
"""Compute one partition: its number, its input, and where its output goes."""


class PartitionThreads(Generic[T]):
    """The partitions of one task. `size` is that of an item of the input, in bytes."""

    def __init__(self, work: Work[T], size: Callable[[T], int], cancelled: threading.Event) -> None:
        self._work = work
        self._size = size
        self._cancelled = cancelled
        self._changed = threading.Condition()
        self._queues: dict[int, deque[T]] = {}
        self._unstarted: deque[int] = deque()
        self._waiting_bytes = 0
        self._all_read = False
        self._outputs: deque[pa.RecordBatch] = deque()
        self._output_bytes = 0
        self._running = 0
        self._error: BaseException | None = None

    def run(
        self, partitions: Sequence[int], items: Iterable[tuple[int, T]], threads: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The output of the partitions, as it is made. `threads`: None is one for each, as partitions with input need.

        The first error of a thread stops the others and is raised.
        """
        self._queues = {partition: deque() for partition in partitions}
        self._unstarted = deque(partitions)
        self._running = len(partitions) if threads is None else min(threads, len(partitions))
        workers = [threading.Thread(target=self._worker, name=f"sundog-{n}", daemon=True) for n in range(self._running)]
        for worker in workers:
            worker.start()
        try:
            yield from self._between(iter(items))
        finally:
            with self._changed:
                if self._running:
                    self._cancelled.set()
                self._changed.notify_all()
            for worker in workers:
                worker.join()

    def _between(self, items: Iterator[tuple[int, T]]) -> Iterator[pa.RecordBatch]:
        while True:
            with self._changed:
                while not self._outputs and self._running and not self._may_read:
                    self._changed.wait()
                ready = list(self._outputs)
                self._outputs.clear()
                self._output_bytes = 0
                is_done = not self._running
                self._changed.notify_all()
            if self._error is not None:
                raise self._error
            yield from ready
            if is_done:
                return
            if not ready and self._may_read:
                self._read_one(items)

    @property
    def _may_read(self) -> bool:
        return not self._all_read and self._waiting_bytes < MAX_WAITING_BYTES

    def _read_one(self, items: Iterator[tuple[int, T]]) -> None:
        item = next(items, None)
        with self._changed:
            if item is None:
                self._all_read = True
            elif item[0] in self._queues:
                self._queues[item[0]].append(item[1])
                self._waiting_bytes += self._size(item[1])
            self._changed.notify_all()

    def _worker(self) -> None:
        try:
            while (partition := self._next()) is not None:
                self._work(partition, self._incoming(partition), self._emit)
                self._drop(partition)
        except BaseException as error:
            with self._changed:
                if self._error is None and not isinstance(error, TaskCancelled):
                    self._error = error
                self._cancelled.set()
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _next(self) -> int | None:
        with self._changed:
            return self._unstarted.popleft() if self._unstarted and not self._cancelled.is_set() else None

    def _drop(self, partition: int) -> None:
        """Drop the remaining input of a partition that needs no more: otherwise its queue would not be emptied."""
        with self._changed:
            self._waiting_bytes -= sum(map(self._size, self._queues.pop(partition)))
            self._changed.notify_all()

    def _incoming(self, partition: int) -> Iterator[T]:
        queue = self._queues[partition]
        while True:
            with self._changed:
                while not queue and not self._all_read and not self._cancelled.is_set():
                    self._changed.wait()
                if self._cancelled.is_set():
                    raise TaskCancelled
                if not queue:
                    return
                item = queue.popleft()
                self._waiting_bytes -= self._size(item)
                self._changed.notify_all()
            yield item

    def _emit(self, batch: pa.RecordBatch) -> None:
        with self._changed:
            while self._output_bytes > MAX_WAITING_BYTES and not self._cancelled.is_set():
                self._changed.wait()
            if self._cancelled.is_set():
                raise TaskCancelled
            self._outputs.append(batch)
            self._output_bytes += batch.nbytes
            self._changed.notify_all()
