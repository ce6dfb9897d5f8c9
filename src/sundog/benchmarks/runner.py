"""Runs cases on engines: a process per engine, one engine at a time, on the same cores, and compares the answers.

An engine in a process of its own has its own memory peak and its own warm or cold state, and its crash does not end the
others. One that exceeds the time limit is ended and started again for the next cases.

A shared machine changes its speed within minutes. Engines that run all of their cases one after the other may then meet
different speeds; with `in_turns` all of them are started, and each case runs on all before the next one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from time import monotonic, sleep

import pyarrow as pa

import sundog
from sundog.benchmarks.agree import difference
from sundog.benchmarks.cases.model import Case, DataRef
from sundog.benchmarks.data.catalog import find_data_set
from sundog.benchmarks.engines.catalog import find_engine, label_of, plain_spark_beside
from sundog.benchmarks.engines.cluster import end_processes_in
from sundog.benchmarks.job import NEXT_CASE, CaseJob, Job, Message
from sundog.benchmarks.processes import PeakMemory, machine, process_tree
from sundog.benchmarks.results import Measurement, Results, Status

Folders = Mapping[DataRef, Path]

_START_SECONDS = 180
_END_SECONDS = 20
_STDERR_LINES = 3
_THE_END = object()
_SPARK_FAMILIES = ("spark", "sundog")  # the same decimals to the last digit


@dataclass(frozen=True)
class Settings:
    cores: int
    warmup: int = 1
    repeat: int = 3
    enough_seconds: float = 60
    timeout_seconds: float = 600
    isolate: bool = False
    """A new process for each case: exact memory peaks and first runs, at the cost of a start for each."""
    in_turns: bool = False
    """Each case on all engines before the next one, at the cost of the memory of all of them."""
    settle_seconds: float = 2
    """In turns: idle time before each engine's turn, since a JVM goes on compiling and collecting after its own."""
    pythons: Mapping[str, str] = field(default_factory=dict)
    """Other interpreters, by engine (one whose packages do not go with ours) or by the label after its `@`."""
    cluster: str | None = None
    """Executors and cores of a standalone cluster for each engine, such as 2x4, on the cores given; else local
    sessions."""

    def python(self, engine: str) -> str | None:
        """The other interpreter for an engine; None if it runs in ours."""
        return self.pythons.get(label_of(engine) or engine)


@dataclass(frozen=True)
class Update:
    """For a progress display: this engine is now at this case (None: starting), or finished it with this result."""

    engine: str
    case: str | None
    finished: Measurement | None = None


Listener = Callable[[Update], None]


def run_benchmark(
    cases: list[Case], engines: list[str], folders: Folders, settings: Settings, command: str, listen: Listener
) -> Results:
    """Measure every case on every engine, one engine after the other or in turns, and check that they agree.

    An interrupt ends the engines that are running and gives what was measured until then.
    """
    sessions: list[_EngineSession] = []
    interrupted = False
    with tempfile.TemporaryDirectory(prefix="sundog-bench-") as scratch:
        answers = {
            (case.name, engine): Path(scratch) / f"{place}-{engine}.arrow"
            for place, case in enumerate(cases)
            for engine in engines
        }
        try:
            for together in _together(cases, engines, settings):
                missing = {session.engine for session in sessions if session.unavailable}
                started = [
                    _EngineSession(engine, batch, folders, answers, settings, Path(scratch), listen)
                    for engine, batch in together
                    if engine not in missing
                ]
                sessions += started
                _run_in_turns(started, settings.settle_seconds if len(started) > 1 else 0)
        except KeyboardInterrupt:
            interrupted = True
        measured = [measurement for session in sessions for measurement in session.measurements]
        measurements = _with_agreement(measured, cases, answers)
    return Results(
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=command,
        machine=machine(settings.cores),
        settings={
            name: getattr(settings, name)
            for name in (
                *("cores", "warmup", "repeat", "enough_seconds", "timeout_seconds", "isolate", "in_turns"),
                "cluster",
            )
        },
        versions={session.engine: session.versions for session in sessions if session.versions},
        data={_label(ref): folder.name for ref, folder in folders.items()},
        unavailable={session.engine: session.unavailable for session in sessions if session.unavailable},
        interrupted=interrupted,
        measurements=measurements,
    )


def _together(cases: list[Case], engines: list[str], settings: Settings) -> Iterator[list[tuple[str, list[Case]]]]:
    """The groups of engines that run in turns, with the cases of each."""
    batches = [[case] for case in cases] if settings.isolate else [cases]
    if settings.in_turns:
        yield from ([(engine, batch) for engine in engines] for batch in batches)
    else:
        yield from ([(engine, batch)] for engine in engines for batch in batches)


def _run_in_turns(sessions: list[_EngineSession], settle_seconds: float) -> None:
    running = [session.steps() for session in sessions]

    def goes_on(steps: Generator[None]) -> bool:
        sleep(settle_seconds)
        return next(steps, _THE_END) is not _THE_END

    try:
        while running:
            running = [steps for steps in running if goes_on(steps)]
    finally:
        for steps in running:
            steps.close()


def _label(ref: DataRef) -> str:
    return ref.name if ref.scale == 1 else f"{ref.name} x {ref.scale}"


class _EngineSession:
    """One engine over its cases, through as many processes as time-outs and crashes make necessary."""

    def __init__(
        self,
        engine: str,
        cases: list[Case],
        folders: Folders,
        answers: Mapping[tuple[str, str], Path],
        settings: Settings,
        scratch: Path,
        listen: Listener,
    ) -> None:
        self.engine, self._settings, self._scratch, self._listen = engine, settings, scratch, listen
        self._waiting = {case.name: case for case in cases}
        self._folders, self._answers = folders, answers
        self._hangs = False
        self.versions: dict[str, str] = {}
        self.unavailable: str | None = None
        self.measurements: list[Measurement] = []

    def steps(self) -> Generator[None]:
        """Start the engine, then measure one case with each step. Between steps it is idle."""
        while self._waiting and self.unavailable is None:
            before = len(self._waiting)
            yield from self._run_process()
            if len(self._waiting) == before and self.unavailable is None:
                self.unavailable = "the process ended without measuring anything"

    def _run_process(self) -> Generator[None]:
        stderr_path = self._scratch / f"{self.engine}.stderr"
        self._cluster_folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=self._scratch))
        self._listen(Update(self.engine, None))
        with stderr_path.open("w") as stderr:
            process = subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=self._environment(),
                start_new_session=True,
            )
            try:
                yield from self._converse(process, stderr_path)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0 if self._hangs else _END_SECONDS)
            finally:
                _end(process)
                if self._settings.cluster is not None:
                    end_processes_in(self._cluster_folder)

    def _converse(self, process: subprocess.Popen[str], stderr_path: Path) -> Generator[None]:
        _tell(process, self._job().to_json())
        with ExitStack() as watching:
            yield from self._follow(process, _messages(process), watching, stderr_path)

    def _follow(
        self, process: subprocess.Popen[str], messages: Queue[Message | None], watching: ExitStack, stderr_path: Path
    ) -> Generator[None]:
        """Record the process's messages until they end. `watching` ends the measuring of memory, after errors too."""
        current: str | None = None
        memory: PeakMemory | None = None
        self._hangs = False
        deadline = monotonic() + _START_SECONDS
        while True:
            try:
                message = messages.get(timeout=max(0.0, deadline - monotonic()))
            except Empty:
                self._hangs, message = True, None
            if message is None:
                if (ending := self._ending(current, stderr_path)) is not None:
                    self._finish(ending)
                return
            match message.kind:
                case "unavailable":
                    self.unavailable = message.values["why"]
                case "ready":
                    self.versions = message.values["versions"]
                case "start":
                    current = message.values["case"]
                    memory = PeakMemory(process.pid).start()
                    watching.callback(memory.stop)
                    self._listen(Update(self.engine, current))
                case "done" | "skipped" | "failed":
                    assert current is not None
                    assert memory is not None
                    watching.close()
                    measured = _measurement(current, self.engine, message, memory)
                    current = memory = None
                    self._finish(measured)
            if current is None and self._waiting and self.unavailable is None:
                yield
                _tell(process, NEXT_CASE)
            deadline = monotonic() + self._settings.timeout_seconds

    def _ending(self, current: str | None, stderr_path: Path) -> Measurement | None:
        """What the end of the messages means: a time-out or crash in a case, a failed start, or simply the end."""
        if current is not None and self._hangs:
            return Measurement(current, self.engine, Status.TIMEOUT, f"over {self._settings.timeout_seconds:g} s")
        if current is not None:
            return Measurement(current, self.engine, Status.FAILED, f"the process ended: {_tail(stderr_path)}")
        if self._hangs:
            self.unavailable = f"did not start within {_START_SECONDS} s"
        elif not self.versions and self.unavailable is None:
            self.unavailable = f"could not start: {_tail(stderr_path)}"
        return None

    def _finish(self, measurement: Measurement) -> None:
        del self._waiting[measurement.case]
        self.measurements.append(measurement)
        self._listen(Update(self.engine, measurement.case, measurement))

    def _job(self) -> Job:
        settings = self._settings
        jobs = []
        for case in self._waiting.values():
            tables = find_data_set(case.data.name).folders(self._folders[case.data])
            answer = self._answers[case.name, self.engine]
            jobs.append(CaseJob(case.name, {name: str(folder) for name, folder in tables.items()}, str(answer)))
        name = find_engine(self.engine).name
        measured = (settings.cores, settings.warmup, settings.repeat, settings.enough_seconds)
        return Job(name, *measured, jobs, settings.cluster, str(self._cluster_folder))

    def _command(self) -> list[str]:
        python = self._settings.python(self.engine) or sys.executable
        return [python, "-m", "sundog.benchmarks.worker", str(os.getpid())]

    def _environment(self) -> dict[str, str]:
        cores = str(self._settings.cores)
        limits = (
            "POLARS_MAX_THREADS",
            "TOKIO_WORKER_THREADS",
            "RAYON_NUM_THREADS",
            "NUMBA_NUM_THREADS",
            "OMP_NUM_THREADS",
        )
        environment = {**os.environ, **dict.fromkeys(limits, cores)}
        if self._settings.python(self.engine) is not None:
            environment["PYTHONPATH"] = str(self._only_sundog())
        return environment

    def _only_sundog(self) -> Path:
        """A folder with a link to sundog alone, for an interpreter with packages of its own."""
        folder = self._scratch / "path"
        folder.mkdir(exist_ok=True)
        link = folder / "sundog"
        if not link.exists():
            link.symlink_to(Path(sundog.__file__).parent, target_is_directory=True)
        return folder


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write(line + "\n")
        process.stdin.flush()


def _messages(process: subprocess.Popen[str]) -> Queue[Message | None]:
    """The process's lines as they come, then None."""
    queue: Queue[Message | None] = Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            queue.put(Message.from_line(line))
        queue.put(None)

    Thread(target=read, daemon=True).start()
    return queue


def _end(process: subprocess.Popen[str]) -> None:
    """End what is left of the process and of everything it started; a JVM asked politely removes its temporary
    files."""
    for number, patience in ((signal.SIGTERM, _END_SECONDS), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            if not process_tree(process.pid):
                return


def _measurement(case: str, engine: str, message: Message, memory: PeakMemory) -> Measurement:
    values = {name: value for name, value in message.values.items() if name != "case"}
    if message.kind != "done":
        return Measurement(case, engine, Status(message.kind), values["note"])
    return Measurement(
        case, engine, Status.OK, peak_bytes=memory.total_bytes, peak_bytes_by_role=memory.by_role, **values
    )


def _tail(path: Path) -> str:
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-_STDERR_LINES:]) or "it said nothing"


def _with_agreement(
    measurements: list[Measurement], cases: list[Case], answers: Mapping[tuple[str, str], Path]
) -> list[Measurement]:
    """Compare each answer with plain Spark's in the same interpreter, or with the first answer if Spark has none."""
    checked: dict[tuple[str, str], Measurement] = {}
    for case in cases:
        answered = {
            m.engine: m
            for m in measurements
            if m.case == case.name and m.status is Status.OK and answers[m.case, m.engine].exists()
        }
        for engine, measurement in answered.items():
            oracle = next(name for name in (plain_spark_beside(engine), "spark", *answered) if name in answered)
            if engine == oracle:
                continue
            expected, actual = (_read_answer(answers[case.name, name]) for name in (oracle, engine))
            is_spark = find_engine(engine).family in _SPARK_FAMILIES
            wrong = difference(expected, actual, case.check, exact_decimals=is_spark)
            note = measurement.note if wrong is None else f"differs from {oracle}: {wrong}"
            checked[case.name, engine] = replace(measurement, agrees=wrong is None, note=note)
    return [checked.get((m.case, m.engine), m) for m in measurements]


def _read_answer(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as source:
        return pa.ipc.open_file(source).read_all()
