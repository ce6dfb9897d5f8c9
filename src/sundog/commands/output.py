"""The output of all commands: tables for users, JSON for programs, one line for an error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def out() -> Console:
    """Standard output, as it is now: tests and shells redirect it."""
    return Console(highlight=False)


def err() -> Console:
    """Standard error: progress, warnings and errors, so that standard output holds results alone."""
    return Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=str))


def print_table(title: str, rows: Sequence[Mapping[str, object]], styles: Mapping[str, str] | None = None) -> None:
    """Rows with the same keys, which become the headings. Cells are text, never markup; `styles` is by heading."""
    table = Table(
        title=escape(title), title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False
    )
    for heading in rows[0] if rows else ():
        table.add_column(escape(heading), style=(styles or {}).get(heading), overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable("" if cell is None else str(cell))) for cell in row.values()))
    out().print(table)


def printable(text: str) -> str:
    """Without control characters except tabs and line ends: a cell must not move the cursor or rename the terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
