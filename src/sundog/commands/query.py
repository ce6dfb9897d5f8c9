"""`sundog sql` and `sundog explain`: one query over Parquet, without writing a program.

sundog sql "SELECT * FROM t ORDER BY price DESC LIMIT 10" --table t=./prices
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sundog
from sundog.commands.output import AsJson, err, out, print_json, print_table, printable
from sundog.versions import spark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Query = Annotated[str, typer.Argument(help="The query, in Spark SQL.")]
Tables = Annotated[
    list[str], typer.Option("--table", "-t", metavar="NAME=PATH", help="A Parquet file or folder, under a name.")
]
Confs = Annotated[list[str], typer.Option("--conf", "-c", metavar="KEY=VALUE", help="A Spark setting.")]
SHOWN_ROWS = 100


def register(app: typer.Typer) -> None:
    app.command("sql")(sql)
    app.command("explain")(explain)


def sql(
    query: Query,
    table: Tables = [],  # noqa: B006
    conf: Confs = [],  # noqa: B006
    as_json: AsJson = False,
    report: Annotated[Path | None, typer.Option(help="Write the run's HTML report here.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Run on Spark alone.")] = False,
) -> None:
    """Run a query and show its rows, how long it took, and what sundog did."""
    session = _session(table, conf)
    try:
        if not plain:
            sundog.enable(session)
        frame = session.sql(query)
        rows = spark_version().to_arrow(frame)
        run = None if plain else sundog.last_run()
        if as_json:
            summary = None if run is None else _summary(run)
            print_json({"rows": rows.to_pylist(), "run": summary})
        else:
            print_table("", [_printable(row) for row in rows.slice(0, SHOWN_ROWS).to_pylist()])
            if rows.num_rows > SHOWN_ROWS:
                out().print(f"… {rows.num_rows - SHOWN_ROWS} more rows")
            if run is not None:
                err().print(printable(_sentence(run)), markup=False, soft_wrap=True)
        if report is not None and run is not None:
            run.to_html(report)
            err().print(f"report: {report}", markup=False)
    finally:
        session.stop()


def explain(
    query: Query,
    table: Tables = [],  # noqa: B006
    conf: Confs = [],  # noqa: B006
    analyze: Annotated[bool, typer.Option("--analyze", help="Run the query and show its metrics.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what sundog takes of a query, what stays on Spark, and why."""
    session = _session(table, conf)
    try:
        sundog.enable(session)
        text = sundog.explain(session.sql(query), analyze=analyze)
        if as_json:
            print_json({"plan": text, "run": _summary(sundog.last_run())})
        else:
            typer.echo(text)
    finally:
        session.stop()


def _session(tables: list[str], confs: list[str]) -> SparkSession:
    settings = dict(_pair(text, "--conf") for text in confs)
    named = [_pair(text, "--table") for text in tables]
    for name, path in named:
        if "://" not in path and not Path(path).exists():
            raise typer.BadParameter(f"{path} does not exist (for table {name})", param_hint="--table")
    session = sundog.session(confs=settings)
    for name, path in named:
        _read(session, path).createOrReplaceTempView(name)
    return session


def _read(session: SparkSession, path: str) -> DataFrame:
    return session.read.parquet(path)


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise typer.BadParameter(f"{text!r} is not of the form NAME=VALUE", param_hint=option)
    return name, value


def _printable(row: dict[str, Any]) -> dict[str, object]:
    return {name: "NULL" if value is None else value for name, value in row.items()}


def _summary(run: sundog.Run) -> dict[str, Any]:
    return {
        "accelerated": run.accelerated,
        "placement": run.placement,
        "seconds": run.seconds,
        "planning_seconds": run.planning_seconds,
        "fallback_reasons": run.fallback_reasons,
        "metrics": run.metrics,
    }


def _sentence(run: sundog.Run) -> str:
    if not run.accelerated:
        return f"{run.seconds:.3f} s on Spark alone: {run.fallback_reason}"
    read, total = run.metrics.get("row_groups_scanned", 0), run.metrics.get("row_groups_total", 0)
    groups = f", read {read:.0f} of {total:.0f} row groups" if total else ""
    return f"{run.seconds:.3f} s with sundog on the {run.placement}{groups}"
