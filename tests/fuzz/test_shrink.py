"""The shrinker on planted bugs, without Spark; and that a seed always draws the same case."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tests.fuzz.case import Case, draw_case, draw_world
from tests.fuzz.expressions import Expr
from tests.fuzz.queries import Output, Select, SortKey, Table
from tests.fuzz.shrink import is_determined, shrink


def first_case(wanted: str) -> Case:
    """The first drawn case over at least forty rows whose query holds this text."""
    for seed in range(300):
        if draw_world(seed)[0].rows.num_rows < 40:
            continue
        for number in range(12):
            case = draw_case(seed, number)
            if wanted in case.query.sql and is_determined(case):
                return case
    raise AssertionError(f"no case holds {wanted}")


def test_a_bug_of_one_row_and_one_function_shrinks_to_them() -> None:
    case = first_case(" OVER (")

    def has_bug(candidate: Case) -> bool:
        ids = candidate.data.rows["id"]
        return " OVER (" in candidate.query.sql and bool(pc.any(pc.equal(ids, 17)).as_py())

    smallest = shrink(case, has_bug, seconds=20)
    assert smallest.data.rows["id"].to_pylist() == [17]
    assert len(smallest.query.outputs) == 1
    assert not smallest.query.where
    assert not smallest.spark_confs
    assert not smallest.sundog_confs
    assert smallest.action == "collect"
    assert len(smallest.layout.parts) == 1


def test_a_setting_that_matters_is_kept_and_the_others_go() -> None:
    case = first_case("GROUP BY")
    key = "spark.sql.session.timeZone"
    smallest = shrink(case, lambda candidate: key in candidate.spark_confs, seconds=20)
    assert list(smallest.spark_confs) == [key]
    assert smallest.data.rows.num_rows == 0


def test_no_limit_is_left_without_its_order() -> None:
    table = Table("t", (), ("id",))
    column = Expr("`id`", (), "bigint")
    query = Select(table, (Output("x", Expr("1", (), "int")),), order=(SortKey(column, "ASC"),), limit=3)
    assert not is_determined(replace(first_case("LIMIT"), query=query))
    assert is_determined(replace(first_case("LIMIT"), query=replace(query, total=True)))


def test_a_seed_draws_the_same_case_in_another_process() -> None:
    program = "from tests.fuzz.case import draw_case as d; print([d(s, n).query.sql for s in (3, 4) for n in (0, 5)])"
    here = repr([draw_case(seed, number).query.sql for seed in (3, 4) for number in (0, 5)])
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


def test_no_drawn_limit_leaves_open_which_rows_come() -> None:
    cases = [draw_case(seed, number) for seed in range(60) for number in range(8)]
    assert [case.name for case in cases if not is_determined(case)] == []
    assert any(case.query.limit for case in cases)


def test_drawn_data_holds_what_breaks_things() -> None:
    found: set[str] = set()
    for seed in range(200):
        data, _ = draw_world(seed)
        for column in data.columns:
            values = data.rows[column.name]
            found.add(column.family)
            if len(values) and values.null_count == len(values):
                found.add("all null")
            if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
                found.add("nan")
            if column.family == "bigint" and len(values) and pc.min(values).as_py() == -(2**63):
                found.add("least long")
        if data.rows.num_rows == 0:
            found.add("no rows")
    assert {"all null", "nan", "least long", "no rows", "interval day to second", "timestamp_ntz", "decimal"} <= found
