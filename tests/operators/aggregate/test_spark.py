"""Spark is the oracle: the same SQL on the same rows, through Catalyst's plan and the phases, against Spark's
answer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sundog.expr.calls import NamedExpr
from sundog.expr.errors import SparkQueryError
from sundog.front.catalyst_json import Node
from sundog.front.expressions.reading import Scope
from sundog.front.expressions.translate import translate
from sundog.front.jvm.plan import CatalystPlan
from sundog.front.relation.columns import internal_name
from sundog.front.shapes.aggregate import match_aggregate
from sundog.front.spark_errors import to_spark_exception
from sundog.operators.context import TaskContext
from sundog.operators.project import ProjectOperator
from sundog.plan.logical import Aggregate, Foreign, Project
from sundog.versions import spark_version
from tests.operators.aggregate.reference import python_values
from tests.operators.aggregate.runner import Setup, run_phases
from tests.oracle.tables import events

pytestmark = [pytest.mark.spark, pytest.mark.thin(3)]

TABLE = events(1500)
SETUPS = [
    Setup(),
    Setup(in_process=False, probe_rows=16, batch_rows=100, bucket_bytes=64, table_groups=5),
    Setup(in_process=False, shares=3, probe_rows=16, batch_rows=100, bucket_bytes=64, table_groups=5),
    Setup(partitions=5, memory=20_000, probe_rows=16, batch_rows=64, part_rows=100, bucket_bytes=256),
]

# Some groups are one row, and `corr` divides by how much they vary.
CORR_DIVIDES = (
    "SELECT grp, covar_pop(num, small), covar_samp(num, small), corr(num, small), corr(num, big) FROM events "
    "GROUP BY grp"
)
GROUPED = [
    "SELECT grp, regr_r2(num, small), regr_sxy(num, small), regr_sxx(num, d), regr_syy(num, small), "
    "regr_avgx(num, small), regr_count(num, small) FROM events GROUP BY grp",
    "SELECT grp, count(*), count(num), sum(num), sum(big), avg(num), avg(d), min(d), max(d) FROM events GROUP BY grp",
    "SELECT s, min(s), max(s), min(bin), max(bin), min(day), max(ts), min(ntz), max(flag), min(f), max(wide) "
    "FROM events GROUP BY s",
    "SELECT d, count(*), sum(f) FROM events GROUP BY d",
    "SELECT f, flag, tiny, count(*) FROM events GROUP BY f, flag, tiny",
    "SELECT dec, wide, count(*) FROM events GROUP BY dec, wide",
    "SELECT day, ts, ntz, bin, count(*) FROM events GROUP BY day, ts, ntz, bin",
    "SELECT s, bin, num % 7 AS m, count(*), sum(num) + 1 AS t FROM events GROUP BY s, bin, num % 7",
    "SELECT grp, sum(dec), avg(dec), sum(wide), avg(wide), max(dec), min(wide) FROM events GROUP BY grp",
    "SELECT grp, var_pop(num), var_samp(num), stddev(num), stddev_pop(num), var_pop(big), var_pop(d) "
    "FROM events GROUP BY grp",
    CORR_DIVIDES,
    "SELECT grp, bit_and(num), bit_or(tiny), bit_xor(big), bool_and(flag), bool_or(flag), count_if(flag) "
    "FROM events GROUP BY grp",
    "SELECT grp, sum(num) FILTER (WHERE num > 0), count(*) FILTER (WHERE s = 'a'), max(s) FILTER (WHERE flag) "
    "FROM events GROUP BY grp",
    "SELECT grp, sum(100 div small) FILTER (WHERE small <> 0) FROM events GROUP BY grp",
    "SELECT grp, count(DISTINCT s), count(DISTINCT s) + 1, sum(num), max(d) FROM events GROUP BY grp",
    "SELECT s, sum(DISTINCT small), avg(DISTINCT small), count(DISTINCT small), avg(num) FROM events GROUP BY s",
    "SELECT grp, count(DISTINCT d), count(*) FROM events GROUP BY grp",
    "SELECT grp, try_sum(abs(big) * 500000), try_sum(wide), try_avg(wide), try_avg(num) FROM events GROUP BY grp",
    "SELECT grp, max_by(seq, seq), min_by(id, seq), max_by(s, seq), min_by(wide, seq) FROM events GROUP BY grp",
    "SELECT DISTINCT s, flag FROM events",
    "SELECT count(*) FROM events GROUP BY 'x'",
]
GLOBAL = [
    "SELECT count(*), count(s), count(s, num), sum(num), avg(d), min(s), max(s), var_samp(num), corr(num, small) "
    "FROM events",
    "SELECT count(DISTINCT num), sum(big), avg(DISTINCT num) FROM events",
    "SELECT sum(dec), avg(dec), sum(wide), avg(wide), bit_xor(num), bool_and(flag) FROM events",
]
EMPTY = [
    "SELECT count(*), sum(num), avg(num), max(s), var_pop(d), first(s), count(DISTINCT s) FROM events WHERE id < 0",
    "SELECT grp, count(*) FROM events WHERE id < 0 GROUP BY grp",
]


@pytest.fixture(scope="module")
def session(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("events")
    pq.write_table(TABLE, folder / "part-0.parquet")
    spark.read.parquet(str(folder)).createOrReplaceTempView("events")
    ansi = spark.conf.get("spark.sql.ansi.enabled")
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", ansi)  # to unset it would turn it off on 3.5, for all later modules


def child_batches(node: Node, scope: Scope) -> tuple[list[pa.RecordBatch], Scope]:
    """The rows below an aggregate, under internal names: scans, projections, and one filter that keeps nothing."""
    if node.name == "LogicalRelation":
        names = {a["name"]: internal_name(a) for a in node["output"]}
        table = TABLE.rename_columns([names[name] for name in TABLE.column_names])
        columns = {field.name: field.type for field in table.schema}
        return table.to_batches(max_chunksize=400), Scope(columns, scope.zone)
    batches, below = child_batches(node.child, scope)
    if node.name == "Filter":
        return [batch.slice(0, 0) for batch in batches], below
    assert node.name == "Project"
    exprs = tuple(NamedExpr(internal_name(tree), translate(tree, below)) for tree in node["projectList"])
    projected = list(ProjectOperator(exprs).run(iter(batches), TaskContext()))
    return projected, Scope({named.name: named.expr.dtype for named in exprs}, scope.zone)


def run_sql(frame: Any, setup: Setup) -> pa.Table:
    root = CatalystPlan.of(frame.sparkSession._jvm, frame._jdf).root
    above = []
    while root.name == "Project":
        above.append(root["projectList"])
        root = root.child
    batches, scope = child_batches(root.child, Scope({}, "UTC"))
    plan = match_aggregate(root, Foreign(0, tuple(scope.columns.items())), scope)
    assert isinstance(plan, Project)
    assert isinstance(plan.child, Aggregate)
    half = len(batches) // 2
    table, _ = run_phases(plan.child.keys, plan.child.aggregates, [batches[:half], batches[half:]], setup)
    projections = [plan.exprs]
    for trees in reversed(above):
        below = Scope({named.name: named.expr.dtype for named in projections[-1]}, "UTC")
        projections.append(tuple(NamedExpr(internal_name(tree), translate(tree, below)) for tree in trees))
    for exprs in projections:
        operator = ProjectOperator(exprs)
        table = pa.Table.from_batches(operator.run(iter(table.to_batches()), TaskContext()), operator.schema)
    return table


def comparable(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [python_values(column.combine_chunks()) for column in table.columns]
    return sorted(zip(*columns, strict=True), key=lambda row: [sort_text(value) for value in row])


def sort_text(value: Any) -> str:
    """Rows in an order that the last bits of a float cannot change."""
    return f"{value:.6e}" if isinstance(value, float) else str(value)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right or math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-9)
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return left.as_tuple() == right.as_tuple()
    return bool(left == right and type(left) is type(right))


@pytest.mark.parametrize("ansi", [True, False])
@pytest.mark.parametrize("sql", [*GROUPED, *GLOBAL, *EMPTY])
def test_same_rows_and_types_as_spark(session: Any, sql: str, ansi: bool) -> None:
    session.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    frame = session.sql(sql)
    if sql == CORR_DIVIDES and ansi and spark_version().corr_may_raise:
        # declined there: test_corr_of_what_does_not_vary in tests/versions
        with pytest.raises(Exception) as spark_error:  # noqa: PT011
            frame.toArrow()
        assert spark_error.value.getCondition() == "DIVIDE_BY_ZERO"
        return
    expected = frame.toArrow()
    rows = comparable(expected)
    for setup in SETUPS:
        got = run_sql(frame, setup)
        for ours, theirs in zip(got.schema, expected.schema, strict=True):
            assert ours.type == theirs.type or (pa.types.is_timestamp(ours.type) and pa.types.is_timestamp(theirs.type))
        found = comparable(got)
        assert len(found) == len(rows)
        for mine, wanted in zip(found, rows, strict=True):
            assert all(map(same, mine, wanted)), f"{mine} against Spark's {wanted}"


ERRORS = [
    "SELECT sum(big * 9000000) FROM events",
    "SELECT grp, sum(abs(big) * 9000000) FROM events GROUP BY grp",
    "SELECT grp, sum(cast('9e37' AS decimal(38,0))) FROM events GROUP BY grp",
    "SELECT grp, avg(cast('9e37' AS decimal(38,0))) FROM events GROUP BY grp",
    "SELECT id, avg(cast('9e27' AS decimal(38,10))) FROM events GROUP BY id",
    "SELECT grp, sum(100 div small) FROM events GROUP BY grp",
]


@pytest.mark.parametrize("sql", ERRORS)
def test_same_errors_as_spark(session: Any, sql: str) -> None:
    session.conf.set("spark.sql.ansi.enabled", "true")
    frame = session.sql(sql)
    with pytest.raises(Exception) as spark_error:  # noqa: PT011
        frame.toArrow()
    with pytest.raises(SparkQueryError) as ours:
        run_sql(frame, Setup())
    raised = to_spark_exception(ours.value)
    assert raised.getCondition() == spark_error.value.getCondition()
    assert raised.getMessageParameters() == dict(spark_error.value.getMessageParameters())
