"""`sundog bench`: the command line over the runner. `sundog data` is in `data/command.py`."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sundog.benchmarks.cases.catalog import CASES, select
from sundog.benchmarks.cases.model import Case, DataRef
from sundog.benchmarks.compare import Comparison, compare, kept_rows, kept_speed_ups, range_text
from sundog.benchmarks.data.catalog import find_data_set
from sundog.benchmarks.data.command import (
    ArgumentError,
    check_scale,
    data_command,
    ensure_data,
    ensure_tpc,
    parse_rows,
    progress_bar,
    rows_text,
)
from sundog.benchmarks.data.tpc import TpcSet
from sundog.benchmarks.engines.catalog import ENGINES, find_engine, label_of
from sundog.benchmarks.engines.cluster import Layout
from sundog.benchmarks.report import markdown, time_text
from sundog.benchmarks.results import Results, Status
from sundog.benchmarks.runner import Settings, Update, run_benchmark
from sundog.benchmarks.summary import summarize, summary_rows
from sundog.commands.output import err, print_json, print_table
from sundog.machine import usable_cores

DATA_FOLDER_VARIABLE = "SUNDOG_BENCH_DATA"
DEFAULT_ENGINES = "spark,sundog,duckdb,datafusion,polars,sail"
CLUSTER_ENGINES = "spark,sundog-executors"
_STANDARD_OUTPUT = Path("-")
_INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Add the commands `data` and `bench` to the main command."""
    app.command("data")(data_command)
    app.command("bench")(bench_command)


# --- sundog bench ----------------------------------------------------------------------------------------------------


def bench_command(
    patterns: Annotated[list[str] | None, typer.Argument(help="Names or globs of cases, e.g. 'topk/*'; main.")] = None,
    engines: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated; --list shows them. ENGINE@LABEL: see --python.", show_default=DEFAULT_ENGINES
        ),
    ] = None,
    rows: Annotated[str | None, typer.Option(help="Rows of every table; each data set has its own default.")] = None,
    scale: Annotated[float, typer.Option(help="Scale of the tables of tpch and tpcds.")] = 1,
    repeat: Annotated[int, typer.Option(min=1, help="Measured runs of a case.")] = 3,
    warmup: Annotated[int, typer.Option(min=0, help="Unmeasured runs after the first.")] = 1,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores for every engine; all if not given.")] = None,
    data: Annotated[
        Path, typer.Option(envvar=DATA_FOLDER_VARIABLE, help="Folder for data sets; missing ones are made.")
    ] = Path("bench-data"),
    table: Annotated[list[str] | None, typer.Option(help="NAME=PATH: use this folder for a data set.")] = None,
    python: Annotated[list[str] | None, typer.Option(help="ENGINE=PATH or LABEL=PATH: another interpreter.")] = None,
    enough: Annotated[float, typer.Option(help="No further run of a case after this many seconds.")] = 60,
    timeout: Annotated[float, typer.Option(help="Give a case up after this many seconds.")] = 600,
    isolate: Annotated[bool, typer.Option(help="A new process for each case.")] = False,
    in_turns: Annotated[bool, typer.Option(help="Each case on all engines before the next one.")] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="EXECUTORSxCORES",
            help="On standalone clusters on loopback, in turns; 2x4 is 2 executors of 4 cores on the cores given. "
            f"Engines: {CLUSTER_ENGINES}.",
        ),
    ] = None,
    large: Annotated[bool, typer.Option(help="Also the cases that need much disk and time.")] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write what would be shown as JSON to this file; - is standard output."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the results as Markdown.")] = None,
    compare_files: Annotated[
        tuple[Path, Path] | None, typer.Option("--compare", metavar="A.json B.json", help="Compare two result files.")
    ] = None,
    summary_file: Annotated[
        Path | None, typer.Option("--summary", metavar="A.json", help="Summarise a result file, a line per suite.")
    ] = None,
    check: Annotated[bool, typer.Option(help="Measure nothing: compare sundog's answers with Spark's.")] = False,
    sweep_costs: Annotated[
        str | None,
        typer.Option("--sweep", metavar="COSTS", help="Measure the cases with a quarter and four times a cost."),
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
    if summary_file is not None:
        measured = Results.read(summary_file)
        summaries = summarize(measured)
        _write_json(json_file, [one.as_json() for one in summaries])
        if json_file != _STANDARD_OUTPUT:
            print_table("suites against plain Spark", summary_rows(summaries))
            _show_kept(measured)
        return
    if not patterns:
        raise ArgumentError("Name at least one case, e.g. `sundog bench 'topk/*'`. `sundog bench --list` shows them.")
    pythons = _pairs(python, "--python")
    layout = None if cluster is None else _layout(cluster)
    names = _engine_names(engines or (DEFAULT_ENGINES if layout is None else CLUSTER_ENGINES), pythons)
    cases = select(patterns, large=large)
    if check or sweep_costs is not None:
        made = _folders(cases, data, _pairs(table, "--table"), None if rows is None else parse_rows(rows), scale, 2)
        if sweep_costs is None:
            _check(cases, made, cores or usable_cores(), json_file)
        else:
            _sweep(sweep_costs.split(","), cases, made, cores or usable_cores(), repeat, json_file)
        return
    settings = Settings(
        cores=cores or usable_cores(),
        warmup=warmup,
        repeat=repeat,
        enough_seconds=enough,
        timeout_seconds=timeout,
        isolate=isolate,
        in_turns=in_turns or layout is not None,
        pythons=pythons,
        cluster=None if layout is None else str(layout),
    )
    folders = _folders(
        cases, data, _pairs(table, "--table"), None if rows is None else parse_rows(rows), scale, settings.cores
    )
    command = shlex.join(["sundog", *sys.argv[1:]])
    with progress_bar() as progress:
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


def _check(cases: list[Case], folders: dict[DataRef, Path], cores: int, json_file: Path | None) -> None:
    """`--check`: one session, every case once on Spark and once in each placement of sundog."""
    import sundog
    from sundog.benchmarks.check import PLACEMENTS, check_cases

    spark = sundog.session("sundog-check", master=f"local[{cores}]", confs={"spark.sql.session.timeZone": "UTC"})
    found = []
    try:
        with progress_bar() as progress:
            task = progress.add_task("checking", total=len(cases) * len(PLACEMENTS))
            for one in check_cases(spark, [case for case in cases if case.overhead is None], folders):
                progress.update(task, advance=1, description=one.case)
                found.append(one)
    finally:
        spark.stop()
    _write_json(json_file, [one.as_json() for one in found])
    if json_file != _STANDARD_OUTPUT:
        rows = [{name: str(value or "") for name, value in one.as_json().items()} for one in found]
        print_table("sundog's answers against Spark's", rows)
    if any(one.difference for one in found):
        raise typer.Exit(1)


def _sweep(
    names: list[str], cases: list[Case], folders: dict[DataRef, Path], cores: int, repeat: int, json_file: Path | None
) -> None:
    """`--sweep`: one session, every case with three values of every cost."""
    import sundog
    from sundog.benchmarks.engines.spark import plain_session
    from sundog.benchmarks.sweep import find_costs, sweep

    costs = find_costs([name.strip() for name in names])
    spark = plain_session(cores, {})
    found = []
    try:
        sundog.enable(spark)
        with progress_bar() as progress:
            task = progress.add_task("measuring", total=len(cases) * len(costs))
            for one in sweep(spark, costs, [case for case in cases if case.overhead is None], folders, repeat):
                progress.update(task, advance=1, description=f"{one.case}: {one.cost}")
                found.append(one.as_json())
    finally:
        spark.stop()
    _write_json(json_file, found)
    if json_file != _STANDARD_OUTPUT:
        rows = [{name: str(value) for name, value in one.items()} for one in found]
        print_table("processor seconds by a cost's value", rows)


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C: what was measured is kept."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _engine_names(text: str, pythons: dict[str, str]) -> list[str]:
    """The engines of `--engines`, each once. A label must be one that `--python` names."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        find_engine(name)
        if label_of(name) and label_of(name) not in pythons:
            raise ArgumentError(f"{name} needs --python {label_of(name)}=PATH, the interpreter to run it in.")
    return names


def _layout(text: str) -> Layout:
    try:
        return Layout.parse(text)
    except ValueError as problem:
        raise ArgumentError(f"--cluster: {problem}.") from problem


def _pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise ArgumentError(f"{option} takes NAME=PATH, not {text!r}.")
        pairs[name] = value
    return pairs


def _folders(
    cases: list[Case], data: Path, given: dict[str, str], rows: int | None, scale: float, cores: int
) -> dict[DataRef, Path]:
    """A folder for each data set that the cases need; those not given are made below `data`."""
    folders = {}
    for ref in dict.fromkeys(case.data for case in cases):
        data_set = find_data_set(ref.name)
        if ref.name in given and ref.scale == 1:
            folders[ref] = Path(given[ref.name]).absolute()
            if not any(folders[ref].rglob("*.parquet")):
                raise ArgumentError(f"--table {ref.name}={given[ref.name]}: there are no Parquet files.")
        elif isinstance(data_set, TpcSet):
            folders[ref] = (data / f"{ref.name}-{check_scale(scale):g}").absolute()
            ensure_tpc(data_set, scale, folders[ref], cores=cores)
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
    compared = summary_rows(one for one in summarize(results) if one.warm.compared)
    if compared:
        print_table("suites against plain Spark", compared)
    _show_kept(results)


def _show_kept(results: Results) -> None:
    if kept := kept_speed_ups(results):
        print_table("speed-up in other interpreters", kept_rows(kept))


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
