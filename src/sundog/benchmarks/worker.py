"""The process that holds one engine and measures it: job on stdin, messages on stdout, the runner's id as argument.

Each case waits for a line from the runner, which may let other engines run in between. Whatever an engine prints goes
to stderr, so that only messages reach the runner. A case that fails does not stop the ones after it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from threading import Thread
from time import perf_counter, sleep
from typing import Any

import pyarrow as pa

from sundog.benchmarks.cases.catalog import find_case
from sundog.benchmarks.cases.model import Case
from sundog.benchmarks.engines.catalog import find_engine
from sundog.benchmarks.engines.model import Answer, Cluster, Engine, EngineUnavailable, NotForThisEngine
from sundog.benchmarks.job import CaseJob, Job, Message
from sundog.benchmarks.processes import cpu_seconds

Send = Callable[[str, dict[str, Any]], None]
Run = tuple[Answer, float, float | None]  # with its seconds, and those of all processors

_WATCH_SECONDS = 1.0
_WARM_SECONDS, _MEASURED_SECONDS = 3.0, 1.0  # of a short query's runs
_MOST_SHORT_RUNS = 50


def main() -> None:
    _end_with_the_runner(int(sys.argv[1]))
    send = _claim_stdout()
    job = Job.from_json(sys.stdin.readline())
    _keep_to_cores(job.cores)
    spec = find_engine(job.engine)
    try:
        cluster = None if job.cluster is None else Cluster(job.cluster, Path(job.cluster_folder))
        engine = spec.make(job.cores, cluster)
    except ImportError as problem:
        send("unavailable", {"why": f"{problem.name or problem} is not installed"})
        return
    except EngineUnavailable as problem:
        send("unavailable", {"why": str(problem)})
        return
    send("ready", {"versions": engine.versions()})
    named: dict[str, str] | None = None
    for case_job in job.cases:
        case = find_case(case_job.name)
        sys.stdin.readline()
        send("start", {"case": case.name})
        try:
            if spec.family in case.unsupported:
                raise NotForThisEngine(case.unsupported[spec.family])
            if case_job.tables != named:
                engine.use({name: Path(folder) for name, folder in case_job.tables.items()})
                named = case_job.tables
            send("done", {"case": case.name, **_measure(engine, case, case_job, job)})
        except NotForThisEngine as reason:
            send("skipped", {"case": case.name, "note": str(reason)})
        except Exception as problem:
            send("failed", {"case": case.name, "note": _one_line(problem)})
    engine.close()


def _end_with_the_runner(runner: int) -> None:
    """A runner that is killed cannot end its engines: an engine that loses its parent ends itself and its children."""

    def watch() -> None:
        while os.getppid() == runner:
            sleep(_WATCH_SECONDS)
        os.killpg(os.getpgrp(), signal.SIGTERM)

    Thread(target=watch, daemon=True).start()


def _claim_stdout() -> Send:
    messages = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def send(kind: str, values: dict[str, Any]) -> None:
        messages.write(Message(kind, values).to_line())
        messages.flush()

    return send


def _keep_to_cores(cores: int) -> None:
    """For this process and all that it starts: no engine gets more by having threads of its own."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def _measure(engine: Engine, case: Case, case_job: CaseJob, job: Job) -> dict[str, Any]:
    begin = perf_counter()
    first, first_seconds, first_cpu = _timed(engine, case)
    _keep(first.table, case_job.answer_file)
    runs = [(first, first_seconds, first_cpu)]
    if first_seconds < job.enough_seconds:
        until = begin + job.enough_seconds
        if job.warmup:
            _repeated(engine, case, job.warmup, until, _WARM_SECONDS)
        runs = _repeated(engine, case, job.repeat, until, _MEASURED_SECONDS)
    return {
        "first_seconds": first_seconds,
        "first_cpu_seconds": first_cpu,
        "seconds": [seconds for _, seconds, _ in runs],
        "cpu_seconds": [cpu for _, _, cpu in runs if cpu is not None],
        "rows": first.rows,
        "facts": _facts([answer for answer, _, _ in runs]),
        "note": "one run only: it was long" if runs[0][0] is first else None,
    }


def _repeated(engine: Engine, case: Case, times: int, until: float, seconds: float) -> list[Run]:
    """The case run `times` times, fewer if the time limit is reached. Short runs are repeated until `seconds` have
    passed: the JVM compiles code that runs often, which takes processor time from the query."""
    start = perf_counter()
    runs = [_timed(engine, case)]
    while (len(runs) < times and perf_counter() < until) or (
        len(runs) < _MOST_SHORT_RUNS and perf_counter() - start < seconds
    ):
        runs.append(_timed(engine, case))
    return runs


def _facts(answers: list[Answer]) -> dict[str, Any]:
    """The facts of the last run, with the median of its times over all runs."""
    facts = dict(answers[-1].facts)
    for name in ("planning_seconds", "execution_seconds"):
        if name in facts:
            facts[name] = median(answer.facts[name] for answer in answers)
    return facts


def _timed(engine: Engine, case: Case) -> Run:
    cpu_before = cpu_seconds(os.getpid())
    start = perf_counter()
    answer = engine.run(case)
    taken = perf_counter() - start
    cpu_after = cpu_seconds(os.getpid())
    used = None if cpu_before is None or cpu_after is None else cpu_after - cpu_before
    return answer, taken if answer.measured_seconds is None else answer.measured_seconds, used


def _keep(table: pa.Table | None, path: str) -> None:
    if table is not None:
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)


def _one_line(problem: Exception) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[0] if lines else ''}"[:400]


if __name__ == "__main__":
    main()
