"""What planning a DataFrame gives: the parts of its plan that sundog takes, ready to run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from sundog.config import Settings
from sundog.front.jvm.plan import CatalystPlan
from sundog.front.match import Match
from sundog.front.query_shape import query_shape
from sundog.plan.logical import Aggregate, Foreign, Join, LogicalPlan, Scan, Sort, TopK, Window
from sundog.plan.subqueries import plans_read
from sundog.runtime.progress import NO_PROGRESS, ProgressSink
from sundog.tree import walk


@dataclass
class Planned:
    """A DataFrame's plan with the parts that sundog takes.

    `foreign`: the subtrees of Spark's plans that are inputs, by handle. `parts`: where in the query's own plan each
    part is, and its logical plan. `subqueries`: plans whose values the parts read, by number.
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
        """Those of `foreign` that a part reads: others were looked at, and left with what is above them."""
        read = {node.handle for node in self._nodes if isinstance(node, Foreign)}
        return {handle: place for handle, place in self.foreign.items() if handle in read}

    @property
    def leaves_nothing(self) -> bool:
        """Whether Spark computes no part of the query: sundog's part is the whole plan, down to the files."""
        trees = plans_read(self.parts[0][1], self.subqueries) if self.is_whole else []
        return self.is_whole and not any(isinstance(node, Foreign) for tree in trees for node in walk(tree))

    @property
    def operators(self) -> int:
        """How many joins, aggregates, windows and sorts there are, also in subqueries."""
        return sum(isinstance(node, Join | Aggregate | Window | TopK | Sort) for node in self._nodes)

    @property
    def title(self) -> str:
        """The shapes and joins of this query, from the top: `topk, aggregate, join`."""
        names = {Join: "join", Aggregate: "aggregate", Window: "window", TopK: "topk", Sort: "sort"}
        return ", ".join(dict.fromkeys(names[type(node)] for node in self._nodes if type(node) in names)) or "scan"

    @property
    def shape(self) -> str:
        """What this query has in common with those of the same text but for its constants."""
        return query_shape(self.catalyst.root, {node.table.label for node in self._nodes if isinstance(node, Scan)})

    @property
    def _nodes(self) -> Iterator[LogicalPlan]:
        trees = [tree for _, part in self.parts for tree in plans_read(part, self.subqueries)]
        return (node for tree in trees for node in walk(tree))
