"""`sundog data` and `sundog bench`: the command line over the generators and the runner."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from sundog.benchmarks.cases.catalog import CASES, select
from sundog.benchmarks.cases.model import Case, DataRef
from sundog.benchmarks.compare import Comparison, Verdict, compare, range_text
from sundog.benchmarks.data.catalog import DATA_SETS, DataSet, Note, find_data_set
from sundog.benchmarks.data.write import clear, is_ready, make_local, make_with_spark, total_rows
from sundog.benchmarks.engines.catalog import ENGINES, find_engine
from sundog.benchmarks.report import markdown, time_text
from sundog.benchmarks.results import Results, Status
from sundog.benchmarks.runner import Settings, Update, run_benchmark
from sundog.errors import SundogError
from sundog.machine import usable_cores

DATA_FOLDER_VARIABLE = "SUNDOG_BENCH_DATA"
DEFAULT_ENGINES = "spark,sundog,duckdb,datafusion,polars,sail"
_SUFFIXES = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}
_STANDARD_OUTPUT = Path("-")
_output, _messages = Console(), Console(stderr=True)


class ArgumentError(SundogError, ValueError):
    """An option of the command line has a value that cannot be used."""


def register(app: typer.Typer) -> None:
    """Add the commands `data` and `bench` to the main command."""
    app.command("data")(data_command)
    app.command("bench")(bench_command)


def parse_rows(text: str) -> int:
    """`10m`, `250k`, `6_000_000`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmb]?)", text.replace("_", "").replace(",", "").lower())
    rows = float(match[1]) * _SUFFIXES[match[2]] if match else 0
    if rows < 1 or rows != int(rows):
        raise ArgumentError(f"{text!r} is not a number of rows. Write 6000000, 6_000_000, 250k or 10m.")
    return int(rows)


def rows_text(rows: int) -> str:
    """The shortest way to write it: 10m, 250k, 1234."""
    for suffix in ("b", "m", "k"):
        if rows % _SUFFIXES[suffix] == 0:
            return f"{rows // _SUFFIXES[suffix]}{suffix}"
    return str(rows)


# --- sundog data -----------------------------------------------------------------------------------------------------


def data_command(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(DATA_SETS)}.")],
    folder: Annotated[Path, typer.Argument(help="Where the Parquet files go.")],
    rows: Annotated[str | None, typer.Option(help="Rows of each table, e.g. 10m or 250k.")] = None,
    engine: Annotated[str, typer.Option(help="`local`: pyarrow threads; `spark`: a Spark job.")] = "local",
    seed: Annotated[int, typer.Option(help="Another seed gives other rows of the same shape.")] = 0,
    cores: Annotated[int | None, typer.Option(help="Cores to use; all if not given.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace another data set in that folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON.")] = False,
) -> None:
    """Make a benchmark data set: the same rows for the same name, rows and seed, on every machine."""
    data_set = find_data_set(name)
    count = data_set.default_rows if rows is None else parse_rows(rows)
    if engine not in ("local", "spark"):
        raise ArgumentError(f"--engine is `local` or `spark`, not {engine!r}.")
    found = Note.read(folder) if folder.exists() else None
    if overwrite and found is not None and found != Note(name, count, seed):
        clear(folder)
    made = ensure_data(data_set, count, folder, seed=seed, cores=cores or usable_cores(), with_spark=engine == "spark")
    files = sorted(folder.rglob("*.parquet"))
    size = sum(file.stat().st_size for file in files)
    if as_json:
        summary = {"name": name, "rows": count, "seed": seed, "files": len(files), "bytes": size, "made": made}
        typer.echo(json.dumps({**summary, "folder": str(folder)}))
    else:
        verb = "made" if made else "already there"
        _output.print(f"{name}: {count:,} rows a table, {len(files)} files, {size / 2**20:,.0f} MiB, {verb}: {folder}")


def ensure_data(
    data_set: DataSet, rows: int, folder: Path, *, seed: int = 0, cores: int = 2, with_spark: bool = False
) -> bool:
    """Make the data set unless it is there; true if it was made."""
    if is_ready(data_set, rows, folder, seed=seed):
        return False
    with _progress() as progress:
        task = progress.add_task(f"making {data_set.name}", total=total_rows(data_set, rows))

        def advance(done: int) -> None:
            progress.advance(task, done)

        if with_spark:
            import sundog

            spark = sundog.session("sundog-data", master=f"local[{cores}]")
            try:
                make_with_spark(spark, data_set, rows, folder, seed=seed, on_progress=advance)
            finally:
                spark.stop()
        else:
            make_local(data_set, rows, folder, seed=seed, threads=cores, on_progress=advance)
    return True


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=_messages,
        disable=not _messages.is_terminal,
        transient=True,
    )


# --- sundog bench ----------------------------------------------------------------------------------------------------


def bench_command(
    patterns: Annotated[list[str] | None, typer.Argument(help="Names or globs of cases, e.g. 'topk/*'.")] = None,
    engines: Annotated[str, typer.Option(help="Comma-separated; --list shows them.")] = DEFAULT_ENGINES,
    rows: Annotated[str | None, typer.Option(help="Rows of every table; each data set has its own default.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Measured runs of a case.")] = 3,
    warmup: Annotated[int, typer.Option(min=0, help="Unmeasured runs after the first.")] = 1,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores for every engine; all if not given.")] = None,
    data: Annotated[
        Path, typer.Option(envvar=DATA_FOLDER_VARIABLE, help="Folder for data sets; missing ones are made.")
    ] = Path("bench-data"),
    table: Annotated[list[str] | None, typer.Option(help="NAME=PATH: use this folder for a data set.")] = None,
    python: Annotated[list[str] | None, typer.Option(help="ENGINE=PATH: another interpreter for an engine.")] = None,
    enough: Annotated[float, typer.Option(help="No further run of a case after so many seconds.")] = 60,
    timeout: Annotated[float, typer.Option(help="Give a case up after so many seconds.")] = 600,
    isolate: Annotated[bool, typer.Option(help="A new process for each case.")] = False,
    large: Annotated[bool, typer.Option(help="Also the cases that need much disk and time.")] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write what would be shown as JSON to this file; - is standard output."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the results as Markdown.")] = None,
    compare_files: Annotated[
        tuple[Path, Path] | None, typer.Option("--compare", metavar="A.json B.json", help="Compare two result files.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Show cases and engines.")] = False,
) -> None:
    """Measure cases on engines, check that they agree, and compare result files."""
    if list_only:
        listed = select(patterns, large=True) if patterns else list(CASES)
        _write_json(json_file, _lists_as_json(listed))
        _show_lists(listed, json_file)
        return
    if compare_files is not None:
        comparisons = compare(*(Results.read(path) for path in compare_files))
        _write_json(json_file, [one.as_json() for one in comparisons])
        _show_comparison(comparisons, json_file)
        return
    if not patterns:
        raise ArgumentError("Name at least one case, e.g. `sundog bench 'topk/*'`. `sundog bench --list` shows them.")
    names = [find_engine(name.strip()).name for name in engines.split(",") if name.strip()]
    cases = select(patterns, large=large)
    settings = Settings(
        cores=cores or usable_cores(),
        warmup=warmup,
        repeat=repeat,
        enough_seconds=enough,
        timeout_seconds=timeout,
        isolate=isolate,
        pythons=_pairs(python, "--python"),
    )
    folders = _folders(
        cases, data, _pairs(table, "--table"), None if rows is None else parse_rows(rows), settings.cores
    )
    command = shlex.join(["sundog", *sys.argv[1:]])
    with _progress() as progress:
        task = progress.add_task("starting", total=len(cases) * len(names))

        def show(update: Update) -> None:
            progress.update(task, description=f"{update.engine}: {update.case or 'starting'}")
            if update.finished is not None:
                progress.advance(task)
                note = update.finished.note if update.finished.status is not Status.OK else None
                result = f"{time_text(update.finished)}{f' ({note})' if note else ''}"
                _say(f"{update.finished.case}  {update.engine}  {result}")

        results = run_benchmark(cases, names, folders, settings, command, show)
    _write_json(json_file, results.as_json())
    if report is not None:
        report.write_text(markdown(results))
    _show_results(results, json_file)
    if any(m.agrees is False or m.status is Status.FAILED for m in results.measurements):
        raise typer.Exit(1)


def _pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise ArgumentError(f"{option} takes NAME=PATH, not {text!r}.")
        pairs[name] = value
    return pairs


def _folders(cases: list[Case], data: Path, given: dict[str, str], rows: int | None, cores: int) -> dict[DataRef, Path]:
    """A folder for each data set that the cases need; those not given are made below `data`."""
    folders = {}
    for ref in dict.fromkeys(case.data for case in cases):
        data_set = find_data_set(ref.name)
        if ref.name in given and ref.scale == 1:
            folders[ref] = Path(given[ref.name]).absolute()
            if not any(folders[ref].rglob("*.parquet")):
                raise ArgumentError(f"--table {ref.name}={given[ref.name]}: there are no Parquet files.")
        else:
            count = (rows or data_set.default_rows) * ref.scale
            folders[ref] = (data / f"{ref.name}-{rows_text(count)}").absolute()
            ensure_data(data_set, count, folders[ref], cores=cores)
    return folders


def _write_json(file: Path | None, values: object) -> None:
    text = json.dumps(values, indent=1)
    if file == _STANDARD_OUTPUT:
        typer.echo(text)
    elif file is not None:
        file.write_text(text + "\n")


def _lists_as_json(cases: list[Case]) -> dict[str, object]:
    return {
        "cases": [
            {
                "name": case.name,
                "aliases": case.aliases,
                "data": case.data.name,
                "scale": case.data.scale,
                "large": case.large,
                "about": case.about,
                "sql": case.sql,
            }
            for case in cases
        ],
        "engines": {spec.name: spec.about for spec in ENGINES.values()},
    }


def _show(json_file: Path | None, *tables: Table) -> None:
    """Not on standard output when JSON is there already."""
    for table in tables:
        (_messages if json_file == _STANDARD_OUTPUT else _output).print(table)


def _show_lists(listed: list[Case], json_file: Path | None) -> None:
    cases = Table("case", "also", "data", "about", box=None)
    for case in listed:
        scale = "" if case.data.scale == 1 else f" x {case.data.scale}"
        cases.add_row(case.name, " ".join(case.aliases), f"{case.data.name}{scale}", case.about)
    engines = Table("engine", "about", box=None)
    for spec in ENGINES.values():
        engines.add_row(spec.name, spec.about)
    _show(json_file, cases, engines)


def _show_results(results: Results, json_file: Path | None) -> None:
    table = Table("case", *results.engines, title="seconds, median", box=None)
    for case in results.cases:
        found = [results.of(case, engine) for engine in results.engines]
        table.add_row(case, *(time_text(m) for m in found))
    _show(json_file, table)
    for engine, why in results.unavailable.items():
        _say(f"{engine} is not available: {why}")
    for m in results.measurements:
        if m.agrees is False:
            _say(f"{m.case}: {m.engine} {m.note}", "red")


def _say(text: str, style: str = "") -> None:
    _messages.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _show_comparison(comparisons: list[Comparison], json_file: Path | None) -> None:
    table = Table("case", "engine", "before", "after", "after / before", "verdict", box=None)
    colours = {Verdict.FASTER: "green", Verdict.SLOWER: "red"}
    for one in comparisons:
        times = (range_text(one.before), range_text(one.after), f"{one.ratio:.2f}")
        table.add_row(one.case, one.engine, *times, one.verdict.value, style=colours.get(one.verdict, ""))
    _show(json_file, table)


def main() -> None:
    """`python -m sundog.benchmarks.cli`: the two commands without the rest of the command line."""
    app = typer.Typer(no_args_is_help=True)
    register(app)
    try:
        app()
    except SundogError as problem:
        _messages.print(f"error: {problem}", markup=False, highlight=False)
        sys.exit(os.EX_USAGE)


if __name__ == "__main__":
    main()
