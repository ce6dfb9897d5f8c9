"""What both runtimes offer: data in partitions, operators over each, exchanges between, a result at the end.

    flow = runtime.start(sources).then(PartialAggregate(...)).exchange(HashPartition(...)).then(FinalAggregate(...))
    batches = flow.collect()

A flow is lazy where its runtime is (Spark) and immediate where that is simpler (driver). Whoever builds one does not
know which it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from sundog.metrics import Metrics
from sundog.operators.base import Operator, Partitioner
from sundog.runtime.progress import ProgressSink
from sundog.runtime.task import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass
class StageRecord:
    """What one stage did, for the report."""

    label: str
    tasks: int
    seconds: float
    metrics: dict[str, float] = field(default_factory=dict)


class Flow(ABC):
    """Data in partitions, described and not necessarily there yet."""

    @abstractmethod
    def then(self, *operators: Operator) -> Flow:
        """Run operators over each partition."""

    @abstractmethod
    def exchange(self, partitioner: Partitioner) -> Flow:
        """Move rows to `partitioner.partitions` partitions."""

    @abstractmethod
    def gather(self) -> Flow:
        """One partition with everything, in partition order, on the driver: for the small ends of a plan."""

    @abstractmethod
    def hold(self) -> Flow:
        """The same data, computed once and then readable several times. The runtime lets go of it at the end."""

    @abstractmethod
    def collect(self) -> list[pa.RecordBatch]:
        """All batches, in partition order."""

    @abstractmethod
    def collect_partitions(self) -> list[list[pa.RecordBatch]]:
        """The batches of each partition; empty ones at the end may be left out."""

    def to_dataframe(self, schema: StructType) -> DataFrame | None:
        """A lazy DataFrame over the flow, where the flow is one of Spark's; None where its rows are on the driver."""
        return None


class Runtime(ABC):
    """A place to run. `parallelism` is how many tasks it runs at once.

    `scan_tasks_per_slot`: small tasks even out, but each has its price. `most_read`: how often it may read a row that it
    would else have to move.
    """

    name: str
    parallelism: int
    task_memory_bytes: int
    scan_tasks_per_slot: int
    most_read: float
    metrics: Metrics
    stages: list[StageRecord]
    progress: ProgressSink

    @abstractmethod
    def start(self, sources: Sequence[Source], label: str) -> Flow:
        """One partition per source."""

    @abstractmethod
    def release(self) -> None:
        """Let go of everything held. The action is over."""
