"""`sundog doctor`: what is there, what is wrong, what to do."""

from __future__ import annotations

from typing import Annotated

import typer

from sundog.commands.output import AsJson, err, out, print_json, print_table
from sundog.doctor import Finding, State, examine, settings
from sundog.versions.tested import environments

_MARKS = {State.OK: "[green]ok[/]", State.WARNING: "[yellow]warning[/]", State.WRONG: "[red]wrong[/]"}


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    as_json: AsJson = False,
    with_executors: Annotated[
        bool, typer.Option("--executors/--no-executors", help="Start Spark and ask an executor's Python, too.")
    ] = True,
    master: Annotated[str, typer.Option(help="The Spark master whose executors to ask.")] = "local[2]",
    with_settings: Annotated[bool, typer.Option("--settings", help="List the settings as well.")] = False,
    warm_up: Annotated[
        bool, typer.Option("--warm-up", help="Compile the kernels of common queries into the cache folder first.")
    ] = False,
) -> None:
    """Say which Java, Spark, packages, folders and executors sundog sees, what is wrong and what to do.

    Exits with 1 if something is wrong.
    """
    if warm_up:
        _warm_up()
    findings: list[Finding] = []
    with err().status("Looking around"):
        for finding in examine(with_executors, master):
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
        print_table("Tested together", [each.as_dict() for each in environments()])
        if with_settings:
            print_table("Settings", settings())
        out().print(f"\n[bold red]{len(wrong)} wrong[/]" if wrong else "\n[bold green]All is well.[/]")
    raise typer.Exit(1 if wrong else 0)


def _warm_up() -> None:
    from sundog.warmup import prepare_kernels  # imports numba and all operators

    with err().status("Compiling kernels: half a minute if none is in the cache folder"):
        done = prepare_kernels()
    err().print(f"{done.compiled} kernels compiled, {done.loaded} loaded from the cache, in {done.seconds:.1f} s")


def _print(finding: Finding) -> None:
    console = out()
    console.print(_MARKS[finding.state], end=" ")
    console.print(f"{finding.part}: {finding.seen}", markup=False, soft_wrap=True)
    if finding.advice:
        console.print(f"   -> {finding.advice}", markup=False, soft_wrap=True)
