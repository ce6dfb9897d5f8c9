"""`sundog doctor`: what is there, what is wrong, what to do."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from sundog.commands.output import AsJson, err, out, print_json, print_table
from sundog.environment.doctor import Finding, State, examine, settings
from sundog.environment.java import session
from sundog.errors import EnvironmentProblem, SundogError
from sundog.plan.costs import SETTING
from sundog.versions.tested import environments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sundog.environment.calibrate import Calibration

_MARKS = {State.OK: "[green]ok[/]", State.WARNING: "[yellow]warning[/]", State.WRONG: "[red]wrong[/]"}


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    file: Annotated[
        Path | None, typer.Argument(help="With --calibrate: where the costs go; if not named, sundog-costs.json.")
    ] = None,
    as_json: AsJson = False,
    with_executors: Annotated[
        bool, typer.Option("--executors/--no-executors", help="Start Spark and ask an executor's Python, too.")
    ] = True,
    master: Annotated[
        str | None,
        typer.Option(
            help="The Spark master whose executors to ask: local\\[2] if not named, or local\\[*] to calibrate."
        ),
    ] = None,
    with_settings: Annotated[bool, typer.Option("--settings", help="List the settings as well.")] = False,
    warm_up: Annotated[
        bool, typer.Option("--warm-up", help="Compile the kernels of common queries into the cache folder first.")
    ] = False,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Measure what work costs here and on the master's executors: about a minute."),
    ] = False,
) -> None:
    """Say which Java, Spark, packages, folders and executors sundog sees, what is wrong and what to do.

    Exits with 1 if something is wrong.
    """
    if file is not None and not calibrate:
        raise typer.BadParameter("a file is written with --calibrate only", param_hint="FILE")
    if warm_up:
        _warm_up()
    if calibrate:
        _calibrate(file, (master or "local[*]") if with_executors else None, as_json)
        return
    findings: list[Finding] = []
    with err().status("Looking around"):
        for finding in examine(with_executors, master or "local[2]"):
            findings.append(finding)
            if not as_json:
                _print(finding)
    wrong = [finding for finding in findings if finding.state is State.WRONG]
    if as_json:
        print_json(
            {
                "ok": not wrong,
                "findings": [each.as_dict() for each in findings],
                "tested": [each.as_dict() for each in environments()],
                "settings": settings(),
            }
        )
    else:
        out().print()
        print_table("Tested together", [each.as_row() for each in environments()])
        if with_settings:
            print_table("Settings", settings())
        out().print(f"\n[bold red]{len(wrong)} wrong[/]" if wrong else "\n[bold green]All is well.[/]")
    raise typer.Exit(1 if wrong else 0)


def _warm_up() -> None:
    from sundog.environment.warmup import prepare_kernels  # imports numba and all operators

    with err().status("Compiling kernels: half a minute if none is in the cache folder"):
        done = prepare_kernels()
    err().print(f"{done.compiled} kernels compiled, {done.loaded} loaded from the cache, in {done.seconds:.1f} s")


def _calibrate(file: Path | None, master: str | None, as_json: bool) -> None:
    """Measure, write the file, and show what has changed. Without a master, the driver alone."""
    from sundog.environment.calibrate import DEFAULT_FILE, check_writable  # imports numba and all operators

    file = (file or DEFAULT_FILE).absolute()
    check_writable(file)
    start = perf_counter()
    measured = _measure(master)
    measured.write(file)
    rows, seconds = measured.compared(), perf_counter() - start
    if as_json:
        print_json(
            {
                "file": str(file),
                "setting": SETTING,
                "costs": rows,
                "notes": measured.notes,
                "seconds": round(seconds, 1),
            }
        )
        return
    print_table("Costs that come with sundog, and those measured here", rows)
    console = out()
    for note in measured.notes:
        err().print("[yellow]warning:[/]", end=" ")
        err().print(note, markup=False, soft_wrap=True)
    console.print(f"\nWritten to {file} after {seconds:.0f} s. To use them:", markup=False, soft_wrap=True)
    console.print(f'   spark.conf.set("{SETTING}", "{file}")', markup=False, soft_wrap=True)
    console.print(f"   or spark-submit --conf {SETTING}={file}", markup=False, soft_wrap=True)


def _measure(master: str | None) -> Calibration:
    from sundog.actions.progress import progress_sink
    from sundog.environment.calibrate import calibrate

    if master is None:
        return calibrate(None, progress=progress_sink(None))
    with err().status(f"Starting Spark on {master}"):
        spark = _spark(master)
    try:
        return calibrate(spark, progress=progress_sink(None))
    finally:
        spark.stop()


def _spark(master: str) -> SparkSession:
    try:
        return session("sundog doctor", master)
    except SundogError:
        raise
    except Exception as error:
        said = next(iter(str(error).strip().splitlines()), type(error).__name__)
        hint = "`sundog doctor` says what is wrong; `--no-executors` measures this machine without Spark."
        raise EnvironmentProblem(f"Spark does not start on {master}: {said}\n{hint}") from error


def _print(finding: Finding) -> None:
    console = out()
    console.print(_MARKS[finding.state], end=" ")
    console.print(f"{finding.part}: {finding.seen}", markup=False, soft_wrap=True)
    if finding.advice:
        console.print(f"   -> {finding.advice}", markup=False, soft_wrap=True)
