"""`sundog simulate`: plans a query for a cluster that does not exist, and estimates its cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from sundog.config import Settings
from sundog.plan.costs import SiteCosts
from sundog.plan.logical import LogicalPlan
from sundog.plan.lower.planner import Planner
from sundog.plan.rules.order import optimize
from sundog.plan.sites import Executors, Sites, site_of_processes
from sundog.plan.stages import Place, Site, StageGraph
from sundog.simulate.answers import Answers
from sundog.simulate.model import Model, SimulatedCluster, StageEstimate
from sundog.simulate.synthetic import SyntheticTable
from sundog.tables.table import Table

_ROUND = "TopK round"


@dataclass(frozen=True)
class Simulation:
    """A plan and its estimates."""

    graph: StageGraph
    stages: list[StageEstimate]
    rows: int
    query_seconds: float

    @property
    def seconds(self) -> float:
        """Planning, then stages one after the other."""
        return self.query_seconds + sum(stage.seconds for stage in self.stages)

    @property
    def cpu_seconds(self) -> float:
        return self.query_seconds + sum(stage.cpu_seconds for stage in self.stages)

    @property
    def bytes_read(self) -> float:
        return sum(stage.bytes_read for stage in self.stages)

    @property
    def bytes_moved(self) -> float:
        return sum(stage.bytes_moved for stage in self.stages)

    @property
    def halo_share(self) -> float:
        """Rows that ranges borrow, as a share of the table's."""
        return max((stage.halo_rows for stage in self.stages), default=0.0) / self.rows

    @property
    def rounds(self) -> int:
        return sum(stage.purpose.startswith(_ROUND) for stage in self.stages)

    @property
    def skew(self) -> float:
        """Of the stage that takes longest: the time of its longest task over the mean."""
        return max(self.stages, key=lambda stage: stage.seconds).skew if self.stages else 1.0

    @property
    def memory_bytes(self) -> float:
        return max((stage.memory_bytes for stage in self.stages), default=0.0)

    def as_dict(self) -> dict[str, Any]:
        totals = {
            name: getattr(self, name)
            for name in (
                "seconds",
                "cpu_seconds",
                "bytes_read",
                "bytes_moved",
                "halo_share",
                "rounds",
                "skew",
                "memory_bytes",
            )
        }
        return {**totals, "tasks": sum(stage.tasks for stage in self.stages), "stages": list(map(asdict, self.stages))}


def simulate(
    query: Callable[[Table], LogicalPlan],
    made: SyntheticTable,
    cluster: SimulatedCluster,
    costs: SiteCosts | None = None,
    driver_slots: int = 4,
) -> Simulation:
    """Plan the query for the cluster's executors, with footers of the synthetic table, and estimate every stage."""
    costs = costs or SiteCosts()
    site = Site(Place.EXECUTORS, cluster.slots, cluster.memory_bytes, costs.executors)
    if cluster.one_process and cluster.cores > 1:
        site = site_of_processes(Executors(cluster.executors, cluster.cores), cluster.memory_bytes, costs.executors)
    driver = Site(Place.DRIVER, driver_slots, 1 << 30, costs.driver)
    planner = Planner(optimize(query(made.table)), Settings(placement="executors"), Sites(driver, lambda: site))
    planner.facts.footers.know(made.footers)
    graph = planner.plan(Answers(made))
    stages = Model(made, cluster, {Place.DRIVER: driver, Place.EXECUTORS: site}).estimate(graph)
    return Simulation(graph, stages, int(made.footers.row_counts.sum()), costs.executors.query_seconds)
