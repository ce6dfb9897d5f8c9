"""`sundog demo`: the three shapes on plain Spark and on sundog, over the same data, with the answers compared.

It uses only what users have: `sundog.session`, `enable`, `disable`, `last_run`, and a setting. Every answer is compared
with plain Spark's; if one differs, the demo fails.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

import sundog
from sundog.benchmarks.agree import difference
from sundog.benchmarks.cases.model import SameRows
from sundog.demo.events import DemoQuery, queries, write_events
from sundog.demo.outcomes import (
    ENOUGH_SECONDS,
    MAX_REPETITIONS,
    PLACEMENTS,
    Attempt,
    Outcome,
    as_json_object,
    exit_code,
    write_outcomes,
)
from sundog.demo.screen import Screen
from sundog.errors import SundogError
from sundog.machine import usable_cores
from sundog.report.wording import bytes_text, count_text, seconds_text
from sundog.run import Run
from sundog.runtime.progress import spark_progress
from sundog.versions import spark_version

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

DEFAULT_ROWS = 5_000_000
_TABLE = "events"
_WARM_UP_TABLE = "events_of_one_file"
_PLACEMENT = "spark.sundog.placement"
_PROGRESS = "spark.sundog.progress.enabled"
_LEARN = "spark.sundog.learn"


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    rows: Annotated[int, typer.Option(min=1, help="Rows of the data set that is made for it.")] = DEFAULT_ROWS,
    report: Annotated[Path, typer.Option(help="Where the HTML report is written.")] = Path("report.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """See it: three queries on plain Spark and on sundog, answers compared, with a report."""
    if not report.absolute().parent.is_dir():
        raise SundogError(f"{report.absolute().parent} is not a folder, so {report.name} cannot be written there.")
    with tempfile.TemporaryDirectory(prefix="sundog-demo-") as directory:
        code = run_demo(rows, Path(directory), report, Console(highlight=False), as_json)
    raise typer.Exit(code)


def run_demo(
    rows: int,
    directory: Path,
    report: Path,
    console: Console,
    as_json: bool = False,
    session: SparkSession | None = None,
) -> int:
    """Run the demo in `directory`, which is left as it was. 0 if all answers are equal and something was accelerated.

    Without a `session` it starts one, and stops it. With `as_json`, `console` gets JSON alone, and messages for people
    go to standard error.
    """
    screen = Screen(Console(stderr=True, highlight=False) if as_json else console)
    data = directory / "events"
    screen.title(rows)
    try:
        with screen.live(), _session_for_demo(session, screen) as spark:
            _make_data(spark, rows, data, screen)
            outcomes = []
            warm_ups = queries(rows, _WARM_UP_TABLE)
            for number, (query, warm_up) in enumerate(zip(queries(rows, _TABLE), warm_ups, strict=True), 2):
                screen.introduce(number, query)
                outcomes.append(_run_query(spark, query, warm_up, screen))
                screen.conclude(outcomes[-1])
    finally:
        shutil.rmtree(data, ignore_errors=True)
    write_outcomes(report, rows, outcomes)
    screen.table(outcomes)
    screen.farewell(outcomes, report)
    if as_json:
        console.file.write(json.dumps(as_json_object(rows, outcomes, report), indent=2) + "\n")
    return exit_code(outcomes)


@contextmanager
def _session_for_demo(given: SparkSession | None, screen: Screen) -> Iterator[SparkSession]:
    """A session of our own, or the given one with its settings put back afterwards."""
    if given is None:
        with screen.step("Starting Spark"):
            spark = sundog.session(
                "sundog demo",
                confs={"spark.sql.shuffle.partitions": 2 * usable_cores(), "spark.sql.session.timeZone": "UTC"},
            )
    else:
        spark = given
    before = {key: spark.conf.get(key, None) for key in (_PLACEMENT, _PROGRESS, _LEARN)}
    spark.conf.set(_PROGRESS, "false")  # the demo shows its own
    spark.conf.set(
        _LEARN, "false"
    )  # on a busy machine a run would be given to Spark, which the demo compares with anyway
    try:
        yield spark
    finally:
        sundog.disable(spark)
        if given is None:
            spark.stop()
        else:
            for view in (_TABLE, _WARM_UP_TABLE):
                spark.catalog.dropTempView(view)
            for key, value in before.items():
                spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def _make_data(spark: SparkSession, rows: int, data: Path, screen: Screen) -> None:
    screen.heading(1, f"The data: {count_text(rows)} events of a web shop")
    start = perf_counter()
    with screen.step("A Spark job writes the events as Parquet") as sink, spark_progress(spark, sink, "tasks"):
        write_events(spark, rows, data)
    files = sorted(data.glob("*.parquet"))
    spark.read.parquet(str(data)).createOrReplaceTempView(_TABLE)
    spark.read.parquet(str(files[0])).createOrReplaceTempView(_WARM_UP_TABLE)
    size = sum(file.stat().st_size for file in files)
    columns = len(spark.table(_TABLE).columns)
    screen.say(
        f"{columns} columns in {len(files)} Parquet files, {bytes_text(size)}, written by a Spark job in "
        f"{seconds_text(perf_counter() - start)}."
    )


def _run_query(spark: SparkSession, query: DemoQuery, warm_up: DemoQuery, screen: Screen) -> Outcome:
    def ask() -> pa.Table:
        return spark_version().to_arrow(spark.sql(query.sql))

    def get_warm() -> None:
        for _ in range(2):  # the first starts Python workers and compiles; the second finds them all
            spark_version().to_arrow(spark.sql(warm_up.sql))

    sundog.disable(spark)
    with screen.step("plain Spark, warming up") as sink, spark_progress(spark, sink, "tasks"):
        get_warm()
    with screen.step("plain Spark"):
        best = _best_of(ask)
    outcome = Outcome(query, best.seconds, best.answer.num_rows)
    expected = in_order(best.answer, query.sorted_by)
    sundog.enable(spark)
    for placement in PLACEMENTS:
        spark.conf.set(_PLACEMENT, placement)
        with screen.step(f"sundog ({placement}), warming up"):
            get_warm()
        with screen.step(f"sundog ({placement})"):
            best = _best_of(ask, sundog.last_run)
        with screen.step("comparing the answers"):
            found = differing(expected, in_order(best.answer, query.sorted_by))
        outcome.attempts.append(Attempt(placement, best.seconds, best.run, found))
    return outcome


@dataclass(frozen=True)
class _Repetition:
    seconds: float
    answer: pa.Table
    run: Run


def _best_of(ask: Callable[[], pa.Table], run_of: Callable[[], Run] = Run) -> _Repetition:
    """The fastest of a few repetitions, with what sundog noted about just that one."""
    best: _Repetition | None = None
    spent = 0.0
    for _ in range(MAX_REPETITIONS):
        start = perf_counter()
        answer = ask()
        seconds = perf_counter() - start
        spent += seconds
        if best is None or seconds < best.seconds:
            best = _Repetition(seconds, answer, run_of())
        if spent >= ENOUGH_SECONDS:
            break
    assert best is not None
    return best


def in_order(answer: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """The answer sorted by its keys; as it is if its own order is part of it."""
    return answer.sort_by([(key, "ascending") for key in keys]) if keys else answer


def differing(expected: pa.Table, actual: pa.Table) -> str | None:
    """What differs between two answers, names and types included; sums of doubles may differ by rounding."""
    if not expected.schema.equals(actual.schema):
        return f"columns {actual.schema.to_string()} instead of {expected.schema.to_string()}"
    return difference(expected, actual, SameRows(ordered=True))
