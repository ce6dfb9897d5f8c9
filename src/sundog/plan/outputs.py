"""The outputs of a stage: an exchange to the next, a gather on the driver, a hold for several readers, the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sundog.operators.base import Described, Partitioner
from sundog.operators.join.build_side import BuildSide
from sundog.operators.join.hash_join import JoinSpec


@dataclass(frozen=True)
class Exchange(Described):
    """Output: rows move to the partitions of the next stage.

    On driver threads, neighbouring partitions that have at most `unsplit_rows` together become one (`joined`). On
    executors several stages (`readers`) may read the partitions, or one stage the rows and another their summaries. The
    rows move once, and all readers take them in the same `process_tasks` Spark tasks (0: a task for each partition).
    """

    partitioner: Partitioner
    unsplit_rows: int = 0
    readers: int = 1
    process_tasks: int = 0

    @property
    def is_kept(self) -> bool:
        """Whether what was moved is read more than once."""
        return self.readers > 1 or self.partitioner.summarizes

    def unsplit_rows_of_task(self, tasks: int) -> int:
        """Rows up to which each of `tasks` tasks need not split its own: all of them together are one partition."""
        return self.unsplit_rows // max(tasks, 1)

    def joined(self, rows: Sequence[int]) -> list[range]:
        """The partitions that each task of the next stage reads, given the rows of every partition."""
        if not self.unsplit_rows:
            return [range(number, number + 1) for number in range(len(rows))]
        groups: list[range] = []
        capacity = 0
        for number, count in enumerate(rows):
            if groups and count <= capacity:
                groups[-1] = range(groups[-1].start, number + 1)
                capacity -= count
            else:
                groups.append(range(number, number + 1))
                capacity = self.unsplit_rows - count
        return groups

    @property
    def name(self) -> str:
        return self.partitioner.name

    @property
    def details(self) -> str:
        text = self.partitioner.details
        return text if self.readers == 1 else f"{text}, read {_times(self.readers)}"

    @property
    def planned_metrics(self) -> Mapping[str, float]:
        return self.partitioner.planned_metrics


@dataclass(frozen=True)
class Gather(Described):
    """Output: all rows to the driver, in the order of the partitions.

    `max_bytes`: the most that they may take. A runtime stops the stage as soon as they are more (TooManyBytes). None:
    as much as the driver's memory allows. `merging`: if tasks share processes, it merges the rows of each process
    before they leave it; their order is lost.
    """

    reason: str = ""
    max_bytes: int | None = None
    merging: Partitioner | None = None

    name = "Gather"

    @property
    def details(self) -> str:
        return self.reason if self.merging is None else f"{self.reason}, after those of each executor"


@dataclass(frozen=True)
class Build(Described):
    """Output: all rows to the driver, which indexes them by the keys of a join. `max_bytes`: as in `Gather`.

    `sets_of`: numbers of the keys whose values filter the scan of the probe side.
    """

    name = "BuildSide"

    spec: JoinSpec
    schema: pa.Schema
    max_bytes: int
    sets_of: tuple[int, ...] = ()

    def build(self, batches: Sequence[pa.RecordBatch]) -> BuildSide:
        return self.spec.build_side(batches, self.schema, self.sets_of)


@dataclass(frozen=True)
class Hold(Described):
    """Output: rows stay where they are, for several readers. `shared`: of a subplan that is in the query several
    times."""

    readers: int = 2
    shared: bool = False

    name = "Hold"

    @property
    def details(self) -> str:
        return f"computed once, read {_times(self.readers)}"

    @property
    def planned_metrics(self) -> Mapping[str, float]:
        return {"subplans_shared": 1} if self.shared else {}


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"


@dataclass(frozen=True)
class Result(Described):
    """Output: rows of the part of the query that was planned, to the caller.

    `one_partition_bytes`: up to this size, rows on the driver that go on in Spark are one partition. `may_stop_early`:
    tasks may end before they have put out all their rows, so that numbers of rows cannot be checked.
    """

    one_partition_bytes: float = 0
    may_stop_early: bool = False

    name = "Result"

    def is_one_partition(self, nbytes: int) -> bool:
        """Whether rows on the driver that take `nbytes` go on in Spark as one partition."""
        return nbytes <= self.one_partition_bytes


Output = Exchange | Gather | Build | Hold | Result
