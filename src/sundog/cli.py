"""The command `sundog`. Each subcommand is a module with `register(app)`; shared options and error handling are here.

An error is one clear line with what to do next, and exit code 1; `--debug` shows the stack instead. Wrong usage exits
with 2, as everywhere.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import sundog
from sundog.benchmarks import cli as benchmarks
from sundog.commands import docs, doctor, query, simulate
from sundog.commands.output import err, out, printable
from sundog.demo import run as demo
from sundog.errors import SundogError


class _OneLineErrors(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.TyperException, typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            err().print("[bold red]error:[/]", end=" ")
            err().print(printable(describe(error)), markup=False, soft_wrap=True)
            raise typer.Exit(1) from error


def describe(error: Exception) -> str:
    """One line for an error; the whole text of sundog's own errors, since they say what to do."""
    if isinstance(error, SundogError):
        return str(error)
    lines = str(error).strip().splitlines() or [""]
    hint = "Run again with `sundog --debug …` for the stack."
    return f"{type(error).__name__}: {lines[0]}\n       {hint}"


app = typer.Typer(
    cls=_OneLineErrors,
    help="Top-k, global windows and million-group aggregation, fast, on the Spark you already have.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        out().print(f"sundog {sundog.__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the stack of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every subcommand."""


for command in (demo, query, benchmarks, doctor, docs, simulate):
    command.register(app)

if __name__ == "__main__":
    sys.exit(app())
