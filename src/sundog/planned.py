"""The result of planning a DataFrame: the parts of its plan that sundog takes, ready to run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from sundog.config import Settings
from sundog.front.jvm.plan import CatalystPlan
from sundog.front.match import Match
from sundog.front.query_shape import query_shape
from sundog.front.splice import frame_at
from sundog.plan.logical import Aggregate, Foreign, Join, LogicalPlan, Scan, Sort, TopK, Window, title_of
from sundog.plan.subqueries import plans_read
from sundog.runtime.progress import NO_PROGRESS, ProgressSink
from sundog.tree import walk


@dataclass
class Planned:
    """A DataFrame's plan with the parts that sundog takes.

    `foreign`: the subtrees of Spark's plan that are inputs, by handle. `parts`: for each part its place in the query's
    own plan, and its logical plan. `subqueries`: plans whose values the parts read, by number.
    """

    frame: DataFrame
    catalyst: CatalystPlan
    foreign: dict[int, tuple[CatalystPlan, tuple[int, ...]]]
    settings: Settings
    parts: list[tuple[Match, LogicalPlan]] = field(default_factory=list)
    subqueries: dict[int, LogicalPlan] = field(default_factory=dict)
    progress: ProgressSink = NO_PROGRESS

    @property
    def session(self) -> SparkSession:
        return self.frame.sparkSession

    @property
    def is_whole(self) -> bool:
        return len(self.parts) == 1 and self.parts[0][0].path == ()

    @property
    def spark_inputs(self) -> dict[int, tuple[CatalystPlan, tuple[int, ...]]]:
        """Those of `foreign` that a part reads; others belong to shapes that were left to Spark."""
        read = {node.handle for node in self._nodes if isinstance(node, Foreign)}
        return {handle: place for handle, place in self.foreign.items() if handle in read}

    def spark_frames(self) -> dict[int, DataFrame]:
        """The DataFrames of foreign rows, by handle."""
        return {handle: frame_at(self.session, *place) for handle, place in self.spark_inputs.items()}

    @property
    def leaves_nothing(self) -> bool:
        """Whether Spark computes no part of the query: sundog's part is the whole plan, with the files."""
        trees = plans_read(self.parts[0][1], self.subqueries) if self.is_whole else []
        return self.is_whole and not any(isinstance(node, Foreign) for tree in trees for node in walk(tree))

    @property
    def operators(self) -> int:
        """The number of joins, aggregates, windows and sorts, also in subqueries."""
        return sum(isinstance(node, Join | Aggregate | Window | TopK | Sort) for node in self._nodes)

    @property
    def title(self) -> str:
        """The shapes and joins of this query, from the top."""
        return title_of(tree for _, part in self.parts for tree in plans_read(part, self.subqueries))

    @property
    def shape(self) -> str:
        """The text that this query shares with queries that differ in constants only."""
        return query_shape(self.catalyst.root, {node.table.label for node in self._nodes if isinstance(node, Scan)})

    @property
    def _nodes(self) -> Iterator[LogicalPlan]:
        trees = [tree for _, part in self.parts for tree in plans_read(part, self.subqueries)]
        return (node for tree in trees for node in walk(tree))
