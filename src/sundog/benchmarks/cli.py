"""`sundog data` and `sundog bench`: the command line over the generators and the runner."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sundog.benchmarks.cases.catalog import CASES, select
from sundog.benchmarks.cases.model import Case, DataRef
from sundog.benchmarks.compare import Comparison, compare, range_text
from sundog.benchmarks.data.catalog import DATA_SETS, DataSet, Note, find_data_set
from sundog.benchmarks.data.write import clear, is_ready, make_local, make_with_spark, total_rows
from sundog.benchmarks.engines.catalog import ENGINES, find_engine
from sundog.benchmarks.report import markdown, time_text
from sundog.benchmarks.results import Results, Status
from sundog.benchmarks.runner import Settings, Update, run_benchmark
from sundog.commands.output import AsJson, err, out, print_json, print_table
from sundog.errors import SundogError
from sundog.machine import usable_cores

DATA_FOLDER_VARIABLE = "SUNDOG_BENCH_DATA"
DEFAULT_ENGINES = "spark,sundog,duckdb,datafusion,polars,sail"
_SUFFIXES = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}
_STANDARD_OUTPUT = Path("-")
_INTERRUPTED = 130


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
    as_json: AsJson = False,
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
        print_json({**summary, "folder": str(folder)})
    else:
        verb = "made" if made else "already there"
        size_text = f"{size / 2**20:,.1f} MiB"
        _say(out(), f"{name}: {count:,} rows a table, {len(files)} files, {size_text}, {verb}: {folder}")


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
    console = err()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
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
    in_turns: Annotated[bool, typer.Option(help="Each case on all engines before the next one.")] = False,
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
        if json_file != _STANDARD_OUTPUT:
            _show_lists(listed)
        return
    if compare_files is not None:
        comparisons = compare(*(Results.read(path) for path in compare_files))
        _write_json(json_file, [one.as_json() for one in comparisons])
        if json_file != _STANDARD_OUTPUT:
            _show_comparison(comparisons)
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
        in_turns=in_turns,
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
                _say(progress.console, f"{update.finished.case}  {update.engine}  {result}")

        with _termination_as_interrupt():
            results = run_benchmark(cases, names, folders, settings, command, show)
    _write_json(json_file, results.as_json())
    if report is not None:
        report.write_text(markdown(results))
    if json_file != _STANDARD_OUTPUT:
        _show_results(results)
    _show_problems(results)
    if results.interrupted:
        raise typer.Exit(_INTERRUPTED)
    if any(m.agrees is False or m.status is Status.FAILED for m in results.measurements):
        raise typer.Exit(1)


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Being asked to end is treated like Ctrl-C: what was measured is kept."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
    if file == _STANDARD_OUTPUT:
        print_json(values)
    elif file is not None:
        file.write_text(json.dumps(values, indent=1) + "\n")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


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


def _show_lists(cases: list[Case]) -> None:
    print_table(
        "cases",
        [
            {
                "case": case.name,
                "also": " ".join(case.aliases),
                "data": case.data.name if case.data.scale == 1 else f"{case.data.name} x {case.data.scale}",
                "about": case.about,
            }
            for case in cases
        ],
    )
    print_table("engines", [{"engine": spec.name, "about": spec.about} for spec in ENGINES.values()])


def _show_results(results: Results) -> None:
    rows = [
        {"case": case, **{engine: time_text(results.of(case, engine)) for engine in results.engines}}
        for case in results.cases
    ]
    print_table("seconds, median", rows)


def _show_problems(results: Results) -> None:
    for engine, why in results.unavailable.items():
        _say(err(), f"{engine} is not available: {why}")
    for m in results.measurements:
        if m.agrees is False:
            _say(err(), f"{m.case}: {m.engine} {m.note}", "red")


def _show_comparison(comparisons: list[Comparison]) -> None:
    print_table(
        "after against before",
        [
            {
                "case": one.case,
                "engine": one.engine,
                "before": range_text(one.before),
                "after": range_text(one.after),
                "after / before": f"{one.ratio:.2f}",
                "verdict": one.verdict.value,
            }
            for one in comparisons
        ],
    )
