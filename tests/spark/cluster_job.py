"""Runs as a program of its own against a standalone cluster: `cluster_job.py MASTER FOLDER CASES CONFS`, answers in
JSON.

CASES is a JSON list of objects: `name`; `sql`; `confs`, set for this case alone; `fault`: None, or a kind of
`fault_injection.py`, or "taken away" (dynamic allocation), in the stage `at`; `frame`: whether the rows go to Spark,
not to the driver; `profile`: whether a function of the user's takes them there, with a resource profile of its own.
`at` may be "each": the case is then one for each stage on executors. Each is answered by plain
Spark first, then by sundog. CONFS are those of the application. What happened to its tasks and executors is read from
its event log.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

import sundog
from sundog.parquet.meta.footer import FOOTERS
from sundog.parquet.prune.footer_tables import TABLES
from sundog.plan.stages import Place
from tests.spark.fault_injection import WAIT_SECONDS, Injection

CONFS = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sundog.onInternalError": "raise",
    "spark.sundog.learn": "false",  # the same query is asked again and again, also where a worker is killed
    "spark.sundog.placement": "executors",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


def main(master: str, folder: str, cases: str, confs: str = "{}") -> None:
    log = Path(tempfile.mkdtemp(prefix="events-", dir=folder))
    spark = sundog.session(master=master, confs={**CONFS, "spark.eventLog.dir": log.as_uri(), **json.loads(confs)})
    for table in Path(folder).glob("*.table"):
        spark.read.parquet(str(table)).createOrReplaceTempView(table.stem)
    print("SOURCE " + json.dumps(sources(spark)), flush=True)
    plain: dict[str, list[str]] = {}
    job = ClusterJob(spark, Path(folder), log)
    for case in json.loads(cases):
        if case["sql"] not in plain:
            plain[case["sql"]] = sorted(map(str, spark.sql(case["sql"]).collect()))
        for each in job.cases(case):
            print("ANSWER " + json.dumps(job.answer(each, plain[case["sql"]])), flush=True)
    spark.stop()


def with_users_profile(frame: Any) -> Any:
    """The same rows, through a function whose tasks take two cores."""
    profile = ResourceProfileBuilder().require(TaskResourceRequests().cpus(2)).build
    return frame.mapInArrow(lambda batches: batches, frame.schema, profile=profile)


def sources(spark: Any) -> list[str]:
    """Where the driver and the workers have sundog from."""

    def of_worker(_: int) -> str:
        import sundog

        return str(sundog.__file__)

    return [str(sundog.__file__), *spark.sparkContext.range(0, 8, 1, 8).map(of_worker).distinct().collect()]


class ClusterJob:
    """One application, and what its event log has said since it was last read."""

    def __init__(self, spark: Any, folder: Path, log: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._log = log
        self._read = 0
        self._executors = self._executor_count()

    def cases(self, case: dict[str, Any]) -> list[dict[str, Any]]:
        """The case in each of the stages that the query has, if it is to be there."""
        if case["at"] != "each":
            return [case]
        stages = self.answer({**case, "fault": None, "at": None}, [])["stages"]
        return [{**case, "at": number, "name": f"{case['name']}: {purpose} {number}"} for number, purpose in stages]

    def answer(self, case: dict[str, Any], plain: list[str]) -> dict[str, Any]:
        spark = self._spark
        if case["fault"] != "taken away":
            self._wait_until(lambda: self._executor_count() >= self._executors)  # one that was lost is replaced
        sundog.enable(spark)
        for key, value in case["confs"].items():
            spark.conf.set(key, value)
        notes, marks = (Path(tempfile.mkdtemp(dir=self._folder)) for _ in range(2))
        before = self._wait_until_taken if case["fault"] == "taken away" else None
        injection = Injection(marks, notes, case["fault"], case["at"], before)
        list(self._events())
        FOOTERS.clear()
        TABLES.clear()
        with injection.active():
            frame = sundog.accelerate(spark.sql(case["sql"])) if case["frame"] else spark.sql(case["sql"])
            rows = sorted(map(str, (with_users_profile(frame) if case["profile"] else frame).collect()))
        run = sundog.last_run()
        for key in case["confs"]:
            spark.conf.unset(key)
        sundog.disable(spark)
        stages = [stage for graph in run.graphs for stage in graph.stages]
        return {
            "name": case["name"],
            "equal": rows == plain,
            "rows": len(rows),
            "seconds": run.seconds,
            "accelerated": run.accelerated,
            "placement": run.placement,
            "reasons": run.fallback_reasons,
            "metrics": run.metrics,
            "plan": run.plan,
            "stages": [[each.number, each.purpose] for each in stages if each.place is Place.EXECUTORS],
            "tasks": {record.number: record.tasks for records in run.stages for record in records},
            "shared": [stage.number for stage in stages if stage.process_tasks],
            "hit": injection.hit,
            "marked": sorted(mark.name for mark in marks.iterdir()),
            "seen": self._seen(case["fault"]),
            "processes": sorted([int(part) for part in note.stem.split("-")] for note in notes.glob("*.note")),
        }

    def _seen(self, fault: str | None) -> dict[str, int]:
        """What Spark reports of the case: failed tasks by reason, copies of slow ones, lost executors."""
        seen: dict[str, int] = {}
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            for event in self._events():
                for name in _what_happened(event):
                    seen[name] = seen.get(name, 0) + 1
            is_complete = fault not in ("executor", "taken away") or "ExecutorRemoved" in seen
            if is_complete or time.monotonic() > deadline:
                return seen
            time.sleep(0.2)

    def _events(self) -> Iterator[dict[str, Any]]:
        """Of the log, since this was last asked for."""
        self._spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        for file in self._log.iterdir():
            with file.open("rb") as stream:
                stream.seek(self._read)
                for line in stream:
                    if not line.endswith(b"\n"):
                        break
                    self._read += len(line)
                    yield json.loads(line)

    def _wait_until_taken(self) -> None:
        """Until dynamic allocation has ended the executors."""
        self._wait_until(lambda: self._executor_count() == 0)

    def _executor_count(self) -> int:
        infos = self._spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
        return len(infos) - 1  # the driver is one

    @staticmethod
    def _wait_until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.2)


def _what_happened(event: dict[str, Any]) -> Iterator[str]:
    match event["Event"]:
        case "SparkListenerTaskEnd":
            if event["Task Info"]["Speculative"]:
                yield "Speculative"
            if event["Task End Reason"]["Reason"] != "Success":
                yield event["Task End Reason"]["Reason"]
        case "SparkListenerExecutorRemoved":
            yield "ExecutorRemoved"
        case "SparkListenerStageCompleted" if event["Stage Info"]["Stage Attempt ID"]:
            yield "StageRepeated"


if __name__ == "__main__":
    from tests.spark import cluster_job  # so that workers find its functions by name

    cluster_job.main(*sys.argv[1:])
