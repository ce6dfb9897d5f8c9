"""What Spark's UI and its history server show of sundog's actions, read from the event log of a small program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from sundog.environment.java import ensure_java
from tests.oracle.tables import events, write_files
from tests.spark.cluster import PYTHON_PATH, ROOT

pytestmark = [pytest.mark.spark, pytest.mark.long]
QUERIES = {
    "topk": "SELECT id, num FROM events ORDER BY id DESC LIMIT 5",
    "aggregate": "SELECT num, count(*) c FROM events GROUP BY num",
    "failing": "SELECT num, sum(1 DIV (id - 7)) c FROM events GROUP BY num",
}
PROGRAM = """
import json, sys
import sundog
folder, queries = sys.argv[1], json.loads(sys.argv[2])
confs = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{folder}/log", "spark.eventLog.compress":
         "false", "spark.eventLog.rolling.enabled": "false", "spark.sql.ansi.enabled": "true", "spark.ui.enabled": "false",
         "spark.sql.shuffle.partitions": "2", "spark.sundog.learn": "false"}
spark = sundog.session(master="local[2]", confs=confs)
spark.read.parquet(f"{folder}/events").createOrReplaceTempView("events")
sundog.enable(spark)
for placement in ("driver", "executors"):
    spark.conf.set("spark.sundog.placement", placement)
    for name, query in queries.items():
        try:
            spark.sql(query).collect()
        except Exception as error:
            assert name == "failing", error
        else:
            assert sundog.last_run().accelerated
            print(json.dumps(sundog.last_run().metrics), flush=True)
spark.sparkContext.setJobDescription("my report")
spark.sql(queries["topk"]).collect()
spark.conf.set("spark.sundog.ui.enabled", "false")
spark.sql(queries["topk"]).collect()
sundog.disable(spark)
spark.range(3).collect()
spark.stop()
"""
UI = "org.apache.spark.sql.execution.ui."


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], list[dict[str, float]]]:
    """The events, and the metrics of the runs that sundog answered."""
    ensure_java()
    folder = tmp_path_factory.mktemp("ui")
    (folder / "log").mkdir()
    write_files(events(4000), folder / "events", files=2, row_group_size=500)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), json.dumps(QUERIES)],
        cwd=ROOT, env=dict(os.environ, PYTHONPATH=PYTHON_PATH), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (log,) = (folder / "log").iterdir()
    metrics = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [json.loads(line) for line in log.read_text().splitlines()], metrics


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["Event"] == f"{UI}{kind}"]


def entries(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The executions that are sundog's: begun with its node."""
    return [
        event
        for event in of_kind(events, "SparkListenerSQLExecutionStart")
        if event["sparkPlanInfo"]["nodeName"] == "sundog"
    ]


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node["children"]:
        yield from nodes(child)


def last_of(events: list[dict[str, Any]], kind: str, number: int) -> dict[str, Any]:
    return [event for event in of_kind(events, kind) if event["executionId"] == number][-1]


def test_every_action_is_an_sql_execution_with_the_name_of_its_shape(logged: Any) -> None:
    events, _ = logged
    names = [event["description"] for event in entries(events)]
    shapes = ["sundog: topk", "sundog: aggregate", "sundog: aggregate"]
    assert names == [*shapes, *shapes, "my report"]


def test_its_plan_is_that_of_explain_with_metrics_by_name(logged: Any) -> None:
    events, metrics = logged
    taken = [entry for entry in entries(events) if entry["description"] != "my report"]
    answered = [taken[0], taken[1], taken[3], taken[4]]
    for entry, counted in zip(answered, metrics, strict=True):
        number = entry["executionId"]
        update = last_of(events, "SparkListenerSQLAdaptiveExecutionUpdate", number)
        assert update["physicalPlanDescription"].startswith("== Sundog ==")
        assert f"input_rows={counted['input_rows']}" in update["physicalPlanDescription"]
        root = update["sparkPlanInfo"]
        values = dict(last_of(events, "SparkListenerDriverAccumUpdates", number)["accumUpdates"])
        shown = {metric["name"]: values[metric["accumulatorId"]] for metric in root["metrics"]}
        assert {name: counted[name] for name in shown} == shown
        assert shown["output_rows"] == counted["output_rows"] > 0
        assert [child for child in root["children"] if child["metrics"]], "steps have metrics of their own"
        numbers = [metric["accumulatorId"] for node in nodes(root) for metric in node["metrics"]]
        assert len(numbers) == len(set(numbers)) == len(values)
        assert last_of(events, "SparkListenerSQLExecutionEnd", number)["errorMessage"] == ""
    assert metrics[0]["row_groups_pruned_dynamic_filter"] + metrics[0]["row_groups_pruned_initial_threshold"] > 0


def test_jobs_belong_to_the_entry_and_say_their_steps(logged: Any) -> None:
    events, _ = logged
    own = {str(entry["executionId"]) for entry in entries(events)}
    jobs = [event for event in events if event["Event"] == "SparkListenerJobStart"]
    named = {
        job["Properties"]["spark.job.description"]: job["Properties"].get("spark.sql.execution.root.id")
        for job in jobs
        if job["Properties"].get("spark.job.description", "").startswith("sundog: ")
    }
    assert any("TopK round 1" in name for name in named), named
    assert any("Scan" in name for name in named), named
    assert set(named.values()) <= own


def test_an_action_that_is_left_to_spark_ends_as_failed_and_sparks_own_is_apart(logged: Any) -> None:
    events, _ = logged
    failed = [
        entry["executionId"]
        for entry in entries(events)
        if last_of(events, "SparkListenerSQLExecutionEnd", entry["executionId"])["errorMessage"]
    ]
    assert len(failed) == 2, "one for each placement"
    started = of_kind(events, "SparkListenerSQLExecutionStart")
    after = [event for event in started if event["executionId"] > failed[0] and event["rootExecutionId"] != failed[0]]
    assert after[0]["rootExecutionId"] == after[0]["executionId"], "Spark's own execution is below none of ours"
    assert started[-1]["rootExecutionId"] == started[-1]["executionId"]
