"""A plan as text. The same words for explain, for `Run.plan` and for golden tests: nothing unstable is printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sundog.metrics import METRICS, Category
from sundog.plan.physical import PhysicalPlan
from sundog.support import Reason


def render_plan(plan: PhysicalPlan) -> str:
    """The physical plan, root first, children indented."""
    lines: list[str] = []
    depth = 0
    node: PhysicalPlan | None = plan
    while node is not None:
        for line in node.lines():
            lines.append("  " * depth + line)
            depth += 1
        node = next(iter(node.children), None)
    return "\n".join(lines)


def explain_text(
    plan: str,
    reasons: Iterable[Reason],
    metrics: Mapping[str, float] | None = None,
    placement: str | None = None,
    seconds: float | None = None,
) -> str:
    """What sundog takes, what stays on Spark and why; with metrics, what happened."""
    sections = ["== Sundog ==", plan or "Nothing of this query: Spark runs it unchanged."]
    reasons = list(reasons)
    if reasons:
        sections += ["-- stays on Spark --", *(f"* {reason}" for reason in reasons)]
    if metrics is not None:
        where = f" on {placement}" if placement else ""
        took = f" in {seconds:.3f} s" if seconds is not None else ""
        sections += [f"-- ran{where}{took} --", *render_metrics(metrics)]
    return "\n".join(sections)


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
