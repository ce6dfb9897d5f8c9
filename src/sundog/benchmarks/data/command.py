"""`sundog data`: make a data set where it is not there yet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sundog.benchmarks.data.catalog import DATA_SETS, TPC_SETS, DataSet, Note, find_data_set
from sundog.benchmarks.data.tpc import SMALLEST_SCALE, TpcSet
from sundog.benchmarks.data.write import clear, is_ready, make_local, make_tpc, make_with_spark, total_rows
from sundog.commands.output import AsJson, err, out, print_json
from sundog.errors import SundogError
from sundog.machine import usable_cores

_SUFFIXES = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}


class ArgumentError(SundogError, ValueError):
    """An option of the command line has a value that cannot be used."""


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


def check_scale(scale: float) -> float:
    if not scale >= SMALLEST_SCALE:
        raise ArgumentError(f"--scale {scale:g} is too small: the smallest is {SMALLEST_SCALE:g}.")
    return scale


def data_command(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join([*DATA_SETS, *TPC_SETS])}.")],
    folder: Annotated[Path, typer.Argument(help="Where the Parquet files go.")],
    rows: Annotated[str | None, typer.Option(help="Rows of each table, e.g. 10m or 250k; not of tpch, tpcds.")] = None,
    scale: Annotated[float | None, typer.Option(help="Scale of tpch and tpcds: 1 is about 1 GB of text.")] = None,
    engine: Annotated[str, typer.Option(help="`local`: pyarrow threads; `spark`: a Spark job.")] = "local",
    seed: Annotated[int, typer.Option(help="Another seed gives other rows of the same shape.")] = 0,
    cores: Annotated[int | None, typer.Option(help="Cores to use; all if not given.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace another data set in that folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a benchmark data set: the same rows for the same name, size and seed, on every machine."""
    data_set = find_data_set(name)
    if engine not in ("local", "spark"):
        raise ArgumentError(f"--engine is `local` or `spark`, not {engine!r}.")
    threads = cores or usable_cores()
    if isinstance(data_set, TpcSet):
        if rows is not None or engine != "local" or seed:
            raise ArgumentError(f"{name} is sized by --scale and made by TPC's generator: no --rows, --engine, --seed.")
        size = check_scale(data_set.default_scale if scale is None else scale)
        wanted, count = Note.of_scale(name, size), None
        _clear_other(folder, wanted, overwrite)
        made = ensure_tpc(data_set, size, folder, cores=threads)
    else:
        if scale is not None:
            raise ArgumentError(f"{name} is sized by --rows; --scale is for {' and '.join(TPC_SETS)}.")
        count = data_set.default_rows if rows is None else parse_rows(rows)
        wanted = Note(name, count, seed)
        _clear_other(folder, wanted, overwrite)
        made = ensure_data(data_set, count, folder, seed=seed, cores=threads, with_spark=engine == "spark")
    files = sorted(folder.rglob("*.parquet"))
    bytes_written = sum(file.stat().st_size for file in files)
    if as_json:
        summary = {"name": name, "rows": count, "scale": wanted.scale, "seed": seed, "files": len(files)}
        print_json({**summary, "bytes": bytes_written, "made": made, "folder": str(folder)})
    else:
        sized = f"{count:,} rows a table" if count is not None else f"scale {wanted.scale:g}"
        state = "made" if made else "already there"
        text = f"{name}: {sized}, {len(files)} files, {bytes_written / 2**20:,.1f} MiB, {state}: {folder}"
        out().print(text, markup=False, highlight=False, soft_wrap=True)


def _clear_other(folder: Path, wanted: Note, overwrite: bool) -> None:
    found = Note.read(folder) if folder.exists() else None
    if overwrite and found is not None and found != wanted:
        clear(folder)


def ensure_tpc(data_set: TpcSet, scale: float, folder: Path, *, cores: int = 2) -> bool:
    """Make a TPC suite's tables unless they are there; true if they were made."""
    if is_ready(Note.of_scale(data_set.name, scale), folder):
        return False
    with progress_bar() as progress:
        progress.add_task(f"making {data_set.name} at scale {scale:g}", total=None)
        make_tpc(data_set, scale, folder, threads=cores)
    return True


def ensure_data(
    data_set: DataSet, rows: int, folder: Path, *, seed: int = 0, cores: int = 2, with_spark: bool = False
) -> bool:
    """Make the data set unless it is there; true if it was made."""
    if is_ready(Note(data_set.name, rows, seed), folder):
        return False
    with progress_bar() as progress:
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


def progress_bar() -> Progress:
    """Progress on standard error; nothing where that is no terminal."""
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
