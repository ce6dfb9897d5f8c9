"""A run as one self-contained HTML file: no network, no fonts or scripts from elsewhere.

`Run.to_html(path)` writes one run, the demo writes several into one page, and a notebook shows a run by `run_fragment`.
All three use the same templates. Everything that comes from a query (column names, paths, values, error texts) passes
through autoescaping, and the page's content security policy allows only the one script that is ours, by its hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from sundog.metrics import METRICS
from sundog.plan.explain import outline
from sundog.plan.records import StageRecord
from sundog.plan.stages import StageGraph
from sundog.report.charts.bars import partition_columns, phases, timed_bars
from sundog.report.charts.parts import Bar, CaptionedBar, RangeMap, RowGroupMap
from sundog.report.charts.ranges import range_map
from sundog.report.charts.row_groups import row_group_map
from sundog.report.details import AggregateDetails, ScanDetails, ShapeDetails, TopKDetails, WindowDetails
from sundog.report.explain import counts_of, shown_metrics, took_text
from sundog.report.headline import row_groups, summary, verdict, window_rows
from sundog.report.pictures import shapes_of
from sundog.report.wording import bytes_text, metric_text, plural, ratio_text, seconds_text, share_text

if TYPE_CHECKING:
    from jinja2 import Environment

    from sundog.run import Run

_TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class Timing:
    """The time of one engine for a query, for a comparison. Others are compared with the first of a list."""

    engine: str
    seconds: float


@dataclass(frozen=True)
class Section:
    """One run on a page, with its author's remarks."""

    run: Run
    title: str = ""
    intro: str = ""
    query: str = ""
    timings: tuple[Timing, ...] = ()


def write_report(
    path: str | PathLike[str], sections: Sequence[Section], title: str = "sundog", intro: str = ""
) -> None:
    """Write one page about one or several runs."""
    Path(path).write_text(render_report(sections, title, intro), encoding="utf-8")


def render_report(sections: Sequence[Section], title: str = "sundog", intro: str = "") -> str:
    """The page as text."""
    script = _source("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            intro=intro,
            views=[run_view(section, index) for index, section in enumerate(sections)],
            script=script,
            script_hash=f"sha256-{digest}",
        )
    )


def run_fragment(run: Run) -> str:
    """The run for a notebook's cell: the same pictures, without a script, under their own CSS class."""
    return _environment().get_template("fragment.html.j2").render(view=run_view(Section(run), 0))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # imported only to write a report

    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _source(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8").strip()


# --- objects for the templates ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tile:
    """A figure with a caption."""

    caption: str
    value: str
    remark: str = ""


@dataclass(frozen=True)
class PlanLine:
    """One step of the plan: the metrics that its operator counted, and its rows, bytes and time."""

    depth: int
    name: str
    rest: str
    counted: tuple[tuple[str, str], ...]
    took: str = ""


@dataclass(frozen=True)
class Picture:
    """The details of one shape. `kind` is topk, window, aggregate or scan; the fields of other kinds are empty."""

    kind: str
    details: ShapeDetails
    row_groups: RowGroupMap | None = None
    ranges: RangeMap | None = None
    phases: tuple[CaptionedBar, ...] = ()
    partitions: tuple[Bar, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunView:
    anchor: str
    title: str
    intro: str
    query: str
    accelerated: bool
    verdict: str
    summary: str
    tiles: tuple[Tile, ...]
    timings: tuple[CaptionedBar, ...]
    reasons: tuple[tuple[str, str, str, str], ...]
    plans: tuple[tuple[PlanLine, ...], ...]
    stages: tuple[CaptionedBar, ...]
    metrics: tuple[tuple[str, str, str], ...]
    pictures: tuple[Picture, ...]


def run_view(section: Section, index: int) -> RunView:
    run = section.run
    return RunView(
        anchor=f"run-{index + 1}",
        title=section.title or (f"{run.action}()" if run.action else "One run"),
        intro=section.intro,
        query=section.query.strip(),
        accelerated=run.accelerated,
        verdict=verdict(run),
        summary=summary(run),
        tiles=tuple(_tiles(run)),
        timings=_timings(section.timings),
        reasons=tuple((each.code.name, each.sentence, each.node, each.code.value) for each in run.reasons),
        plans=tuple(filter(None, (plan_lines(graph, records) for graph, records in run.parts))),
        stages=_stages(run),
        metrics=tuple(_metrics(run)),
        pictures=tuple(_picture(each) for each in _details(run)),
    )


def _tiles(run: Run) -> Iterator[Tile]:
    metrics = run.metrics
    yield Tile("Total time", seconds_text(run.seconds))
    yield Tile("of it, planning", seconds_text(run.planning_seconds))
    read, unread = row_groups(metrics)
    if read + unread:
        yield Tile("Row groups read", f"{read:,} of {read + unread:,}", share_text(read, read + unread))
    if rows := metrics.get("input_rows"):
        yield Tile("Rows decoded", f"{rows:,.0f}")
    if size := metrics.get("bytes_scanned"):
        yield Tile("Read from files", bytes_text(size))
    if ranges := metrics.get("ranges"):
        yield Tile("Ranges", f"{ranges:,.0f}")
    if (halo := metrics.get("halo_rows")) is not None:
        yield Tile("Halo rows", f"{halo:,.0f}", share_text(halo, window_rows(metrics)))
    if groups := metrics.get("groups"):
        yield Tile("Groups", f"{groups:,.0f}")
    if (spilled := metrics.get("spilled_bytes")) is not None and spilled > 0:
        yield Tile("Spilled", bytes_text(spilled), plural(metrics.get("spill_count", 0), "file"))


def _timings(timings: Sequence[Timing]) -> tuple[CaptionedBar, ...]:
    """Each engine's bar; the remark says how many times faster than the first it was."""
    if not timings:
        return ()
    yardstick = timings[0].seconds
    entries = [
        (
            each.engine,
            each.seconds,
            "engine" if number else "yardstick",
            f"{ratio_text(yardstick / each.seconds)} as fast" if number and each.seconds > 0 else "",
        )
        for number, each in enumerate(timings)
    ]
    return timed_bars(entries)


def _stages(run: Run) -> tuple[CaptionedBar, ...]:
    """Planning, each stage, and the rest of the total: handing rows over, and Spark's own work."""
    entries = [("Planning", run.planning_seconds, "planning", "")]
    records = [record for part in run.stages for record in part]
    entries += [
        (f"{number}. {record.purpose}", record.seconds, "stage", plural(record.tasks, "task"))
        for number, record in enumerate(records, 1)
    ]
    rest = run.seconds - sum(seconds for _, seconds, _, _ in entries)
    if rest > 0.0005:
        entries.append(("The rest", rest, "rest", "handing rows over" if records else "Spark itself"))
    return timed_bars(entries)


def _metrics(run: Run) -> Iterator[tuple[str, str, str]]:
    """Metrics in the order of their declaration; unknown ones, as of a newer sundog, at the end."""
    ordered = [
        *(name for name in METRICS if name in run.metrics),
        *(name for name in run.metrics if name not in METRICS),
    ]
    for name in ordered:
        doc = METRICS[name].doc if name in METRICS else ""
        yield name, metric_text(name, run.metrics[name]), doc


def plan_lines(graph: StageGraph, records: Sequence[StageRecord]) -> tuple[PlanLine, ...]:
    """The steps of a plan, each with what was counted of it."""
    found = []
    for line in outline(graph):
        counts = counts_of(line, records)
        values = {} if counts is None else shown_metrics(counts[0])
        shown = [(name, metric_text(name, value)) for name, value in values.items()]
        found.append(
            PlanLine(line.depth, line.name, line.details, tuple(shown), "" if counts is None else took_text(*counts))
        )
    return tuple(found)


def _details(run: Run) -> list[ShapeDetails]:
    return [shape for graph, records in run.parts for shape in shapes_of(graph, records)]


def _picture(details: ShapeDetails) -> Picture:
    match details:
        case TopKDetails():
            return Picture("topk", details, row_groups=row_group_map(details))
        case ScanDetails():
            return Picture("scan", details, row_groups=row_group_map(details), remarks=tuple(_scan_remarks(details)))
        case WindowDetails():
            return Picture("window", details, ranges=range_map(details))
        case AggregateDetails():
            return Picture(
                "aggregate",
                details,
                phases=phases(details),
                partitions=partition_columns(details),
                remarks=tuple(_aggregate_remarks(details)),
            )


def _scan_remarks(details: ScanDetails) -> Iterator[str]:
    """What the keys ruled out in the row groups that were read."""
    inside = []
    if details.pages:
        inside.append(plural(details.pages, "page"))
    if details.rows:
        inside.append(plural(details.rows, "row"))
    if inside:
        both = " and ".join(inside)
        yield f"In the row groups that were read, the same keys ruled out {both} before other columns were decoded."


def _aggregate_remarks(details: AggregateDetails) -> Iterator[str]:
    if details.partial_skipped:
        share = share_text(details.partial_skipped, details.input_rows)
        yield (
            f"{plural(details.partial_skipped, 'row')} ({share}) skipped the partial aggregation: a sample had "
            "shown that grouping them early would not make them fewer."
        )
    if details.spill_count:
        files = plural(details.spill_count, "temporary file")
        yield f"Memory was short: {files} with {bytes_text(details.spilled_bytes)} were written and merged back."
    else:
        yield "Everything fitted into memory: nothing was written to temporary files."
    if details.early_emits:
        times = plural(details.early_emits, "time")
        yield f"{times}, a partial aggregation passed its groups on early to stay within its memory."
