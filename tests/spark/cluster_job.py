"""Runs as a program of its own against a standalone cluster: `cluster_job.py MASTER FOLDER CASES`, answers in JSON.

CASES is a JSON list of objects: `name`; `sql`; `confs`, set for this case alone; `kill`: None, "executor", or the number
of a stage, one of whose Python workers kills itself, once; `frame`: whether the rows go to Spark, not to the driver.
Each is answered by plain Spark first, then by sundog.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark import TaskContext as SparkTaskContext

import sundog
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.plan.stages import Output, Pipeline, Place, Stage, StageGraph
from tests.spark.cluster import executor_pids

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
}


def main(master: str, folder: str, cases: str) -> None:
    spark = sundog.session(master=master, confs=CONFS)
    for table in Path(folder).glob("*.table"):
        spark.read.parquet(str(table)).createOrReplaceTempView(table.stem)
    plain: dict[str, list[str]] = {}
    for case in json.loads(cases):
        if case["sql"] not in plain:
            plain[case["sql"]] = sorted(map(str, spark.sql(case["sql"]).collect()))
        print("ANSWER " + json.dumps(_answer(spark, Path(folder), case, plain[case["sql"]])), flush=True)
    spark.stop()


def _answer(spark: Any, folder: Path, case: dict[str, Any], plain: list[str]) -> dict[str, Any]:
    sundog.enable(spark)
    for key, value in case["confs"].items():
        spark.conf.set(key, value)
    if case["kill"] == "executor":
        threading.Thread(target=_kill_executor, args=(folder / "work",), daemon=True).start()
    notes = Path(tempfile.mkdtemp(dir=folder))
    mark = notes / "killed"
    with _watched_by(notes, case["kill"], mark):
        frame = sundog.accelerate(spark.sql(case["sql"])) if case["frame"] else spark.sql(case["sql"])
        rows = sorted(map(str, frame.collect()))
    run = sundog.last_run()
    for key in case["confs"]:
        spark.conf.unset(key)
    sundog.disable(spark)
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
        "shared": [stage.number for graph in run.graphs for stage in graph.stages if stage.process_tasks],
        "was_killed": mark.exists(),
        "processes": sorted([int(part) for part in note.stem.split("-")] for note in notes.glob("*.note")),
    }


def _kill_executor(work: Path) -> None:
    """As soon as sundog's first job runs."""
    time.sleep(0.3)
    for pid in executor_pids(work)[:1]:
        os.kill(pid, signal.SIGKILL)


@dataclass(frozen=True)
class KillOnce(Operator):
    """The same rows; but the first process that meets one kills itself, and leaves the file `mark` behind."""

    input_schema: pa.Schema
    mark: str

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            try:
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)

    def describe(self) -> str:
        return "KillOnce"


@dataclass(frozen=True)
class NoteProcess(Operator):
    """The same rows; process, cores of its task and partition make the name of a file in `notes`."""

    input_schema: pa.Schema
    notes: str
    stage: int

    @property
    def schema(self) -> pa.Schema:
        return self.input_schema

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        task = SparkTaskContext.get()
        note = [self.stage, os.getpid(), 0 if task is None else task.cpus(), context.partition]
        Path(self.notes, "-".join(map(str, note)) + ".note").touch()  # in the name, which no kill cuts off
        yield from batches

    def describe(self) -> str:
        return "NoteProcess"


@contextmanager
def _watched_by(notes: Path, kill: int | str | None, mark: Path) -> Iterator[None]:
    """Each stage on executors, if it has an operator, notes its processes; that of number `kill` has a `KillOnce`."""
    end = StageGraph.end

    def ending(graph: StageGraph, rows: Pipeline, output: Output) -> Stage:
        number = len(graph.stages)
        if rows.place is Place.EXECUTORS and rows.operators:
            schema = rows.operators[-1].schema
            rows = rows.then(NoteProcess(schema, str(notes), number))
            rows = rows.then(KillOnce(schema, str(mark))) if number == kill else rows
        return end(graph, rows, output)

    with patch.object(StageGraph, "end", ending):
        yield


if __name__ == "__main__":
    from tests.spark import cluster_job  # so that executors find KillOnce by its name

    cluster_job.main(*sys.argv[1:4])
