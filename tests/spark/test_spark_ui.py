"""What Spark's UI and its history server show of sundog's actions, read from the event log of a small program."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyspark
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
         "false", "spark.eventLog.rolling.enabled": "false", "spark.sql.ansi.enabled": "true",
         "spark.ui.enabled": "false",
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ui")
    (made / "log").mkdir()
    return made


@pytest.fixture(scope="module")
def logged(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, float]]]:
    """The events, and the metrics of the runs that sundog answered."""
    ensure_java()
    write_files(events(4000), folder / "events", files=2, row_group_size=500)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), json.dumps(QUERIES)], cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=PYTHON_PATH), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (log,) = (folder / "log").iterdir()
    metrics = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [json.loads(line) for line in log.read_text().splitlines()], metrics


@pytest.fixture(scope="module")
def history(logged: Any, folder: Path) -> Iterator[Callable[[str], Any]]:
    """What Spark's history server, on loopback, answers of the application in that log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {"fs.logDirectory": (folder / "log").as_uri(), "ui.port": port, "fs.update.interval": "1s"}
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HISTORY_OPTS": " ".join(f"-Dspark.history.{key}={value}" for key, value in options.items()),
    }
    with (folder / "server").open("wb") as output:
        server = subprocess.Popen(
            [str(home / "bin" / "spark-class"), "org.apache.spark.deploy.history.HistoryServer"],
            env=environment, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    applications = f"http://127.0.0.1:{port}/api/v1/applications"
    try:
        (application,) = _answer(applications, server, lambda found: bool(found))
        yield lambda path: _answer(f"{applications}/{application['id']}/{path}", server)
    except TimeoutError:
        pytest.fail((folder / "server").read_text()[-3000:])
    finally:
        server.terminate()
        server.wait(timeout=30)


def _answer(url: str, server: subprocess.Popen[bytes], is_ready: Callable[[Any], bool] = lambda _: True) -> Any:
    """Of the server, as soon as it has started and read the log."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(OSError):  # not listening yet
            with urlopen(url, timeout=30) as response:
                found = json.load(response)
            if is_ready(found):
                return found
        time.sleep(0.2)
    raise TimeoutError(url)


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
    assert "sundog: topk: TopK round 1" in named
    assert "sundog: aggregate: Scan" in named
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


def test_the_history_server_shows_each_action_with_its_steps_and_metrics(logged: Any, history: Any) -> None:
    _, metrics = logged
    own = [each for each in history("sql?details=true&length=100") if any(map(is_ours, each["nodes"]))]
    shapes = ["sundog: topk", "sundog: aggregate", "sundog: aggregate"]
    assert [each["description"] for each in own] == [*shapes, *shapes, "my report"]
    assert [each["status"] for each in own] == [*["COMPLETED", "COMPLETED", "FAILED"] * 2, "COMPLETED"]
    answered = [each for each in own[:-1] if each["status"] == "COMPLETED"]
    for entry, counted in zip(answered, metrics, strict=True):
        (root,) = filter(is_ours, entry["nodes"])
        shown = {metric["name"]: metric["value"] for metric in root["metrics"]}
        assert shown["output_rows"].replace(",", "") == str(int(counted["output_rows"]))
        assert entry["planDescription"].startswith("== Sundog ==")
        steps = {node["nodeName"] for node in entry["nodes"]}
        assert "ParquetScan" in steps, steps
    for page in ("jobs", "stages"):
        described = {each.get("description") for each in history(page)}
        assert {"sundog: topk: TopK round 1", "sundog: aggregate: Scan"} <= described


def is_ours(node: dict[str, Any]) -> bool:
    return bool(node["nodeName"] == "sundog")
