"""A logical plan as text for golden files: the translation of Catalyst's plan, after the rules."""

from __future__ import annotations

from collections.abc import Iterator

from sundog.expr.printing import call_text, named_text, render, render_order, window_text
from sundog.plan.logical import (
    Aggregate,
    Expand,
    Filter,
    Foreign,
    Join,
    JoinKey,
    Limit,
    LocalRows,
    LogicalPlan,
    Project,
    Scan,
    Sort,
    TopK,
    Union,
    Window,
)


def tree_text(plan: LogicalPlan) -> str:
    """Root first, children indented."""
    return "\n".join(_lines(plan, 0))


def _lines(plan: LogicalPlan, depth: int) -> Iterator[str]:
    yield "  " * depth + _line(plan)
    for child in plan.children:
        yield from _lines(child, depth + 1)


def _line(plan: LogicalPlan) -> str:
    match plan:
        case Scan():
            where = "" if plan.predicate is None else f", predicate={render(plan.predicate)}"
            return f"Scan: {plan.table.label}, columns=[{', '.join(plan.columns)}]{where}"
        case Foreign():
            return f"Foreign: {plan.label}, columns=[{', '.join(plan.schema.names)}]"
        case LocalRows():
            return f"LocalRows: {plan.batch.num_rows} rows, columns=[{', '.join(plan.schema.names)}]"
        case Filter():
            return f"Filter: {render(plan.predicate)}"
        case Project():
            return f"Project: [{', '.join(map(named_text, plan.exprs))}]"
        case Expand():
            lists = ", ".join(f"[{', '.join(map(render, exprs))}]" for exprs in plan.projections)
            return f"Expand: [{lists}] AS [{', '.join(plan.names)}]"
        case Union():
            return f"Union: [{', '.join(plan.schema.names)}]"
        case Join():
            return f"Join: {', '.join(_join_parts(plan))}"
        case TopK():
            checks = f", must_see=[{', '.join(map(render, plan.checks))}]" if plan.checks else ""
            return f"TopK: limit={plan.limit}, offset={plan.offset}, order=[{render_order(plan.order)}]{checks}"
        case Sort():
            return f"Sort: [{render_order(plan.order)}]"
        case Limit():
            return f"Limit: limit={plan.limit}, offset={plan.offset}"
        case Aggregate():
            keys, calls = ", ".join(map(named_text, plan.keys)), ", ".join(map(call_text, plan.aggregates))
            hidden = f", hidden=[{', '.join(sorted(plan.hidden))}]" if plan.hidden else ""
            return f"Aggregate: keys=[{keys}], aggregates=[{calls}]{hidden}"
        case Window():
            calls = ", ".join(f"{window_text(call)} AS {call.name}" for call in plan.calls)
            keys = ", ".join(map(render, plan.partition_by))
            return f"Window: [{calls}], partition=[{keys}], order=[{render_order(plan.order_by)}]"
        case _:
            raise TypeError(type(plan).__name__)


def _join_parts(plan: Join) -> Iterator[str]:
    yield plan.kind.value
    yield f"keys=[{', '.join(map(_key_text, plan.keys))}]"
    if plan.condition is not None:
        yield f"condition={render(plan.condition)}"
    if plan.exists is not None:
        yield f"exists={plan.exists}"
    if plan.hidden:
        yield f"hidden=[{', '.join(sorted(plan.hidden))}]"


def _key_text(key: JoinKey) -> str:
    return f"{render(key.left)} {'<=>' if key.null_safe else '='} {render(key.right)}"
