"""The text of explain: what sundog takes of a query and what it did. Also for `Run.plan` and golden tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sundog.metrics import METRICS, Category, Level, OperatorCounts
from sundog.plan.explain import Counter, Line, outline, render_plan, steps_of
from sundog.plan.records import StageRecord
from sundog.plan.stages import StageGraph
from sundog.report.wording import bytes_text, plural, seconds_text
from sundog.support import Reason

NOTHING = "Nothing of this query: Spark runs it unchanged."


def explain_text(graphs: Sequence[StageGraph], reasons: Iterable[Reason], costs: bool = False) -> str:
    """What sundog would take, what stays on Spark and why; with `costs`, the numbers used by the planner."""
    plan = "\n\n".join(filter(None, map(render_plan, graphs)))
    sections = ["== Sundog ==", plan or NOTHING, *process_lines(graphs), *_reasons(reasons)]
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
    shared = process_lines([graph for graph, _ in parts])
    sections = ["== Sundog ==", plan or NOTHING, *shared, *_reasons(reasons), f"-- ran{where} in {seconds:.3f} s --"]
    stages = [line for part in parts for line in _stage_lines(*part)]
    sections += [*render_metrics(metrics), *(["-- stages --", *stages] if stages else [])]
    return "\n".join([*sections, *(_costs([graph for graph, _ in parts]) if costs else [])])


def _reasons(reasons: Iterable[Reason]) -> list[str]:
    lines = [f"* {reason}" for reason in reasons]
    return ["-- stays on Spark --", *lines] if lines else []


def process_lines(graphs: Sequence[StageGraph]) -> list[str]:
    """Processes of executors that run several tasks at once: how many, and which stages run in them."""
    lines = []
    for graph in graphs:
        numbers = [str(stage.number + 1) for stage in graph.stages if stage.process_tasks]
        if numbers and graph.site is not None:
            processes = plural(graph.site.processes, "process", "processes")
            threads = plural(graph.site.process_slots, "thread")
            stages = f"{'stage' if len(numbers) == 1 else 'stages'} {', '.join(numbers)}"
            lines.append(f"-- {processes} of {threads} on executors: {stages} --")
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
    """`  [5 million rows, 120 MiB, 0.41 s; row_groups_total=60]`: what left the step, the time of all tasks in it, and
    what it counted."""
    found = counts_of(line, records)
    if found is None:
        return ""
    metrics = ", ".join(f"{name}={value:.0f}" for name, value in shown_metrics(found[0]).items())
    text = "; ".join(filter(None, (took_text(*found), metrics)))
    return f"  [{text}]" if text else ""


def shown_metrics(counts: OperatorCounts) -> dict[str, float]:
    """What a step counted, as explain and the report show it, in the order of the declaration: nothing that is 0."""
    values = counts.metrics.as_dict()
    shown = (name for name, metric in METRICS.items() if metric.level is Level.SUMMARY)
    return {name: values[name] for name in shown if values.get(name)}


def took_text(counts: OperatorCounts, below: float) -> str:
    """Rows and bytes that left a step, and its time without that of the steps `below`; empty if nothing left it."""
    if not counts.batches:
        return ""
    took = seconds_text(max(counts.seconds - below, 0.0))
    return f"{plural(counts.rows, 'row')}, {bytes_text(counts.bytes)}, {took}"


def counts_of(line: Line, records: Sequence[StageRecord]) -> tuple[OperatorCounts, float] | None:
    """What the step counted and planning counted of it, and the seconds of the steps below it; None if it did not run.

    Rows are its output rows, not intermediate ones: of a top-k the k winners, not the candidates of each task.
    """
    by_number = {record.number: record for record in records}
    own, before = (
        [_at(each, by_number[each.stage.number]) for each in counters if each.stage.number in by_number]
        for counters in (line.counters, line.before)
    )
    if not own and not before:
        return None
    total, below = OperatorCounts(), 0.0
    for counts, seconds_below in own:
        total.merge(counts)
        below += seconds_below
    has_rows = total.batches > 0
    for counts, seconds_below in before:
        if not has_rows:
            total.rows, total.bytes = total.rows + counts.rows, total.bytes + counts.bytes
            total.batches += counts.batches
        total.seconds += counts.seconds
        total.metrics.merge(counts.metrics)
        below += seconds_below
    total.metrics.merge(line.spec.planned_metrics)
    return total, below


def _at(counter: Counter, record: StageRecord) -> tuple[OperatorCounts, float]:
    """The counts of a step, and the seconds of the step below."""
    if counter.place:
        return record.operators[counter.place], record.operators[counter.place - 1].seconds
    first = record.operators[0] if counter.input is None else record.inputs.get(counter.input, OperatorCounts())
    steps = [first, *first.inside, OperatorCounts(), OperatorCounts()]
    counts = steps[min(counter.step, len(steps) - 2)]
    return counts, steps[min(counter.step, len(steps) - 2) + 1].seconds


def _stage_lines(graph: StageGraph, records: Sequence[StageRecord]) -> list[str]:
    """Every stage that ran, in the order of planning; those beside the plan above are marked with what they were
    for."""
    beside = {stage.number for stage in steps_of(graph)}
    shared = {stage.number: stage.process_tasks for stage in graph.stages if stage.process_tasks}
    lines = []
    for record in records:
        out = record.operators[-1] if record.operators else OperatorCounts()
        text = f"{record.number + 1}. {record.purpose} on {record.place}: {plural(record.tasks, 'task')}"
        text += f" in {shared[record.number]} of Spark's" if record.number in shared else ""
        text += f", {plural(out.rows, 'row')}, {bytes_text(out.bytes)}, {seconds_text(record.seconds)}"
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
