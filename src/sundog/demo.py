"""`sundog demo`: the three shapes on plain Spark and on sundog, over the same data, with the answers compared.

Everything that it does with sundog, a user can do: `sundog.session`, `enable`, `disable`, `last_run`, and a setting. The
answer of plain Spark is the measure of every other; if one differs, the demo fails.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table

import sundog
from sundog.benchmarks.agree import difference
from sundog.benchmarks.cases.model import SameRows
from sundog.demo_events import FILES, DemoQuery, queries, write_events
from sundog.errors import SundogError
from sundog.machine import usable_cores
from sundog.report.headline import row_groups, summary
from sundog.report.html import Section, Timing, write_report
from sundog.report.wording import bytes_text, count_text, ratio_text, seconds_text
from sundog.run import Run
from sundog.runtime.progress import ProgressSink, spark_progress

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

DEFAULT_ROWS = 5_000_000
PLACEMENTS = ("auto", "driver", "executors")
_TABLE = "events"
_WARM_UP_TABLE = "events_of_one_file"
_PLACEMENT = "spark.sundog.placement"
_PROGRESS = "spark.sundog.progress.enabled"
_MOST_REPETITIONS = 3
_ENOUGH_SECONDS = 2.0

_WHAT_IT_IS = (
    "Spark is good at most queries and bad at a few. sundog reads the plan that Spark made of your query, takes over three "
    "kinds of query that it can do much faster, and leaves everything else to Spark. You change nothing but one line: "
    "[bold]sundog.enable(spark)[/]. Here are the three, each on plain Spark and on sundog, over the same files."
)
_HOW_MEASURED = (
    "Each engine first runs the query twice over one of the files to warm up, which does not count; then over all, up to "
    f"{_MOST_REPETITIONS} times within {_ENOUGH_SECONDS:.0f} seconds, of which the best counts. Times include bringing the answer "
    "to Python. sundog can work on the threads of this process (driver) or as tasks of the Spark cluster (executors); left "
    "alone (auto), it chooses."
)


@dataclass
class Attempt:
    """sundog's try at a query under one placement."""

    placement: str
    seconds: float
    run: Run
    difference: str | None

    @property
    def accelerated(self) -> bool:
        return self.run.accelerated


@dataclass
class Outcome:
    """One query on all engines."""

    query: DemoQuery
    spark_seconds: float
    answer_rows: int
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def differences(self) -> list[str]:
        return [f"{each.placement}: {each.difference}" for each in self.attempts if each.difference]

    @property
    def shown(self) -> Attempt:
        """The one whose figures are shown: what sundog chose for itself, if it ran."""
        return next((each for each in self.attempts if each.accelerated), self.attempts[0])

    def ratio(self, attempt: Attempt) -> float:
        return self.spark_seconds / max(attempt.seconds, 1e-9)


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

    Without a `session` it starts one, and stops it. With `as_json`, `console` gets JSON alone and people are told on
    standard error.
    """
    stage = _Stage(Console(stderr=True, highlight=False) if as_json else console)
    data = directory / "events"
    stage.title(rows)
    try:
        with stage.live(), _session_for_demo(session, stage) as spark:
            _make_data(spark, rows, data, stage)
            outcomes = []
            warm_ups = queries(rows, _WARM_UP_TABLE)
            for number, (query, warm_up) in enumerate(zip(queries(rows, _TABLE), warm_ups, strict=True), 2):
                stage.introduce(number, query)
                outcomes.append(_run_query(spark, query, warm_up, stage))
                stage.conclude(outcomes[-1])
    finally:
        shutil.rmtree(data, ignore_errors=True)
    _write(report, rows, outcomes)
    stage.table(outcomes)
    stage.farewell(outcomes, report)
    if as_json:
        console.file.write(json.dumps(_as_json(rows, outcomes, report), indent=2) + "\n")
    return exit_code(outcomes)


def exit_code(outcomes: list[Outcome]) -> int:
    """Equal answers, and at least one query that sundog took."""
    is_equal = not any(outcome.differences for outcome in outcomes)
    return 0 if is_equal and any(each.accelerated for outcome in outcomes for each in outcome.attempts) else 1


@contextmanager
def _session_for_demo(given: SparkSession | None, stage: _Stage) -> Iterator[SparkSession]:
    """A session of our own, or the given one with its settings put back afterwards."""
    if given is None:
        with stage.step("Starting Spark"):
            spark = sundog.session(
                "sundog demo",
                confs={"spark.sql.shuffle.partitions": 2 * usable_cores(), "spark.sql.session.timeZone": "UTC"},
            )
    else:
        spark = given
    before = {key: spark.conf.get(key, None) for key in (_PLACEMENT, _PROGRESS)}
    spark.conf.set(_PROGRESS, "false")  # the demo shows its own
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


def _make_data(spark: SparkSession, rows: int, data: Path, stage: _Stage) -> None:
    stage.heading(1, f"The data: {count_text(rows)} events of a web shop")
    start = perf_counter()
    with stage.step("A Spark job writes the events as Parquet") as sink, spark_progress(spark, sink, "tasks"):
        write_events(spark, rows, data)
    files = sorted(data.glob("*.parquet"))
    spark.read.parquet(str(data)).createOrReplaceTempView(_TABLE)
    spark.read.parquet(str(files[0])).createOrReplaceTempView(_WARM_UP_TABLE)
    size = sum(file.stat().st_size for file in files)
    columns = len(spark.table(_TABLE).columns)
    stage.say(
        f"{columns} columns in {FILES} Parquet files, {bytes_text(size)}, written by a Spark job in "
        f"{seconds_text(perf_counter() - start)}."
    )


def _run_query(spark: SparkSession, query: DemoQuery, warm_up: DemoQuery, stage: _Stage) -> Outcome:
    def ask() -> pa.Table:
        return spark.sql(query.sql).toArrow()

    def get_warm() -> None:
        for _ in range(2):  # the first starts Python workers and compiles; the second finds them all
            spark.sql(warm_up.sql).toArrow()

    sundog.disable(spark)
    with stage.step("plain Spark, warming up") as sink, spark_progress(spark, sink, "tasks"):
        get_warm()
    with stage.step("plain Spark"):
        best = _best_of(ask)
    outcome = Outcome(query, best.seconds, best.answer.num_rows)
    expected = in_order(best.answer, query.sorted_by)
    sundog.enable(spark)
    for placement in PLACEMENTS:
        spark.conf.set(_PLACEMENT, placement)
        with stage.step(f"sundog ({placement}), warming up"):
            get_warm()
        with stage.step(f"sundog ({placement})"):
            best = _best_of(ask, sundog.last_run)
        with stage.step("comparing the answers"):
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
    for _ in range(_MOST_REPETITIONS):
        start = perf_counter()
        answer = ask()
        seconds = perf_counter() - start
        spent += seconds
        if best is None or seconds < best.seconds:
            best = _Repetition(seconds, answer, run_of())
        if spent >= _ENOUGH_SECONDS:
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


# --- what people see -------------------------------------------------------------------------------------------------


class _Sink(ProgressSink):
    """Spark's tasks, on the line of the step that they belong to."""

    def __init__(self, progress: Progress, line: TaskID) -> None:
        self._progress = progress
        self._line = line

    def start(self, label: str, tasks: int) -> None:
        self._progress.update(self._line, total=tasks or None, completed=0)

    def advance(self, count: int = 1) -> None:
        self._progress.advance(self._line, count)

    def finish(self) -> None:
        self._progress.update(self._line, visible=False)


class _Stage:
    """Everything that the demo says, in the order in which it is said."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )

    @contextmanager
    def live(self) -> Iterator[None]:
        with self._progress:
            yield

    @contextmanager
    def step(self, label: str) -> Iterator[ProgressSink]:
        """A line that moves while the block runs, and is gone after it."""
        line = self._progress.add_task(label, total=None)
        try:
            yield _Sink(self._progress, line)
        finally:
            self._progress.remove_task(line)

    def say(self, text: str, style: str = "") -> None:
        self._console.print(Padding(text, (0, 0, 0, 2), expand=False), style=style)

    def heading(self, number: int, text: str) -> None:
        self._console.print()
        self._console.print(Rule(f"[bold]{number}. {escape(text)}[/]", align="left", style="dim"))

    def title(self, rows: int) -> None:
        self._console.print()
        self._console.print(f"[bold]sundog demo[/]: {count_text(rows)} rows, on {usable_cores()} cores")
        self._console.print()
        self.say(_WHAT_IT_IS)
        self._console.print()
        self.say(_HOW_MEASURED, "dim")

    def introduce(self, number: int, query: DemoQuery) -> None:
        self.heading(number, f"{query.name}: {query.question}")
        self._console.print(
            Padding(Syntax(query.sql, "sql", background_color="default", word_wrap=True), (0, 0, 1, 2), expand=False)
        )
        self.say(f"[bold]Plain Spark[/] {escape(query.spark_does)}.")
        self.say(f"[bold]sundog[/] {escape(query.sundog_does)}.")
        self._console.print()

    def conclude(self, outcome: Outcome) -> None:
        self.say(f"plain Spark         {seconds_text(outcome.spark_seconds):>9}")
        for each in outcome.attempts:
            label = f"sundog ({each.placement})"
            if not each.accelerated:
                self.say(f"{label:<19} [yellow]not taken:[/] {escape(each.run.fallback_reason or 'no reason given')}")
                continue
            where = f" on {each.run.placement}" if each.placement == "auto" and each.run.placement else ""
            ratio = ratio_text(outcome.ratio(each))
            self.say(f"{label:<19} {seconds_text(each.seconds):>9}  [bold]{ratio}[/] as fast{where}")
        self._console.print()
        if outcome.shown.accelerated:
            self.say(escape(summary(outcome.shown.run)))
        if outcome.differences:
            for text in outcome.differences:
                self.say(f"[bold red]The answers differ[/]: {escape(text)}")
        else:
            self.say(f"[green]The answers are equal[/] ({count_text(outcome.answer_rows)} rows).")

    def table(self, outcomes: list[Outcome]) -> None:
        """One column per query: it stays readable in a narrow terminal."""
        self._console.print()
        self._console.print(Rule("[bold]All of it[/]", align="left", style="dim"))
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        table.add_column("")
        for outcome in outcomes:
            table.add_column(outcome.query.name, justify="right", header_style="bold")
        for label, cells in table_rows(outcomes):
            table.add_row(label, *map(escape, cells))
        self._console.print(Padding(table, (0, 0, 0, 2), expand=False))

    def farewell(self, outcomes: list[Outcome], report: Path) -> None:
        self._console.print()
        if not any(each.accelerated for outcome in outcomes for each in outcome.attempts):
            self.say("[bold red]sundog took none of the queries.[/] The reasons stand above; `sundog doctor` may help.")
        self.say(f"The report with pictures: [bold]{escape(str(report))}[/]")
        self.say("In your own program: [bold]import sundog; sundog.enable(spark)[/]")


def table_rows(outcomes: list[Outcome]) -> list[tuple[str, list[str]]]:
    """The demo's table, line by line; a line that says nothing for any query is left out."""

    def by_metric(name: str) -> list[str]:
        return [_metric(outcome.shown, name) for outcome in outcomes]

    lines = [("plain Spark", [seconds_text(outcome.spark_seconds) for outcome in outcomes])]
    for index, placement in enumerate(PLACEMENTS):
        lines.append((f"sundog, {placement}", [_time(outcome.attempts[index]) for outcome in outcomes]))
    lines += [
        ("times as fast", [ratio_text(o.ratio(o.shown)) if o.shown.accelerated else "" for o in outcomes]),
        ("auto ran on", [o.attempts[0].run.placement or "Spark" for o in outcomes]),
        ("row groups read", [_row_groups(outcome.shown)[0] for outcome in outcomes]),
        ("row groups pruned", [_row_groups(outcome.shown)[1] for outcome in outcomes]),
        ("ranges", by_metric("ranges")),
        ("halo rows", by_metric("halo_rows")),
        ("groups", by_metric("groups")),
        ("answers equal", ["NO" if outcome.differences else "yes" for outcome in outcomes]),
    ]
    return [(label, cells) for label, cells in lines if any(cells)]


def _time(attempt: Attempt) -> str:
    if attempt.accelerated:
        return seconds_text(attempt.seconds)
    return f"not taken: {attempt.run.reasons[0].code.name}" if attempt.run.reasons else "not taken"


def _metric(attempt: Attempt, name: str) -> str:
    value = attempt.run.metrics.get(name)
    return "" if value is None else f"{value:,.0f}"


def _row_groups(attempt: Attempt) -> tuple[str, str]:
    if not attempt.run.metrics.get("row_groups_total"):
        return "", ""
    read, unread = row_groups(attempt.run.metrics)
    return f"{read:,}", f"{unread:,}"


def _write(report: Path, rows: int, outcomes: list[Outcome]) -> None:
    sections = []
    for outcome in outcomes:
        timings = [Timing("plain Spark", outcome.spark_seconds)]
        timings += [Timing(f"sundog, {each.placement}", each.seconds) for each in outcome.attempts if each.accelerated]
        query = outcome.query
        intro = f"Plain Spark {query.spark_does}. sundog {query.sundog_does}."
        title = f"{query.name.capitalize()}: {query.question}"
        sections.append(Section(outcome.shown.run, title, intro, query.sql, tuple(timings)))
    verdict = "differ" if any(outcome.differences for outcome in outcomes) else "are equal"
    intro = (
        f"Three queries over {count_text(rows)} events, each on plain Spark and on sundog. "
        f"The answers were compared and {verdict}."
    )
    write_report(report, sections, "sundog demo", intro)


def _as_json(rows: int, outcomes: list[Outcome], report: Path) -> dict[str, Any]:
    return {
        "rows": rows,
        "report": str(report),
        "ok": exit_code(outcomes) == 0,
        "queries": [
            {
                "name": outcome.query.name,
                "sql": outcome.query.sql,
                "answer_rows": outcome.answer_rows,
                "answers_equal": not outcome.differences,
                "spark_seconds": outcome.spark_seconds,
                "sundog": {
                    each.placement: {
                        "accelerated": each.accelerated,
                        "seconds": each.seconds,
                        "ratio": outcome.ratio(each),
                        "placement": each.run.placement,
                        "fallback_reasons": each.run.fallback_reasons,
                        "difference": each.difference,
                        "metrics": each.run.metrics,
                    }
                    for each in outcome.attempts
                },
            }
            for outcome in outcomes
        ],
    }
