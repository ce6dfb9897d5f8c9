"""`sundog simulate`: plans a query for a cluster and a table that do not exist, and estimates its cost."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any

import typer

from sundog.commands.output import AsJson, out, print_json, print_table
from sundog.errors import SundogError
from sundog.plan.costs import read_costs
from sundog.report.wording import bytes_text, seconds_text
from sundog.simulate.model import SimulatedCluster, StageEstimate
from sundog.simulate.queries import QUERIES, SQL
from sundog.simulate.run import Simulation, simulate
from sundog.simulate.synthetic import COLUMNS, SyntheticTable

_MOST_ROW_GROUPS = 2_000_000
_LIST = re.compile(r"\s*,\s*")


def register(app: typer.Typer) -> None:
    app.command("simulate")(simulate_command)


def simulate_command(
    query: Annotated[str, typer.Argument(help=f"One of {', '.join(QUERIES)}.")],
    rows: Annotated[str, typer.Option(help="Rows of the table, as 1e9; several with commas: a line for each.")] = "1e9",
    executors: Annotated[str, typer.Option(help="Executors; several with commas.")] = "16",
    cores: Annotated[int, typer.Option(help="Cores of an executor.", min=1)] = 4,
    row_group_rows: Annotated[int, typer.Option(help="Rows of a row group.", min=1)] = 1_000_000,
    file_row_groups: Annotated[int, typer.Option(help="Row groups of a file.", min=1)] = 10,
    clustering: Annotated[
        float, typer.Option(help="Of the column time: 1, files are in its order; 0, it is anywhere.", min=0, max=1)
    ] = 1.0,
    groups: Annotated[str, typer.Option(help="Distinct values of the column user.")] = "1e6",
    memory: Annotated[int, typer.Option(help="MiB of a task.", min=1)] = 1024,
    processors: Annotated[int, typer.Option(help="Cores that there really are for all slots; 0: as many.")] = 0,
    network: Annotated[float, typer.Option(help="Gbit/s of an executor; 0: no limit.", min=0)] = 10.0,
    storage: Annotated[float, typer.Option(help="MB/s that an executor reads; 0: no limit.", min=0)] = 0.0,
    costs: Annotated[str, typer.Option(help="As `spark.sundog.costs`: a file of `sundog doctor --calibrate`.")] = "",
    as_json: AsJson = False,
) -> None:
    """Plan a query for a cluster and a table that are not there, and estimate its stages. Nothing is started."""
    if query not in QUERIES:
        raise SundogError(f"There is no query {query!r}. Name one of {', '.join(QUERIES)}.")
    lines: list[dict[str, Any]] = []
    found: Simulation | None = None
    for count in _numbers(rows, "--rows"):
        made = _table(count, row_group_rows, file_row_groups, clustering, _numbers(groups, "--groups")[0])
        for machines in _numbers(executors, "--executors"):
            cluster = SimulatedCluster(
                machines, cores, memory << 20, processors or None, network * 1e9 / 8, storage * 1e6
            )
            found = simulate(QUERIES[query], made, cluster, read_costs(costs))
            lines.append({"rows": count, "executors": machines, "cores": cores, **found.as_dict()})
    if as_json:
        print_json({"query": query, "sql": SQL[query], "simulations": lines})
        return
    print_table(SQL[query], [_summary(line) for line in lines])
    if len(lines) == 1 and found is not None:
        print_table("Stages", [_stage(stage) for stage in found.stages])
    out().print("Predicted, not measured: keys are taken to be spread evenly. docs/scale.md says how far off that was.")


def _numbers(text: str, option: str) -> list[int]:
    """`1e9,1e10` as integers."""
    try:
        found = [int(float(part)) for part in _LIST.split(text.strip())]
    except (ValueError, OverflowError):
        found = []
    if not found or min(found) < 1:
        raise SundogError(f"{option} {text!r} is no list of positive numbers, such as 1e9,1e10.")
    return found


def _table(rows: int, row_group_rows: int, file_row_groups: int, clustering: float, groups: int) -> SyntheticTable:
    row_groups = -(-rows // row_group_rows)
    if row_groups > _MOST_ROW_GROUPS:
        raise SundogError(f"{row_groups:,} row groups are too many to plan here. Name larger --row-group-rows.")
    time, user, *others = COLUMNS
    columns = (replace(time, clustering=clustering), replace(user, distinct=groups), *others)
    return SyntheticTable.of(rows, row_groups, -(-row_groups // file_row_groups), columns)


def _summary(line: dict[str, Any]) -> dict[str, object]:
    return {
        "rows": f"{line['rows']:.0e}",
        "executors": f"{line['executors']} x {line['cores']}",
        "stages": len(line["stages"]),
        "tasks": line["tasks"],
        "read": bytes_text(line["bytes_read"]),
        "moved": bytes_text(line["bytes_moved"]),
        "halo": f"{100 * line['halo_share']:.2f} %",
        "rounds": line["rounds"],
        "skew": f"{line['skew']:.2f}",
        "memory of a task": bytes_text(line["memory_bytes"]),
        "processor": seconds_text(line["cpu_seconds"]),
        "time": seconds_text(line["seconds"]),
    }


def _stage(stage: StageEstimate) -> dict[str, object]:
    return {
        "stage": f"{stage.number + 1}. {stage.purpose}",
        "place": stage.place,
        "tasks": stage.tasks,
        "partitions": stage.partitions,
        "rows in": f"{stage.rows_in:,.0f}",
        "rows out": f"{stage.rows_out:,.0f}",
        "read": bytes_text(stage.bytes_read),
        "moved": bytes_text(stage.bytes_moved),
        "halo rows": f"{stage.halo_rows:,.0f}",
        "skew": f"{stage.skew:.2f}",
        "memory of a task": bytes_text(stage.memory_bytes),
        "processor": seconds_text(stage.cpu_seconds),
        "time": seconds_text(stage.seconds),
    }
