"""Expressions against Spark itself: random trees over random data, value by value and error by error.

Each example writes a batch to Parquet, lets Spark compute a projection or a filter, and computes the same from
Catalyst's optimised plan with `translate` and `evaluate`. Zones and ANSI on and off are part of the example.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark.errors
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql.functions import expr, lit

from sundog.expr.errors import SparkQueryError
from sundog.expr.evaluate import evaluate, predicate_mask
from sundog.expr.evaluation import case_mapping
from sundog.expr.nodes import Column, Expr
from sundog.expr.ordering import SortKey, select_k, sort_indices
from sundog.expr.printing import render
from sundog.expr.raising import can_raise
from sundog.front.catalyst_json import Node, parse_plan
from sundog.front.expressions.reading import Scope
from sundog.front.expressions.time_zones import java_zone
from sundog.front.expressions.translate import translate
from sundog.front.jvm.expression_details import complete, read_details
from sundog.front.spark_errors import to_spark_exception
from sundog.types import TIMESTAMP, arrow_type
from sundog.versions import spark_version
from tests.conftest import cause_of
from tests.oracle.batches import FILE_TYPES, arrow_arrays, record_batches, values
from tests.oracle.needs import of_tasks
from tests.oracle.sql_expressions import COLUMN_TYPES, SCHEMA, expression

pytestmark = pytest.mark.spark
FUZZ = settings(
    max_examples=6,
    deadline=None,
    database=None,
    derandomize=True,  # a run that fails fails again
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
_numbers = itertools.count()
BY_ICU = "spark.sql.icu.caseMappings.enabled" not in spark_version().absent_confs
"""Whether `upper` and `lower` are ICU's, which sundog computes."""


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
    # From 4.0 on this is the default; 3.5 raises for dates before 1582 in files of other writers.
    return spark.read.option("datetimeRebaseMode", "CORRECTED").parquet(str(path))


def optimized(spark: Any, df: Any) -> Node:
    jplan = df._jdf.queryExecution().optimizedPlan()
    root = parse_plan(jplan.toJSON(), spark_version().plan_names)
    complete(root, read_details(spark._jvm, jplan))
    return root


def scope_over(spark: Any, relation: Node) -> Scope:
    columns = {f"{a['name']}#{a['exprId']['id']}": arrow_type(a["dataType"]) for a in relation["output"]}
    zone = spark.conf.get("spark.sql.session.timeZone")
    return Scope(columns, zone, {zone: java_zone(spark._jvm, zone)}, spark_version().unicode)


def internal(batch: pa.RecordBatch, relation: Node) -> pa.RecordBatch:
    named = {f"{a['name']}#{a['exprId']['id']}": batch.column(a["name"]) for a in relation["output"]}
    return pa.RecordBatch.from_pydict(named)


def projection(spark: Any, df: Any, batch: pa.RecordBatch) -> tuple[list[Expr], pa.RecordBatch]:
    """What sundog makes of `df`, a projection of a Parquet file."""
    plan = optimized(spark, df)
    relation = plan if plan.name == "LogicalRelation" else plan.child
    assert relation.name == "LogicalRelation"
    scope = scope_over(spark, relation)
    if plan is relation:
        return [scope.column(attribute) for attribute in relation["output"]], internal(batch, relation)
    return [translate(tree, scope) for tree in plan["projectList"]], internal(batch, relation)


def assert_same(ours: pa.Array, sparks: pa.ChunkedArray, what: str) -> None:
    theirs = sparks.combine_chunks()
    if pa.types.is_timestamp(theirs.type) and theirs.type.tz is not None:
        theirs = theirs.cast(TIMESTAMP)
    assert ours.type == theirs.type, what
    assert len(ours) == len(theirs), what
    if pa.types.is_string(ours.type):  # not always UTF-8: CAST(binary AS STRING) takes any bytes
        ours, theirs = ours.view(pa.binary()), theirs.view(pa.binary())
    ours.validate(full=True)
    if pa.types.is_floating(ours.type):
        one, other = (a.fill_null(0).to_numpy(zero_copy_only=False) for a in (ours, theirs))
        same = ((one == other) & (np.signbit(one) == np.signbit(other))) | (np.isnan(one) & np.isnan(other))
    else:
        same = pc.fill_null(pc.equal(ours, theirs), True).to_numpy(zero_copy_only=False)
    same &= pc.equal(ours.is_valid(), theirs.is_valid()).to_numpy(zero_copy_only=False)
    wrong = [(int(row), ours[int(row)], theirs[int(row)]) for row in np.flatnonzero(~same)[:5]]
    assert not wrong, f"{what}: (row, sundog's, Spark's) {wrong}"


def check_projection(spark: Any, df: Any, batch: pa.RecordBatch, sqls: list[str]) -> None:
    projected = df.selectExpr(*(f"{sql} as x{i}" for i, sql in enumerate(sqls)))
    exprs: list[Expr] = []
    try:
        exprs, rows = projection(spark, projected, batch)
        expected = projected.toArrow()
    except (pyspark.errors.PySparkException, Py4JError) as error:
        if len(sqls) > 1:
            for sql in sqls:
                check_projection(spark, df, batch, [sql])
        elif exprs:  # else the optimiser raised, folding constants
            check_same_error(exprs[0], rows, error, sqls[0])
        return
    for number, (found, sql) in enumerate(zip(exprs, sqls, strict=True)):
        try:
            ours = evaluate(found, rows)
        except SparkQueryError as error:
            raise AssertionError(f"{sql} ~ {render(found)} raised {error}, Spark did not") from error
        assert_same(ours, expected.column(number), f"{sql} ~ {render(found)}")


def check_same_error(found: Expr, rows: pa.RecordBatch, sparks: Exception, sql: str) -> None:
    with pytest.raises(SparkQueryError) as raised:
        evaluate(found, rows)
    assert can_raise(found), sql
    if raised.value.condition == "":  # an exception of Java's that Spark does not dress up
        assert "long overflow" in str(sparks), sql
        return
    ours = to_spark_exception(raised.value)
    if isinstance(sparks, Py4JError):  # Spark 3.5 does not dress up errors of tasks: the condition is in the text
        assert any(f"[{known.partition('.')[0]}" in str(sparks) for known in KNOWN_CONDITIONS), sql
        return
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


@pytest.mark.parametrize(("ansi", "depth", "count"), [("false", 3, 25), ("true", 1, 12)])
@FUZZ
@given(batch=record_batches(SCHEMA, min_size=1, max_size=30), seed=st.integers(0, 2**32))
def test_projections(
    spark: Any, tmp_path_factory: Any, ansi: str, depth: int, count: int, batch: pa.RecordBatch, seed: int
) -> None:
    random = Random(seed)
    with confs(spark, ansi=ansi, zone=random.choice(ZONES)):
        df = table(spark, batch, tmp_path_factory.mktemp("data"))
        sqls = [expression(random, random.choice(list(COLUMN_TYPES)), depth) for _ in range(count)]
        check_projection(spark, df, batch, sqls)


@FUZZ
@given(batch=record_batches(SCHEMA, min_size=1, max_size=100), seed=st.integers(0, 2**32))
def test_filters(spark: Any, tmp_path_factory: Any, batch: pa.RecordBatch, seed: int) -> None:
    """Without pushdown into Parquet, which loses rows with NaN and -0.0."""
    random = Random(seed)
    batch = batch.append_column("id", pa.array(np.arange(len(batch))))
    with confs(spark, ansi="false", zone=random.choice(ZONES)), unpushed(spark):
        df = table(spark, batch, tmp_path_factory.mktemp("data"))
        for _ in range(4):
            sql = expression(random, "boolean", 3)
            filtered = df.where(sql).select("id")
            plan = optimized(spark, filtered)
            if plan.name != "Project" or plan.child.name != "Filter":  # Catalyst found it to be constant
                continue
            relation = plan.child.child
            mask = predicate_mask(
                translate(plan.child["condition"], scope_over(spark, relation)), internal(batch, relation)
            )
            assert np.flatnonzero(mask).tolist() == sorted(filtered.toArrow()["id"].to_pylist()), sql


@contextmanager
def unpushed(spark: Any) -> Iterator[None]:
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.parquet.filterPushdown")


@FUZZ
@given(batch=record_batches(SCHEMA, min_size=1, max_size=60), seed=st.integers(0, 2**32))
def test_order(spark: Any, tmp_path_factory: Any, batch: pa.RecordBatch, seed: int) -> None:
    random = Random(seed)
    df = table(spark, batch.append_column("id", pa.array(np.arange(len(batch)))), tmp_path_factory.mktemp("data"))
    for _ in range(3):
        names = random.sample(SCHEMA.names, 2)
        keys = [
            SortKey(Column(name, SCHEMA.field(name).type), random.random() < 0.5, random.random() < 0.5)
            for name in names
        ]
        sql = [
            f"{name} {'desc' if key.descending else 'asc'} nulls {'first' if key.nulls_first else 'last'}"
            for name, key in zip(names, keys, strict=True)
        ]
        ordered = spark.sql(f"select id from {{df}} order by {', '.join(sql)}, id", df=df).toArrow()
        arrays = [batch.column(name) for name in names]
        assert sort_indices(arrays, keys).tolist() == ordered["id"].to_pylist(), sql
        assert select_k(arrays, keys, 7).tolist() == ordered["id"].to_pylist()[:7], sql


ERRORS = [
    "b + b", "sh * sh", "b - cast(-5 as tinyint)", "i + i", "l + l", "l * l", "l - ml", "-ml", "abs(ml)",
    "cast(i as tinyint)", "cast(l as int)", "cast(d as int)", "cast(f as bigint)", "cast(nan as bigint)",
    "cast(dc as tinyint)", "cast(dd as int)", "cast(dd as bigint)", "cast(dc as decimal(4,2))",
    "cast(i as decimal(5,2))", "dc / z", "d / z", "i % z", "l div z", "ml div cast(z - 1 as bigint)", "dc % z",
    "dc div z", "cast(s as int)", "cast(s as bigint)", "cast(s as boolean)", "cast(bo as decimal(1,1))",
    "cast(ts as tinyint)", "dd * dd", "round(b, -1)", "round(i, -1)", "round(l, -19)", "cast(d as decimal(11,6))",
    "cast(f as decimal(14,0))",
]  # fmt: skip


@pytest.fixture(scope="module")
def extremes(spark: Any, tmp_path_factory: Any) -> tuple[Any, pa.RecordBatch]:
    batch = pa.RecordBatch.from_pydict(
        {
            "b": pa.array([127], pa.int8()),
            "sh": pa.array([32767], pa.int16()),
            "i": pa.array([2**31 - 1], pa.int32()),
            "l": pa.array([2**63 - 1]),
            "ml": pa.array([-(2**63)]),
            "f": pa.array([1e30], pa.float32()),
            "d": pa.array([1e300]),
            "nan": pa.array([float("nan")]),
            "dc": pa.array([Decimal("999.99")], pa.decimal128(5, 2)),
            "dd": pa.array([Decimal("9" * 28 + "." + "9" * 10)], pa.decimal128(38, 10)),
            "s": pa.array(["ab'c"]),
            "ts": pa.array([1_577_836_800_000_000]).cast(TIMESTAMP),
            "bo": pa.array([True]),
            "z": pa.array([0], pa.int32()),
        }
    )
    return table(spark, batch, tmp_path_factory.mktemp("extremes")), batch


@pytest.mark.parametrize("sql", ERRORS)
def test_errors_are_sparks_own(spark: Any, extremes: tuple[Any, pa.RecordBatch], sql: str) -> None:
    """Class, condition, SQL state, parameters and text; only the place in the SQL text is Spark's alone."""
    df, batch = extremes
    with confs(spark, ansi="true"):
        projected = df.selectExpr(f"{sql} as x")
        (found,), rows = projection(spark, projected, batch)
        with pytest.raises(of_tasks(pyspark.errors.PySparkException)) as sparks:
            projected.toArrow()
    with pytest.raises(SparkQueryError) as raised:
        evaluate(found, rows)
    ours, theirs = to_spark_exception(raised.value), sparks.value
    if isinstance(theirs, Py4JJavaError):
        theirs = cause_of(theirs)
    assert isinstance(ours, getattr(pyspark.errors, type(theirs).__name__))
    assert ours.getCondition() == theirs.getCondition()
    assert ours.getSqlState() == theirs.getSqlState()
    if sql != "dd * dd":  # Spark shows the product cut to 39 digits
        assert ours.getMessageParameters() == dict(theirs.getMessageParameters())  # 3.5 gives a map of Java's
        assert str(ours) == str(theirs).split("\n")[0]


@settings(parent=FUZZ, max_examples=4)
@given(st.data())
def test_constants(spark: Any, tmp_path_factory: Any, data: st.DataObject) -> None:
    """Every constant that a user can write comes back from Catalyst's JSON as the value it was."""
    batch = pa.RecordBatch.from_pydict({"unused": [1]})
    drawn = [
        data.draw(arrow_arrays(dtype, 1, 1, nulls=False))[0].as_py()
        for dtype in (t for t in FILE_TYPES if not pa.types.is_temporal(t))
        for _ in range(3)
    ]
    with confs(spark, zone=data.draw(st.sampled_from(ZONES))):
        df = table(spark, batch, tmp_path_factory.mktemp("data"))
        moments = [f"timestamp_micros({data.draw(values(TIMESTAMP))}L)" for _ in range(3)]
        moments += [f"date_from_unix_date({data.draw(values(pa.date32()))})" for _ in range(3)]
        constants = df.select(
            *(lit(value).alias(f"x{i}") for i, value in enumerate(drawn)), *(expr(m) for m in moments)
        )
        expected = constants.toArrow()
        found, rows = projection(spark, constants, batch)
        for number, each in enumerate(found):
            assert_same(evaluate(each, rows), expected.column(number), render(each))


@pytest.mark.parametrize("ansi", ["false", "true"])
def test_doubles_are_rounded_on_the_digits_that_this_java_prints(spark: Any, tmp_path: Path, ansi: str) -> None:
    random = np.random.default_rng(7)
    ties = random.integers(-(10**8), 10**8, 4000) * 10 + 5
    numbers = [ties / 10.0**places for places in range(8)] + [random.integers(0, 10**6, 4000) / 7.0]
    column = np.concatenate([*numbers, [0.0, -0.0, 5e-324, 2.0**-44, 0.145, 1.005, np.inf, -np.inf, np.nan]])
    batch = pa.RecordBatch.from_pydict({"x": pa.array(column), "y": pa.array(column.astype(np.float32))})
    df = table(spark, batch, tmp_path)
    sqls = [f"round(x, {places})" for places in range(-4, 5)]
    sqls += [f"try_cast({name} as decimal({digits}, {digits // 2}))" for name in "xy" for digits in (6, 11, 14)]
    with confs(spark, ansi=ansi):
        check_projection(spark, df, batch, sqls)


def test_bytes_that_are_not_utf8(spark: Any, tmp_path: Path) -> None:
    random = Random(5)
    pieces = [
        b"a",
        b"Z",
        b"\xc3\xa9",
        b"\xc3",
        b"\xa9",
        b"\xf0\x9f\x98\x80",
        b"\xf0\x9f",
        b"\xff",
        b"\xed\xa0\x80",
        b"%",
    ]
    # Whole characters at the end: of a character cut off there, Spark's substring reads on into whatever memory
    # follows.
    raw = [b"".join(random.choices(pieces, k=random.randint(0, 5))) + b"yyy" for _ in range(300)]
    batch = pa.RecordBatch.from_pydict({"raw": pa.array(raw, pa.binary())})
    text = "cast(raw as string)"
    sqls = [
        f"length({text})",
        *(f"cast(substring({text}, {start}, {count}) as binary)" for start in (-2, 0, 1, 2) for count in (1, 2)),
        *(f"({text} like '{pattern}')" for pattern in ("_", "a%_", "%_", "__", "%Z_%")),
        f"cast(concat({text}, 'x') as binary)",
        f"startswith({text}, 'a')",
        f"({text} < 'b')",
        *((f"upper({text})", f"lower({text})") if BY_ICU else ()),
    ]
    check_projection(spark, table(spark, batch, tmp_path), batch, sqls)


@pytest.mark.skipif(not BY_ICU, reason="changes case by Java's rules, which stay on Spark: tests/queries has both")
def test_case_mapping_of_every_character(spark: Any, tmp_path: Path) -> None:
    chars = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    batch = pa.RecordBatch.from_pydict({"s": pa.array(chars)})
    sqls = ["upper(s)", "lower(s)"]
    cased = [char for char in chars if char.upper() != char or char.lower() != char or 0x2FF < ord(char) < 0x370]
    recent = case_mapping.recent_characters()
    around = pa.RecordBatch.from_pydict({"s": [*cased[::7], *recent]})
    check_projection(spark, table(spark, batch, tmp_path), batch, sqls)
    sigmas = [
        "lower(concat('AΣ', s))",
        "lower(concat('AΣ', s, 'A'))",
        "lower(concat('A', s, 'Σ'))",
        "upper(concat('x', s))",
    ]
    check_projection(spark, table(spark, around, tmp_path), around, sigmas)


def test_time_zones_are_the_jvms(spark: Any) -> None:
    """Every kind of zone, at random instants and around its changes, both ways."""
    jvm, random = spark._jvm, Random(11)
    names = sorted(str(name) for name in jvm.java.time.ZoneId.getAvailableZoneIds().toArray())
    for name in ["Europe/Berlin", "America/New_York", "Africa/Casablanca", "Pacific/Apia", *random.sample(names, 25)]:
        zone = java_zone(jvm, name)
        assert zone is not None, name
        assert pickle.loads(pickle.dumps(zone)) == zone
        jzone = jvm.java.time.ZoneId.of(name)
        changes = [change for change, _, _ in random.sample(zone.changes, min(4, len(zone.changes)))]
        instants = [random.randint(-60_000_000_000, 250_000_000_000) for _ in range(4)]
        instants += [change + shift for change in changes for shift in (-3600, -1, 0, 1800, 3600)]
        ours = zone.offsets_at(np.array(instants)).tolist()
        rules, utc = jzone.getRules(), jvm.java.time.ZoneOffset.UTC
        moments = [jvm.java.time.Instant.ofEpochSecond(instant) for instant in instants]
        assert ours == [rules.getOffset(moment).getTotalSeconds() for moment in moments], name
        locals_ = [instant + offset for instant, offset in zip(instants, ours, strict=True)]
        locals_ += [local + 1800 for local in locals_]
        clocks = [jvm.java.time.LocalDateTime.ofEpochSecond(local, 0, utc) for local in locals_]
        assert zone.to_instant(np.array(locals_)).tolist() == [c.atZone(jzone).toEpochSecond() for c in clocks], name
        days = np.array([local // 86_400 for local in locals_])
        starts = [c.toLocalDate().atStartOfDay(jzone).toEpochSecond() for c in clocks]
        assert zone.start_of_day(days).tolist() == starts, name
