"""Expressions against Spark itself: random trees over random data, value by value and error by error.

Each example writes a batch to Parquet, lets Spark compute a projection or a filter, and computes the same from
Catalyst's optimised plan with `translate` and `evaluate`. Zones and ANSI on and off are part of the example.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.errors
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sundog.expr.errors import SparkQueryError
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Expr
from sundog.expr.printing import render
from sundog.expr.raising import can_raise
from sundog.front.catalyst_expr import Scope, translate
from sundog.front.catalyst_json import Node, parse_plan
from sundog.front.jvm_fields import complete, is_incomplete
from sundog.front.spark_errors import to_spark_exception
from sundog.front.time_zones import java_zone
from sundog.types import TIMESTAMP, arrow_type
from tests.oracle.batches import record_batches
from tests.oracle.sql_expressions import COLUMN_TYPES, SCHEMA, expression

pytestmark = pytest.mark.spark
FUZZ = settings(
    max_examples=6,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
PER_QUERY = 25
_numbers = itertools.count()


@contextmanager
def confs(spark: Any, **values: str) -> Iterator[None]:
    names = {"ansi": "spark.sql.ansi.enabled", "zone": "spark.sql.session.timeZone"}
    old = {names[key]: spark.conf.get(names[key]) for key in values}
    for key, value in values.items():
        spark.conf.set(names[key], value)
    try:
        yield
    finally:
        for key, value in old.items():
            spark.conf.set(key, value)


def table(spark: Any, batch: pa.RecordBatch, folder: Path) -> Any:
    path = folder / f"{next(_numbers)}.parquet"
    pq.write_table(pa.Table.from_batches([batch]), path)
    return spark.read.parquet(str(path))


def optimized(df: Any) -> tuple[Node, Any]:
    jplan = df._jdf.queryExecution().optimizedPlan()
    return parse_plan(jplan.toJSON()), jplan


def completed(tree: Node, jtree: Any) -> Node:
    for node in tree.walk():
        if is_incomplete(node):
            jexpr = jtree
            for index in node.path:
                jexpr = jexpr.children().apply(index)
            complete(node, jexpr)
    return tree


def scope_over(spark: Any, relation: Node) -> Scope:
    columns = {f"{a['name']}#{a['exprId']['id']}": arrow_type(a["dataType"]) for a in relation["output"]}
    zone = spark.conf.get("spark.sql.session.timeZone")
    return Scope(columns, zone, {zone: java_zone(spark._jvm, zone)})


def internal(batch: pa.RecordBatch, relation: Node) -> pa.RecordBatch:
    named = {f"{a['name']}#{a['exprId']['id']}": batch.column(a["name"]) for a in relation["output"]}
    return pa.RecordBatch.from_pydict(named)


def projection(spark: Any, df: Any, batch: pa.RecordBatch) -> tuple[list[Expr], pa.RecordBatch]:
    """What sundog makes of `df`, a projection of a Parquet file."""
    plan, jplan = optimized(df)
    relation = plan if plan.name == "LogicalRelation" else plan.child
    assert relation.name == "LogicalRelation"
    scope = scope_over(spark, relation)
    if plan is relation:
        return [scope.column(attribute) for attribute in relation["output"]], internal(batch, relation)
    trees = [completed(tree, jplan.projectList().apply(i)) for i, tree in enumerate(plan["projectList"])]
    return [translate(tree, scope) for tree in trees], internal(batch, relation)


def assert_same(ours: pa.Array, sparks: pa.ChunkedArray, what: str) -> None:
    theirs = sparks.combine_chunks()
    if pa.types.is_timestamp(theirs.type) and theirs.type.tz is not None:
        theirs = theirs.cast(TIMESTAMP)
    assert ours.type == theirs.type, what
    assert len(ours) == len(theirs), what
    ours.validate(full=pa.types.is_string(ours.type))
    assert ours.is_valid().equals(theirs.is_valid()), f"{what}: {ours.to_pylist()} != {theirs.to_pylist()}"
    if pa.types.is_floating(ours.type):
        one, other = (a.fill_null(0).to_numpy(zero_copy_only=False) for a in (ours, theirs))
        same = ((one == other) & (np.signbit(one) == np.signbit(other))) | (np.isnan(one) & np.isnan(other))
        assert same.all(), f"{what}: {one[~same]} != {other[~same]}"
    else:
        assert ours.equals(theirs), f"{what}: {ours} != {theirs}"


def check_projection(spark: Any, df: Any, batch: pa.RecordBatch, sqls: list[str]) -> None:
    projected = df.selectExpr(*(f"{sql} as x{i}" for i, sql in enumerate(sqls)))
    exprs, rows = projection(spark, projected, batch)
    try:
        expected = projected.toArrow()
    except Exception as error:
        if len(sqls) > 1:
            for sql in sqls:
                check_projection(spark, df, batch, [sql])
            return
        check_same_error(exprs[0], rows, error, sqls[0])
        return
    for number, (expr, sql) in enumerate(zip(exprs, sqls, strict=True)):
        try:
            ours = evaluate(expr, rows)
        except SparkQueryError as error:
            raise AssertionError(f"{sql} ~ {render(expr)} raised {error}, Spark did not") from error
        assert_same(ours, expected.column(number), f"{sql} ~ {render(expr)}")


def check_same_error(expr: Expr, rows: pa.RecordBatch, sparks: Exception, sql: str) -> None:
    with pytest.raises(SparkQueryError) as raised:
        evaluate(expr, rows)
    assert can_raise(expr), sql
    if raised.value.condition == "":  # an exception of Java's that Spark does not dress up
        assert "long overflow" in str(sparks), sql
        return
    ours = to_spark_exception(raised.value)
    assert isinstance(ours, getattr(pyspark.errors, type(sparks).__name__)), sql
    if ours.getCondition() != sparks.getCondition():  # another row or operand came first: both errors are there
        assert {ours.getCondition(), sparks.getCondition()} <= KNOWN_CONDITIONS, f"{sql}: {ours} != {sparks}"


KNOWN_CONDITIONS = {
    "ARITHMETIC_OVERFLOW",
    "BINARY_ARITHMETIC_OVERFLOW",
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
    "REMAINDER_BY_ZERO",
}
ZONES = ["UTC", "+05:30", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"]


@pytest.mark.parametrize("ansi", ["false", "true"])
@FUZZ
@given(batch=record_batches(SCHEMA, min_size=1, max_size=30), seed=st.integers(0, 2**32))
def test_projections(spark: Any, tmp_path_factory: Any, ansi: str, batch: pa.RecordBatch, seed: int) -> None:
    random = Random(seed)
    zone = random.choice(ZONES)
    with confs(spark, ansi=ansi, zone=zone):
        df = table(spark, batch, tmp_path_factory.mktemp("data"))
        depth = 3 if ansi == "false" else 1
        sqls = [expression(random, random.choice(list(COLUMN_TYPES)), depth) for _ in range(PER_QUERY)]
        check_projection(spark, df, batch, sqls)
