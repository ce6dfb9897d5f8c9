"""`sundog docs`: the generated pages of the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sundog.commands.output import AsJson, out, print_json
from sundog.errors import SundogError
from sundog.report.pages.reference_docs import stale_pages, write_pages


def register(app: typer.Typer) -> None:
    app.command()(docs)


def docs(
    folder: Annotated[Path, typer.Argument(help="Where the pages are kept.")] = Path("docs/reference"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if a page is stale.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the reference pages (settings, metrics, fallback reasons) from the code."""
    if not folder.parent.is_dir():
        raise SundogError(f"{folder.parent} does not exist. Run this in sundog's repository, or name a folder.")
    pages = stale_pages(folder) if check else write_pages(folder)
    if as_json:
        print_json({"stale" if check else "written": pages})
    else:
        done = "stale, run `sundog docs`" if check else "written"
        out().print("\n".join(f"{folder / page}: {done}" for page in pages) or "All pages are fresh.", markup=False)
    raise typer.Exit(1 if check and pages else 0)
