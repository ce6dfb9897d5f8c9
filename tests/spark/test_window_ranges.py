"""Windows whose ranges read their own rows, and windows whose rows are moved: the choice, the text, the metrics, the
answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from sundog.errors import InternalError
from sundog.operators.window.ranges.halo import HaloDrop
from sundog.report.pictures import shapes_of
from tests.costs import costs
from tests.oracle.compare import assert_same
from tests.oracle.plain_spark import plain_spark

pytestmark = [pytest.mark.spark, pytest.mark.thin(3)]

ROWS = 20_000
CALLS = {
    "range": "sum(v) OVER (ORDER BY t RANGE BETWEEN 30 PRECEDING AND 5 FOLLOWING)",
    "running": "count(v) OVER (ORDER BY t DESC)",
    "rows": "sum(v) OVER (ORDER BY t, id ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING)",
    "ranks": "row_number() OVER (ORDER BY t, id)",
}


def events(clustered: bool) -> pa.Table:
    random = np.random.default_rng(7)
    keys = np.arange(ROWS) // 3 + random.integers(-20, 20, ROWS)
    if not clustered:
        keys = random.permutation(keys)
    times = pa.array(keys, mask=np.arange(ROWS) % (ROWS // 2) < 200)  # in few row groups, as the values are
    return pa.table({"id": np.arange(ROWS), "t": times, "v": random.integers(-1000, 1000, ROWS)})


@pytest.fixture(scope="module")
def session(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    for name, clustered in (("clustered", True), ("scattered", False)):
        folder = tmp_path_factory.mktemp(name)
        table = events(clustered)
        for part in range(4):
            share = table.slice(part * ROWS // 4, ROWS // 4)
            pq.write_table(share, folder / f"part-{part}.parquet", row_group_size=500)
        enabled.read.parquet(str(folder)).createOrReplaceTempView(name)
    return enabled


@pytest.fixture(autouse=True)
def small_tasks(session: Any) -> Iterator[None]:
    with costs(session, task_bytes=4096):
        yield


@pytest.fixture
def moved(session: Any, small_tasks: None) -> Iterator[None]:
    """As if there were more ranges than could each read everything."""
    with costs(session, max_scattered_reads=1):
        yield


@pytest.mark.parametrize(
    ("table", "placement", "way"),
    [
        ("clustered", "driver", "by row-group statistics"),
        ("clustered", "executors", "by row-group statistics"),
        ("scattered", "executors", "cut by a sample, rows_read="),
    ],
)
@pytest.mark.parametrize("where", ["", " WHERE v > 0"], ids=["all", "filtered"])
@pytest.mark.parametrize("call", CALLS)
def test_ranges_read_their_own_rows(session: Any, call: str, where: str, table: str, placement: str, way: str) -> None:
    session.conf.set("spark.sundog.placement", placement)
    query = f"SELECT id, t, v, {CALLS[call]} AS w FROM {table}{where}"
    ours = session.sql(query).toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert "RangeRead: order=" in run.plan
    assert way in run.plan
    assert run.metrics["ranges"] > 1
    assert "exchange_rows" not in run.metrics, "no row moved"
    assert run.metrics["input_rows"] == ROWS
    assert run.metrics["window_input_rows"] == run.metrics["window_rows"] == run.metrics["output_rows"] == ours.num_rows
    with plain_spark(session):
        theirs = session.sql(query).toArrow()
    assert_same(ours, theirs, ordered=False)


@pytest.mark.usefixtures("moved")
@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_a_scattered_key_is_moved_and_explain_says_what_reading_would_cost(session: Any, placement: str) -> None:
    session.conf.set("spark.sundog.placement", placement)
    frame = session.sql(f"SELECT id, {CALLS['range']} AS w FROM scattered")
    text = sundog.explain(frame)
    assert "RangeRepartition: order=" in text
    assert "reading by statistics instead would read rows" in text
    frame.toArrow()
    run = sundog.last_run()
    assert run.metrics["exchange_rows"] == run.metrics["rows_routed"]
    assert run.metrics["input_rows"] == run.metrics["output_rows"] == ROWS
    assert 0 < run.metrics["rows_read_again"] < ROWS, "for a sample of some row groups"


@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_a_skewed_key_gets_even_ranges(enabled: Any, tmp_path: Path, placement: str) -> None:
    """Statistics know only the ends of a row group: where its rows lie between them, the sample says."""
    keys = np.exp(np.random.default_rng(3).normal(0, 4, ROWS)).astype(np.int64)
    pq.write_table(pa.table({"t": keys, "v": np.ones(ROWS, np.int64)}), tmp_path / "skewed.parquet", row_group_size=500)
    enabled.conf.set("spark.sundog.placement", placement)
    frame = enabled.read.parquet(str(tmp_path)).selectExpr(CALLS["range"])
    frame.toArrow()
    run = sundog.last_run()
    assert run.metrics["output_rows"] == ROWS
    (details,) = shapes_of(run.graphs[0], run.stages[0])
    rows = [mark.rows for mark in details.ranges]
    assert len(rows) > 1
    assert max(rows) < 2 * ROWS / len(rows)


SUMMARIZED = {
    "running": CALLS["running"],
    "ranks": CALLS["ranks"],
    "ntile": "ntile(7) OVER (ORDER BY t, id)",
    "neighbours": "lag(v, 2) OVER (ORDER BY t, id) + lead(v, 1, 0) OVER (ORDER BY t, id)",
    "rows": CALLS["rows"],
    "descending": "sum(v) OVER (ORDER BY t DESC NULLS FIRST, id ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING)",
    "first": "first_value(v) OVER (ORDER BY t, id)",
    "share": "v / sum(v) OVER (ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
}
READ_TWICE = {
    "keys": "dense_rank() OVER (ORDER BY t)",
    "any distance": "lag(v) IGNORE NULLS OVER (ORDER BY t, id)",
    "last": "last_value(v) IGNORE NULLS OVER (ORDER BY t, id)",
    "ends by a string": "lag(v) OVER (ORDER BY cast(t AS string), id)",
}


@pytest.mark.usefixtures("moved")
@pytest.mark.parametrize("written", [False, True], ids=["collected", "written"])
@pytest.mark.parametrize("call", [*SUMMARIZED, *READ_TWICE])
def test_executors_move_rows_once(session: Any, call: str, written: bool, tmp_path: Path) -> None:
    """Ranges are summarized by the sending tasks, or by a second read of Spark's shuffle; nothing is held."""
    session.conf.set("spark.sundog.placement", "executors")
    text = (SUMMARIZED | READ_TWICE)[call]
    frame = session.sql(f"SELECT id, t, {text} AS w FROM scattered")
    if written:
        frame.write.parquet(str(tmp_path / "out"))
        table = pq.read_table(tmp_path / "out")
    else:
        table = frame.toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert ("summarized by the sending tasks" in run.plan) == (call in SUMMARIZED)
    assert ("read twice" in run.plan) == (call in READ_TWICE)
    assert "Hold" not in run.plan
    assert run.metrics["ranges"] > 1
    assert run.metrics["window_input_rows"] == ROWS, "the stage that moves them ran once"
    assert run.metrics["exchange_rows"] == run.metrics["rows_routed"] == ROWS, "summaries are no rows"
    with plain_spark(session):
        assert_same(table, frame.toArrow(), ordered=False)


@pytest.mark.usefixtures("moved")
def test_ends_of_too_many_rows_are_found_in_whole_ranges(session: Any) -> None:
    session.conf.set("spark.sundog.placement", "executors")
    frame = session.sql(
        "SELECT id, sum(v) OVER (ORDER BY t, id ROWS BETWEEN 50 PRECEDING AND CURRENT ROW) AS w FROM scattered"
    )
    for limit, remark in ((64 << 20, "summarized by the sending tasks"), (1 << 10, "read twice")):
        with costs(session, max_summary_bytes=limit):
            ours = frame.toArrow()
        assert remark in sundog.last_run().plan
        with plain_spark(session):
            assert_same(ours, frame.toArrow(), ordered=False)


@pytest.mark.usefixtures("moved")
@pytest.mark.parametrize(
    "values", ["if(id % 2 = 0, 1e16, 1.0)", "if(id = 77, 9223372036854775807L, v)"], ids=["doubles", "longs"]
)
def test_what_does_not_add_up_range_by_range_is_one_range(session: Any, values: str) -> None:
    """An overflow found in the summaries of the sending tasks: rows are moved again, to one range."""
    session.conf.set("spark.sundog.placement", "executors")
    sign = "if(id % 4 < 2, 1, -1)" if "1e16" in values else "1"
    frame = session.sql(
        f"SELECT id, try_sum({values} * {sign}) OVER (ORDER BY t, id ROWS UNBOUNDED PRECEDING) AS w FROM scattered"
    )
    ours = frame.toArrow()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert run.metrics["ranges"] == 1
    assert any("summarized by the sending tasks" in stage.output.describe() for stage in run.graphs[0].stages)
    with plain_spark(session):
        assert_same(ours, frame.toArrow(), ordered=False)


@pytest.mark.usefixtures("moved")
def test_groups_that_are_gathered_on_the_driver_are_held_there(session: Any) -> None:
    """Few groups, merged on the driver of a query on executors: one reader, and no shuffle of Spark's."""
    session.conf.set("spark.sundog.placement", "executors")
    query = """
        SELECT k, n, row_number() OVER (ORDER BY n, k) AS place, sum(n) OVER (ORDER BY k) AS until
        FROM (SELECT concat('k', v % 50) AS k, count(*) AS n FROM scattered GROUP BY concat('k', v % 50))
    """
    ours = session.sql(query).toArrow()
    run = sundog.last_run()
    assert run.whole, run.fallback_reasons
    assert "few groups are merged on the driver" in run.plan
    assert run.metrics["ranges"] > 1
    with plain_spark(session):
        assert_same(ours, session.sql(query).toArrow(), ordered=False)


def test_explain_shows_the_choice_before_anything_runs(session: Any) -> None:
    text = sundog.explain(session.sql(f"SELECT id, {CALLS['range']} AS w FROM clustered"))
    assert "RangeRead: order=[t#" in text
    assert "rows_read=1." in text


@pytest.mark.parametrize("table", ["clustered", "scattered"])
def test_the_report_draws_the_ranges(session: Any, table: str, tmp_path: Path) -> None:
    session.conf.set("spark.sundog.placement", "driver")
    session.sql(f"SELECT id, {CALLS['range']} AS w FROM {table}").toArrow()
    sundog.last_run().to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    way = "reading them straight from the files" if table == "clustered" else "an exchange"
    assert way in page


@pytest.mark.parametrize("table", ["clustered", "scattered"])
def test_a_lost_row_is_an_error_and_never_an_answer(session: Any, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session.conf.set("spark.sundog.placement", "driver")
    drop = HaloDrop.run

    def losing(self: HaloDrop, batches: Any, context: Any) -> Any:
        for number, batch in enumerate(drop(self, batches, context)):
            if context.partition == 1 and number == 0:
                context.metrics.add("window_rows", -1)
                batch = batch.slice(1)
            yield batch

    monkeypatch.setattr(HaloDrop, "run", losing)
    with pytest.raises(InternalError, match=f"{ROWS} rows went into windows and {ROWS - 1} came out"):
        session.sql(f"SELECT id, {CALLS['range']} AS w FROM {table}").toArrow()


@pytest.mark.parametrize("way", ["clustered", "scattered", "moved"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("around", ["coalesce", "union"])
def test_a_window_in_a_plan_whose_tasks_are_not_its_partitions(
    session: Any, way: str, call: str, around: str, request: pytest.FixtureRequest
) -> None:
    """Under `coalesce` one task computes several ranges; beside a union's other side they have other numbers."""
    session.conf.set("spark.sundog.placement", "executors")
    table = "scattered" if way == "moved" else way
    if way == "moved":
        request.getfixturevalue("moved")

    def rows() -> list[Any]:
        windowed = session.sql(f"SELECT id, {CALLS[call]} AS w FROM {table}")
        if around == "coalesce":
            frame = windowed.coalesce(1)
        else:
            frame = session.sql(f"SELECT id, CAST(v AS BIGINT) AS w FROM {table} WHERE v > 500").union(windowed)
        return sorted(map(repr, frame.collect()))

    ours = rows()
    run = sundog.last_run()
    assert run.accelerated, run.fallback_reasons
    assert run.metrics["window_input_rows"] == run.metrics["window_rows"] == ROWS
    with plain_spark(session):
        theirs = rows()
    assert ours == theirs
