"""Runs as a program of its own: `memory_job.py FOLDER QUERIES CONFS`, what each query took of a worker's memory as JSON.

One slot, so that there is one Python worker, and a fresh one for each query. A task gives unused memory back to the
system, notes its resident set, and at its end the peak, which Linux sets back on demand. The first task of a stage loads
code and kernels, which are no data: it does not count where there are others.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import sundog
from sundog.runtime import spark as runtime
from sundog.runtime.blocks import StageFunction

CONFS = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sundog.onInternalError": "raise",
    "spark.sundog.learn": "false",
    "spark.sundog.placement": "executors",
}


@dataclass(frozen=True)
class MeasuredStage(StageFunction):
    """Notes stage, resident set at the start, and peak, in kilobytes, as the name of a file."""

    notes: str = field(kw_only=True)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.collect()
        pa.default_memory_pool().release_unused()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        start = _kilobytes("VmRSS")
        try:
            yield from super().__call__(batches)
        finally:
            note = (self.stage, start, _kilobytes("VmHWM"), os.getpid(), time.monotonic_ns())
            Path(self.notes, "-".join(map(str, note))).touch()


def _kilobytes(name: str) -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])


def main(folder: str, queries: str, confs: str) -> None:
    """Each query has `{table}` in it, for which a folder `small` and a folder `large` stand."""
    spark = sundog.session(master="local[1]", confs={**CONFS, **json.loads(confs)})
    for name, query in json.loads(queries).items():
        print("ANSWER " + json.dumps({"name": name, **_measured(spark, folder, query)}), flush=True)
    spark.stop()


def _measured(spark: Any, folder: str, query: str) -> dict[str, Any]:
    for table in ("small", "large"):
        spark.read.parquet(f"{folder}/{table}").createOrReplaceTempView(table)
    plain = sorted(map(str, spark.sql(query.format(table="large")).collect()))
    sundog.enable(spark)
    _run(spark, query.format(table="small"))
    rows, tasks = _run(spark, query.format(table="large"))
    run = sundog.last_run()
    sundog.disable(spark)
    for pid in {pid for *_, pid, _ in tasks}:  # the next query has a fresh one
        os.kill(pid, signal.SIGKILL)
    taken: dict[int, list[int]] = {}
    for stage, start, peak, *_ in sorted(tasks, key=lambda task: task[-1]):
        taken.setdefault(stage, []).append(1024 * (peak - start))
    peaks = {stage: max(sizes[1:] or sizes) for stage, sizes in taken.items()}
    purposes = {stage.number: stage.purpose for graph in run.graphs for stage in graph.stages}
    return {
        "equal": rows == plain,
        "accelerated": run.accelerated,
        "reasons": run.fallback_reasons,
        "bytes": run.metrics.get("bytes_decoded", 0),
        "spilled": run.metrics.get("spilled_bytes", 0),
        "tasks": len(tasks),
        "peak": max(peaks.values(), default=0),
        "stages": {f"{number} {purposes.get(number)}": peak for number, peak in peaks.items()},
    }


def _run(spark: Any, query: str) -> tuple[list[str], list[list[int]]]:
    notes = tempfile.mkdtemp()

    def measured(**fields: Any) -> MeasuredStage:
        return MeasuredStage(**fields, notes=notes)

    with patch.object(runtime, "StageFunction", measured):
        rows = sorted(map(str, spark.sql(query).collect()))
    return rows, [[int(part) for part in note.name.split("-")] for note in Path(notes).iterdir()]


if __name__ == "__main__":
    from tests.spark import memory_job  # so that workers find MeasuredStage by its name

    memory_job.main(*sys.argv[1:])
