"""What sundog takes of a query and what it did, as text. The same words for explain, `Run.plan` and golden tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sundog.metrics import METRICS, Category, OperatorCounts
from sundog.plan.explain import Line, outline, render_plan, steps_of
from sundog.plan.records import StageRecord
from sundog.plan.stages import StageGraph
from sundog.report.wording import bytes_text, plural, seconds_text
from sundog.support import Reason

NOTHING = "Nothing of this query: Spark runs it unchanged."


def explain_text(graphs: Sequence[StageGraph], reasons: Iterable[Reason], costs: bool = False) -> str:
    """What sundog would take, what stays on Spark and why; with `costs`, the numbers that the plan was made with."""
    plan = "\n\n".join(filter(None, map(render_plan, graphs)))
    sections = ["== Sundog ==", plan or NOTHING, *_processes(graphs), *_reasons(reasons)]
    return "\n".join([*sections, *(_costs(graphs) if costs else [])])


def analyzed_text(
    parts: Sequence[tuple[StageGraph, Sequence[StageRecord]]],
    reasons: Iterable[Reason],
    metrics: Mapping[str, float],
    placement: str | None,
    seconds: float,
    costs: bool = False,
) -> str:
    """The same after it ran: rows, bytes and time of each operator, every stage, every metric."""
    plan = "\n\n".join("\n".join(_analyzed_lines(*part)) for part in parts)
    where = f" on {placement}" if placement else ""
    shared = _processes([graph for graph, _ in parts])
    sections = ["== Sundog ==", plan or NOTHING, *shared, *_reasons(reasons), f"-- ran{where} in {seconds:.3f} s --"]
    stages = [line for part in parts for line in _stage_lines(*part)]
    sections += [*render_metrics(metrics), *(["-- stages --", *stages] if stages else [])]
    return "\n".join([*sections, *(_costs([graph for graph, _ in parts]) if costs else [])])


def _reasons(reasons: Iterable[Reason]) -> list[str]:
    lines = [f"* {reason}" for reason in reasons]
    return ["-- stays on Spark --", *lines] if lines else []


def _processes(graphs: Sequence[StageGraph]) -> list[str]:
    """Where executors have one process each: how many, and which stages run in them."""
    lines = []
    for graph in graphs:
        numbers = [str(stage.number + 1) for stage in graph.stages if stage.process_tasks]
        if numbers and graph.site is not None:
            threads = plural(graph.site.executor_slots, "thread")
            stages = f"{'stage' if len(numbers) == 1 else 'stages'} {', '.join(numbers)}"
            lines.append(f"-- one process of {threads} on each of {graph.site.executors} executors: {stages} --")
    return lines


def _costs(graphs: Sequence[StageGraph]) -> list[str]:
    sites = {graph.site.place: graph.site for graph in graphs if graph.site is not None}
    lines: list[str] = []
    for place, site in sites.items():
        lines += [f"-- costs on {place.value}, {plural(site.slots, 'slot')} --", *site.costs.lines()]
    return lines


def _analyzed_lines(graph: StageGraph, records: Sequence[StageRecord]) -> list[str]:
    return [f"{'  ' * line.depth}{line.text}{_counted(line, records)}" for line in outline(graph)]


def _counted(line: Line, records: Sequence[StageRecord]) -> str:
    """`  [5 million rows, 120 MiB, 0.41 s]`: what left the step, and the time of all tasks in it."""
    found = counts_of(line, records)
    took = "" if found is None else took_text(*found)
    return f"  [{took}]" if took else ""


def took_text(counts: OperatorCounts, below: float) -> str:
    """Rows and bytes that left a step, and its time without that of the steps `below`; empty if nothing left it."""
    if not counts.batches:
        return ""
    took = seconds_text(max(counts.seconds - below, 0.0))
    return f"{plural(counts.rows, 'row')}, {bytes_text(counts.bytes)}, {took}"


def counts_of(line: Line, records: Sequence[StageRecord]) -> tuple[OperatorCounts, float] | None:
    """What the step counted, and the seconds of the steps below it in its chain; None if it did not run."""
    by_number = {record.number: record for record in records}
    there = [by_number[stage.number] for stage in line.stages if stage.number in by_number]
    if line.operator is None or not there:
        return None
    total, below = OperatorCounts(), 0.0
    for record in there:
        if line.input is not None and line.operator == 0:
            total.merge(record.inputs.get(line.input, OperatorCounts()))
            continue
        total.merge(record.operators[line.operator])
        below += record.operators[line.operator - 1].seconds if line.operator else 0.0
    return total, below


def _stage_lines(graph: StageGraph, records: Sequence[StageRecord]) -> list[str]:
    """Every stage that ran, in the order of planning; those beside the plan above are marked with what they were
    for."""
    beside = {stage.number for stage in steps_of(graph)}
    shared = {stage.number: stage.process_tasks for stage in graph.stages if stage.process_tasks}
    lines = []
    for record in records:
        rows = record.operators[-2].rows if record.operators else 0
        text = f"{record.number + 1}. {record.purpose} on {record.place}: {plural(record.tasks, 'task')}"
        text += f" in {shared[record.number]} of Spark's" if record.number in shared else ""
        text += f", {plural(rows, 'row')}, {seconds_text(record.seconds)}"
        if record.number in graph.given_up:
            text += f", given up: {graph.given_up[record.number]}"
        elif record.number in beside:
            text += ", asked by the planner"
        lines.append(text)
    return lines


def render_metrics(
    metrics: Mapping[str, float], categories: Iterable[Category] = (Category.ROWS, Category.BYTES)
) -> list[str]:
    """One line per metric, in the order of their declaration; pruning as `60 row groups -> 3 scanned`."""
    wanted = set(categories)
    lines = []
    if metrics.get("row_groups_total"):
        lines.append(
            f"{metrics['row_groups_total']:.0f} row groups -> {metrics.get('row_groups_scanned', 0):.0f} scanned"
        )
    for name, metric in METRICS.items():
        if name in metrics and metric.category in wanted:
            lines.append(f"{name}={metrics[name]:.0f}")
    return lines
