"""`sundog simulate`: the planner's own graph, estimates that add up, and counts that are those of real runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sundog.cli import app
from sundog.config import Settings
from sundog.parquet.reading import DataFile
from sundog.plan.costs import DRIVER, EXECUTORS, Costs, SiteCosts
from sundog.plan.explain import outline
from sundog.plan.lower.planner import Planner
from sundog.plan.rules.order import optimize
from sundog.plan.sites import Sites
from sundog.plan.stages import Place, Site
from sundog.runtime.driver import DriverRuntime
from sundog.runtime.execute import StageRunner
from sundog.simulate.model import Model, SimulatedCluster
from sundog.simulate.queries import QUERIES
from sundog.simulate.run import Simulation, simulate
from sundog.simulate.synthetic import COLUMNS, SyntheticTable
from sundog.tables.parquet_folder import ParquetFolder

TIME, USER, *OTHERS = COLUMNS


def table(rows: int, row_groups: int, clustering: float = 1.0, distinct: int = 1000) -> SyntheticTable:
    columns = (replace(TIME, clustering=clustering), replace(USER, distinct=distinct), *OTHERS)
    return SyntheticTable.of(rows, row_groups, max(row_groups // 10, 1), columns)


def run(query: str, executors: int, rows: int = 10**9, clustering: float = 1.0, distinct: int = 10**6) -> Simulation:
    made = table(rows, max(rows // 10**6, 1), clustering, distinct)
    return simulate(QUERIES[query], made, SimulatedCluster(executors, 4))


@pytest.mark.parametrize("query", QUERIES)
def test_more_executors_take_less_time_and_no_less_work(query: str) -> None:
    few, many = run(query, 2, rows=10**8), run(query, 16, rows=10**8)
    assert many.seconds < few.seconds or query == "topk"
    assert many.cpu_seconds > 0.9 * few.cpu_seconds
    assert all(stage.seconds >= 0 and stage.tasks >= 1 for stage in many.stages)


def test_estimates_are_of_the_stages_of_the_graph() -> None:
    found = run("row-number", 16, rows=10**8)
    assert [stage.number for stage in found.stages] == [stage.number for stage in found.graph.stages]
    assert {line.stages[0].number for line in outline(found.graph)} <= {stage.number for stage in found.stages}
    assert found.graph.site is not None
    assert found.graph.site.slots == 64


def test_a_clustered_key_moves_nothing_and_a_scattered_one_everything() -> None:
    clustered, scattered = (run("range-window", 16, rows=10**8, clustering=each) for each in (1.0, 0.0))
    assert clustered.bytes_moved < 1e7 < 1e9 < scattered.bytes_moved
    assert 0 < clustered.halo_share < 0.01
    assert scattered.seconds > clustered.seconds


def test_a_top_k_of_a_clustered_key_reads_the_same_of_a_thousand_times_the_rows() -> None:
    small, large = run("topk", 16, rows=10**8), run("topk", 16, rows=10**11)
    assert small.bytes_read == large.bytes_read
    assert small.rounds == large.rounds == 1


def test_groups_that_do_not_repeat_are_moved_one_by_one() -> None:
    few, many = run("groups", 16, distinct=100), run("groups", 16, distinct=10**9)
    assert few.bytes_moved < 1e6
    assert many.bytes_moved > 1e10


def test_costs_and_cluster_change_the_prediction() -> None:
    made, query = table(10**8, 100), QUERIES["groups"]
    base = simulate(query, made, SimulatedCluster(8, 4))
    slow = SiteCosts(DRIVER, replace(EXECUTORS, group_ns_per_row=1000.0))
    assert simulate(query, made, SimulatedCluster(8, 4), slow).cpu_seconds > 1.5 * base.cpu_seconds
    assert simulate(query, made, SimulatedCluster(8, 4, processors=2)).seconds > 2 * base.seconds
    assert simulate(query, made, SimulatedCluster(8, 4, storage=1e6)).seconds > 10 * base.seconds


def written(folder: Path, rows: int) -> ParquetFolder:
    """Real files with the values that the synthetic table says it has."""
    made, files = table(rows, 20), []
    numbers = np.arange(rows)
    random = np.random.default_rng(3)
    whole = pa.table(
        {
            "time": numbers,
            "user": random.integers(0, 1000, rows),
            "amount": random.random(rows),
            "name": [f"n{number:08d}" for number in numbers.tolist()],
        }
    )
    for number in range(2):
        path = folder / f"{number}.parquet"
        part = whole.slice(number * rows // 2, rows // 2)
        pq.write_table(part, path, row_group_size=rows // 20, use_dictionary=False, compression="NONE")
        files.append(DataFile(str(path), path.stat().st_size, 0))
    return replace(made.table, files=tuple(files))


@pytest.mark.parametrize("query", ["range-window", "row-number", "groups", "scattered-topk"])
def test_rows_and_tasks_are_those_that_a_run_counts(query: str, tmp_path: Path) -> None:
    """A site of driver threads: the graph is run on real files, and estimated from synthetic footers."""
    rows = 200_000
    numbers: Costs = replace(DRIVER, task_bytes=1 << 16, sort_range_rows=20_000, unsplit_exchange_rows=0)
    site = Site(Place.DRIVER, 2, 1 << 30, numbers)
    sites = Sites(site, lambda: site, "none")
    runner = StageRunner(DriverRuntime(2, 1 << 30))
    planner = Planner(optimize(QUERIES[query](written(tmp_path, rows))), Settings(placement="driver"), sites)
    graph = planner.plan(lambda step: runner.answer(step.stage))
    assert graph.result is not None
    runner.rows(graph.result)
    made = table(rows, 20)
    paths = {file.path: str(tmp_path / f"{number}.parquet") for number, file in enumerate(made.table.files)}
    footers = replace(made.footers, paths=tuple(paths[path] for path in made.footers.paths))
    model = Model(replace(made, footers=footers), SimulatedCluster(1, 2), {Place.DRIVER: site})
    estimates = {stage.number: stage for stage in model.estimate(graph)}
    for record in runner.records.in_order():
        estimate = estimates[record.number]
        assert estimate.purpose == record.purpose
        if record.purpose == "TopK search":
            continue  # threads share one queue: no task says what it reads
        assert estimate.partitions == pytest.approx(record.tasks, abs=1), record.purpose
        tolerance = 0.35 if record.purpose == "Sample" else 0.15  # a sample is halved as batches come
        assert estimate.rows_out == pytest.approx(record.operators[-2].rows, rel=tolerance, abs=20), record.purpose


def test_command() -> None:
    invoke = CliRunner().invoke
    result = invoke(app, ["simulate", "groups", "--rows", "1e8,1e9", "--executors", "16,100", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [(line["rows"], line["executors"]) for line in found["simulations"]] == [
        (10**8, 16), (10**8, 100), (10**9, 16), (10**9, 100),
    ]  # fmt: skip
    assert all(line["seconds"] > 0 and line["stages"] for line in found["simulations"])
    table_of_one = invoke(app, ["simulate", "range-window", "--rows", "1e8", "--executors", "16"])
    assert "Stages" in table_of_one.stdout
    assert "Predicted, not measured" in table_of_one.stdout
    for wrong in (["nonsense"], ["groups", "--rows", "many"], ["groups", "--rows", "1e15"]):
        assert invoke(app, ["simulate", *wrong]).exit_code == 1
