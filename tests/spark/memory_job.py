"""Runs as a program of its own: `memory_job.py MASTER FOLDER QUERIES CONFS [uncapped]`, what each query took of a
worker's memory as JSON. `uncapped`: tasks have the budget of their setting, whatever memory there is.

One slot, or one executor whose slots share a process, so that there is one Python worker, and a fresh one for each
query. A task gives unused memory back to the system, notes its resident set, and at its end the peak, which Linux sets
back on demand, and the peak of its address space. Code and kernels are no data: a query is asked before, so that they
are loaded, and the first task of a stage does not count where there are others.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import sundog
from sundog.machine import Machine, address_limit_bytes
from sundog.operators.context import DEFAULT_MEMORY_BYTES, ProcessShare, TaskLimits
from sundog.plan import sites
from sundog.plan.costs import Costs
from sundog.plan.sites import Cluster, executors_site
from sundog.plan.stages import Site
from sundog.runtime import execute
from sundog.runtime import spark as runtime
from sundog.runtime.blocks import StageFunction
from sundog.runtime.processes.stage import ProcessFunction
from sundog.versions import spark_version

CONFS = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sundog.onInternalError": "raise",
    "spark.sundog.learn": "false",
    "spark.sundog.placement": "executors",
}
_FEW_ROWS = 100_000


class _Measured:
    """Notes stage, resident set at the start, peaks in kilobytes, and limit of the address space, as the name of a
    file."""

    notes: str
    stage: int

    def measured(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.collect()
        pa.default_memory_pool().release_unused()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        start = _kilobytes("VmRSS")
        try:
            yield from rows
        finally:
            peaks = (_kilobytes("VmHWM"), _kilobytes("VmPeak"))
            note = (self.stage, start, *peaks, address_limit_bytes() or 0, os.getpid(), time.monotonic_ns())
            Path(self.notes, "-".join(map(str, note))).touch()


@dataclass(frozen=True)
class MeasuredStage(StageFunction, _Measured):
    notes: str = field(kw_only=True)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.measured(super().__call__(batches))


@dataclass(frozen=True)
class MeasuredProcess(ProcessFunction, _Measured):
    notes: str = field(kw_only=True)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.measured(super().__call__(batches))


def _kilobytes(name: str) -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])


@dataclass(frozen=True)
class UncappedLimits(TaskLimits):
    def on_machine(self, machine: Machine) -> TaskLimits:
        return self


def main(master: str, folder: str, queries: str, confs: str, budgets: str = "capped") -> None:
    """Each query has `{table}` in it, for which a folder `small` and a folder `large` stand."""
    spark = sundog.session(master=master, confs={**CONFS, **json.loads(confs)})

    def limits(memory_bytes: int, block_bytes: int, costs: Costs, process: ProcessShare) -> TaskLimits:
        kind, memory = (TaskLimits, memory_bytes) if budgets == "capped" else (UncappedLimits, DEFAULT_MEMORY_BYTES)
        return kind(memory, block_bytes, costs.waiting_share, costs.machine_share, costs, process)

    def site(cluster: Cluster, *rest: Any) -> Site:
        return executors_site(cluster if budgets == "capped" else replace(cluster, conf={}), *rest)

    with patch.object(execute, "task_limits", limits), patch.object(sites, "executors_site", site):
        for name, query in json.loads(queries).items():
            print("ANSWER " + json.dumps({"name": name, **_measured(spark, folder, query)}), flush=True)
    spark.stop()


def _measured(spark: Any, folder: str, query: str) -> dict[str, Any]:
    for table in ("small", "large"):
        spark.read.parquet(f"{folder}/{table}").createOrReplaceTempView(table)
    plain = answer_of(spark.sql(query.format(table="large")))
    sundog.enable(spark)
    run_measured(spark, query.format(table="small"))
    if not spark.sparkContext.master.startswith("local"):  # a stage then has one task for each process
        run_measured(spark, query.format(table="large"))
    rows, tasks = run_measured(spark, query.format(table="large"))
    run = sundog.last_run()
    sundog.disable(spark)
    for pid in {pid for *_, pid, _ in tasks}:  # the next query has a fresh one
        with suppress(ProcessLookupError):  # one that has met its limit
            os.kill(pid, signal.SIGKILL)
    taken: dict[int, list[int]] = {}
    for stage, start, peak, *_ in sorted(tasks, key=lambda task: task[-1]):
        taken.setdefault(stage, []).append(1024 * (peak - start))
    peaks = {stage: max(sizes[1:] or sizes) for stage, sizes in taken.items()}
    stages = [stage for graph in run.graphs for stage in graph.stages]
    purposes = {stage.number: stage.purpose for stage in stages}
    return {
        "equal": rows == plain,
        "accelerated": run.accelerated,
        "reasons": run.fallback_reasons,
        "bytes": run.metrics.get("bytes_decoded", 0),
        "spilled": run.metrics.get("spilled_bytes", 0),
        "tasks": len(tasks),
        "shared": [stage.number for stage in stages if stage.process_tasks],
        "peak": max(peaks.values(), default=0),
        "resident": max((1024 * peak for _, _, peak, *_ in tasks), default=0),
        "address": max((1024 * peak for _, _, _, peak, *_ in tasks), default=0),
        "limits": sorted({limit for *_, limit, _, _ in tasks}),
        "stages": {f"{number} {purposes.get(number)}": peak for number, peak in peaks.items()},
    }


def answer_of(frame: Any) -> list[str]:
    """The rows in any order; of many rows a digest of them in their order."""
    table = spark_version().to_arrow(frame).combine_chunks()
    if table.num_rows <= _FEW_ROWS:
        return sorted(map(str, table.to_pylist()))
    digest = hashlib.sha256()
    for batch in table.to_batches(max_chunksize=_FEW_ROWS):
        for column in batch.columns:
            digest.update("\n".join(map(str, column.to_pylist())).encode())
    return [f"{table.num_rows} rows {digest.hexdigest()}"]


def run_measured(spark: Any, query: str) -> tuple[list[str], list[list[int]]]:
    """The answer, and what the tasks noted."""
    notes = tempfile.mkdtemp()

    def measured(kind: Any) -> Any:
        return lambda **fields: kind(**fields, notes=notes)

    with (
        patch.object(runtime, "StageFunction", measured(MeasuredStage)),
        patch.object(runtime, "ProcessFunction", measured(MeasuredProcess)),
    ):
        rows = answer_of(spark.sql(query))
    return rows, [[int(part) for part in note.name.split("-")] for note in Path(notes).iterdir()]


if __name__ == "__main__":
    from tests.spark import memory_job  # so that workers find its classes by name

    memory_job.main(*sys.argv[1:])
