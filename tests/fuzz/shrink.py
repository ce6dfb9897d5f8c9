"""The smallest case that still differs: fewer settings, files, rows, clauses, outputs and columns.

Every step proposes a simpler case and keeps it if the two engines still differ in the same way. A proposal need not be
a valid query: an analysis error is the same on both sides, and so no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic
from typing import TypeVar

from tests.fuzz.case import Case
from tests.fuzz.expressions import Expr
from tests.fuzz.folders import Layout, Part
from tests.fuzz.queries import Grouping, Join, Select, Union

StillDiffers = Callable[[Case], bool]
T = TypeVar("T")


def shrink(case: Case, still_differs: StillDiffers, seconds: float = 60.0) -> Case:
    """Greedy: takes one kind of thing away until nothing more of it can go, then the next; ends when none can go."""
    until = monotonic() + seconds

    def first_smaller(proposals: Iterator[Case]) -> Case | None:
        for simpler in proposals:
            if monotonic() >= until:
                return None
            if is_determined(simpler) and still_differs(simpler):
                return simpler
        return None

    before = None
    while case is not before and monotonic() < until:
        before = case
        for fewer in (_simpler_settings, _fewer_rows, _fewer_clauses, _fewer_columns):
            while (smaller := first_smaller(fewer(case))) is not None:
                case = smaller
    return case


def is_determined(case: Case) -> bool:
    """A LIMIT without an order that the comparison knows would differ by itself."""
    check = case.query.check
    return not (check.cut and check.order == "none")


def _fewer_clauses(case: Case) -> Iterator[Case]:
    for query in _simpler_queries(case.query):
        yield replace(case, query=query)


def _fewer_rows(case: Case) -> Iterator[Case]:
    count = case.data.rows.num_rows
    size = max(1, count // 2)
    while count:
        for start in range(0, count, size):
            keep = [row for row in range(count) if not start <= row < start + size]
            yield replace(case, data=case.data.take(keep))
        if size == 1 or count // size > 16:
            break
        size //= 2


PLAIN_PART = Part("arrow", 1.0, {"row_group_size": 100_000})


def _simpler_settings(case: Case) -> Iterator[Case]:
    if case.action != "collect":
        yield replace(case, action="collect")
    layout = case.layout
    plain = Layout((PLAIN_PART,), (), layout.with_schema)
    if layout != plain:
        yield replace(case, layout=plain)
        if layout.defaults is not None:
            yield replace(case, layout=replace(layout, defaults=None))
        if len(layout.parts) > 1:
            for part in layout.parts:
                yield replace(case, layout=replace(layout, parts=(part,)))
        for place, part in enumerate(layout.parts):
            if part.writer == "arrow" and part != PLAIN_PART:
                simpler = (*layout.parts[:place], replace(PLAIN_PART, share=part.share), *layout.parts[place + 1 :])
                if simpler != layout.parts:
                    yield replace(case, layout=replace(layout, parts=simpler))
                for option in part.options:
                    if option != "row_group_size":
                        less = replace(
                            part, options={key: value for key, value in part.options.items() if key != option}
                        )
                        parts = (*layout.parts[:place], less, *layout.parts[place + 1 :])
                        yield replace(case, layout=replace(layout, parts=parts))
    if case.spark_confs:
        yield replace(case, spark_confs={})
    if case.sundog_confs:
        yield replace(case, sundog_confs={})
    for key in case.spark_confs:
        yield replace(case, spark_confs={other: value for other, value in case.spark_confs.items() if other != key})
    for key in case.sundog_confs:
        yield replace(case, sundog_confs={other: value for other, value in case.sundog_confs.items() if other != key})


def _fewer_columns(case: Case) -> Iterator[Case]:
    for column in case.data.columns:
        kept = ("id", *case.layout.partition_by)
        if column.name not in kept and column.name not in case.query.sql and case.layout.defaults is None:
            yield replace(case, data=case.data.drop(column.name))


# --- queries ---------------------------------------------------------------------------------------------------------


def _simpler_queries(query: Select, top: bool = True) -> Iterator[Select]:
    if isinstance(query.source, Select) and top:
        yield query.source
    if query.where:
        yield replace(query, where=())
    if query.having:
        yield replace(query, having=())
    if query.order and (query.limit is not None or query.offset):
        yield replace(query, order=(), limit=None, offset=0, total=False)
    if query.offset:
        yield replace(query, offset=0)
    if query.grouping is not None and query.grouping.form:
        yield replace(query, grouping=Grouping(query.grouping.keys))
    for place in range(len(query.where)):
        yield replace(query, where=_without(query.where, place))
    for place in range(len(query.outputs)):
        if len(query.outputs) > 1:
            yield replace(query, outputs=_without(query.outputs, place))
    if query.grouping is not None and not query.grouping.form:
        for place, key in enumerate(query.grouping.keys):
            outputs = tuple(output for output in query.outputs if output.expr != key)
            if outputs:
                yield replace(query, grouping=Grouping(_without(query.grouping.keys, place)), outputs=outputs)
    if top:
        for place in range(len(query.order) - 1):
            yield replace(query, order=_without(query.order, place))
    yield from _simpler_sources(query)
    for place, output in enumerate(query.outputs):
        for expr in _simpler_expr(output.expr):
            yield replace(query, outputs=_with(query.outputs, place, replace(output, expr=expr)))
    for place, each in enumerate(query.where):
        for expr in _simpler_expr(each):
            yield replace(query, where=_with(query.where, place, expr))


def _simpler_sources(query: Select) -> Iterator[Select]:
    source = query.source
    if isinstance(source, Join):
        yield replace(query, source=source.left)
    if isinstance(source, Union):
        yield replace(query, source=source.left)
        yield replace(query, source=source.right)
    if isinstance(source, Select):
        yield replace(query, source=source.source)
        for simpler in _simpler_queries(source, top=False):
            yield replace(query, source=simpler)


def _simpler_expr(expr: Expr) -> Iterator[Expr]:
    """An argument of the same family in place of the whole; or the same within an argument."""
    for arg in expr.args:
        if arg.family == expr.family and " OVER " not in expr.form:
            yield replace(arg, inexact=expr.inexact)
    for place, arg in enumerate(expr.args):
        for simpler in _simpler_expr(arg):
            yield replace(expr, args=_with(expr.args, place, simpler))


def _without(items: tuple[T, ...], place: int) -> tuple[T, ...]:
    return (*items[:place], *items[place + 1 :])


def _with(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    return (*items[:place], item, *items[place + 1 :])
