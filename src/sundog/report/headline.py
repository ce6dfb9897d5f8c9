"""A run in one sentence that needs no knowledge of sundog: what was done, and what was skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.operators.aggregate.final_operator import FinalAggregate
from sundog.operators.topk.row_group_search import BestOfScan
from sundog.operators.topk.topk import TopKOperator
from sundog.operators.window.window_operator import WindowOperator
from sundog.plan.explain import outline
from sundog.report.wording import count_text, plural, share_text

if TYPE_CHECKING:
    from sundog.run import Run


def verdict(run: Run) -> str:
    """Accelerated or not, and where, in a few words."""
    if not run.accelerated:
        return "Ran on plain Spark"
    where = {"driver": "on the driver", "executors": "on Spark's executors"}.get(run.placement or "", "")
    return f"Accelerated {where}".rstrip()


def summary(run: Run) -> str:
    """What happened, in plain English; for a run that was not accelerated, the reason."""
    if not run.accelerated:
        return _why_not(run)
    steps = [line.spec for graph in run.graphs for line in outline(graph)]
    sentences = []
    if any(isinstance(step, BestOfScan) for step in steps):
        sentences.append(_topk(run.metrics))
    if any(isinstance(operator, WindowOperator) for operator in steps):
        sentences.append(_window(run.metrics))
    if any(isinstance(operator, FinalAggregate) for operator in steps):
        sentences.append(_aggregate(run.metrics))
    if any(isinstance(operator, TopKOperator) for operator in steps) and not sentences:
        sentences.append("Kept only the best rows of each part, then the best of those.")
    return " ".join(sentences) or "sundog ran the parts of this query that are shown in the plan below."


def _why_not(run: Run) -> str:
    if not run.reasons:
        return "Spark ran this query unchanged."
    reason = run.reasons[0]
    more = len(run.reasons) - 1
    others = f" {plural(more, 'more reason')} below." if more else ""
    return f"Spark ran this query unchanged, because: {reason.sentence.rstrip('.')}.{others}"


def _topk(metrics: dict[str, float]) -> str:
    read, unread = row_groups(metrics)
    total = read + unread
    if not unread:
        return f"Read the sort columns of all {plural(total, 'row group')} and the other columns for the winners only."
    return (
        f"Read {count_text(read)} of {plural(total, 'row group')} ({share_text(read, total)}). Their minimum and "
        f"maximum "
        f"showed that the other {count_text(unread)} could not hold a row of the answer, so they were never opened."
    )


def _window(metrics: dict[str, float]) -> str:
    ranges = metrics.get("ranges", 0)
    if ranges <= 0:
        return "Computed the window functions column by column, in one pass over sorted rows."
    text = f"Cut the order key into {plural(ranges, 'range')} and computed them side by side"
    if ranges > 1:
        text += ", where plain Spark moves all rows into one task"
    halo, rows = metrics.get("halo_rows", 0), window_rows(metrics)
    if halo:
        share = f" ({share_text(halo, rows)} of the input)" if rows else ""
        text += f". At their edges the ranges borrowed {plural(halo, 'row')}{share} from their neighbours"
    return text + "."


def window_rows(metrics: dict[str, float]) -> float:
    """Rows that the window was computed over. More may have been decoded, for a sample of the key."""
    return metrics.get("window_rows") or metrics.get("output_rows") or metrics.get("input_rows", 0)


def row_groups(metrics: dict[str, float]) -> tuple[int, int]:
    """Row groups read and row groups skipped. One that is read twice, once for a sample, counts once."""
    total, scanned = int(metrics.get("row_groups_total", 0)), int(metrics.get("row_groups_scanned", 0))
    return min(scanned, total), max(total - scanned, 0)


def _aggregate(metrics: dict[str, float]) -> str:
    rows = metrics.get("partial_input_rows", 0) or metrics.get("input_rows", 0)
    text = f"Put {plural(rows, 'row')} into {plural(metrics.get('groups', 0), 'group')}, whole columns at a time"
    skipped = metrics.get("partial_aggregation_skipped", 0)
    if skipped:
        text += (
            f". For {plural(skipped, 'row')} the partial aggregation was left out, "
            "because it would not have made them fewer"
        )
    spilled = metrics.get("spill_count", 0)
    if spilled:
        text += f". {plural(spilled, 'part')} did not fit into memory and went through temporary files"
    return text + "."
