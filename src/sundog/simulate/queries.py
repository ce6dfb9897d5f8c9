"""The queries that can be simulated: logical plans over a synthetic table, in the front end's form."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sundog.expr.calls import AggregateCall, Bound, BoundKind, Frame, NamedExpr, WindowCall
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.plan.logical import Aggregate, LogicalPlan, Scan, TopK, Window
from sundog.tables.table import Table

LONG = pa.int64()
TIME, USER, AMOUNT = Column("time#1", LONG), Column("user#2", LONG), Column("amount#3", pa.float64())
RANGE_REACH = 1000


def _scan(table: Table, *columns: Column) -> Scan:
    return Scan(table, tuple(column.name for column in columns))


def _everything(table: Table) -> Scan:
    return Scan(table, tuple(column.name for column in table.file_columns))


def topk(table: Table) -> LogicalPlan:
    return TopK(_everything(table), (SortKey(TIME, descending=True, nulls_first=False),), 10)


def scattered_topk(table: Table) -> LogicalPlan:
    return TopK(_everything(table), (SortKey(USER, descending=True, nulls_first=False),), 10)


def range_window(table: Table) -> LogicalPlan:
    frame = Frame("range", Bound(BoundKind.OFFSET, -RANGE_REACH), Bound(BoundKind.CURRENT_ROW))
    call = WindowCall("sum#9", "sum", (USER,), LONG, frame)
    return Window(_scan(table, TIME, USER), (call,), (), (SortKey(TIME, False, True),))


def row_number(table: Table) -> LogicalPlan:
    frame = Frame("rows", Bound(BoundKind.UNBOUNDED_PRECEDING), Bound(BoundKind.CURRENT_ROW))
    call = WindowCall("row_number#9", "row_number", (), pa.int32(), frame)
    return Window(_scan(table, USER, TIME), (call,), (), (SortKey(USER, False, True),))


def groups(table: Table) -> LogicalPlan:
    calls = (
        AggregateCall("count#8", "count", (USER,), LONG),
        AggregateCall("sum#9", "sum", (TIME,), LONG, ansi=False),
    )
    return Aggregate(_scan(table, USER, TIME), (NamedExpr("user#2", USER),), calls)


QUERIES: dict[str, Callable[[Table], LogicalPlan]] = {
    "topk": topk,
    "scattered-topk": scattered_topk,
    "range-window": range_window,
    "row-number": row_number,
    "groups": groups,
}
SQL = {
    "topk": "SELECT * FROM t ORDER BY time DESC LIMIT 10",
    "scattered-topk": "SELECT * FROM t ORDER BY user DESC LIMIT 10",
    "range-window": f"SELECT time, sum(user) OVER (ORDER BY time RANGE {RANGE_REACH} PRECEDING) FROM t",
    "row-number": "SELECT user, time, row_number() OVER (ORDER BY user) FROM t",
    "groups": "SELECT user, count(*), sum(time) FROM t GROUP BY user",
}
