"""All output of the demo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table

from sundog.demo.events import DemoQuery
from sundog.demo.outcomes import ENOUGH_SECONDS, MAX_REPETITIONS, Outcome, table_rows
from sundog.machine import usable_cores
from sundog.report.headline import summary
from sundog.report.wording import count_text, ratio_text, seconds_text
from sundog.runtime.progress import ProgressSink

_WHAT_IT_IS = (
    "Spark is good at most queries and bad at a few. sundog reads the plan that Spark made of your query, takes "
    "over three "
    "kinds of query that it can do much faster, and leaves everything else to Spark. You change nothing but one line: "
    "[bold]sundog.enable(spark)[/]. Here are the three, each on plain Spark and on sundog, over the same files."
)
_HOW_MEASURED = (
    "Each engine first runs the query twice over one of the files to warm up, which does not count; then over all, "
    "up to "
    f"{MAX_REPETITIONS} times within {ENOUGH_SECONDS:.0f} seconds, of which the best counts. Times include "
    f"bringing the answer "
    "to Python. sundog can work on the threads of this process (driver) or as tasks of the Spark cluster "
    "(executors); left "
    "alone (auto), it chooses."
)


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


class Screen:
    """All output of the demo, in order."""

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
