"""`sundog doctor`: checks of machine and cluster. Each says what is there, what is wrong, and what to do.

A check yields findings and never raises, so that the checks after a failed one still run. The required versions are
those of the package's own metadata.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sundog.config import OPTIONS
from sundog.environment.java import default_driver_memory, ensure_java, major_version, session
from sundog.environment.worker_daemon import MODULE as DAEMON
from sundog.errors import EnvironmentProblem
from sundog.kernels.cache.user_cache import user_cache
from sundog.machine import usable_cores, usable_memory_bytes
from sundog.versions import VERSIONS, short_name
from sundog.versions.tested import environments

if TYPE_CHECKING:
    from sundog.environment.stage_cost import StageCost

OLDEST_PYTHON = (3, 10)
_LITTLE_MEMORY = 3 << 30


class State(Enum):
    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """The result of one check. `advice` says what to do, and is empty if all is well."""

    part: str
    state: State
    seen: str
    advice: str = ""

    def as_dict(self) -> dict[str, str]:
        return {**asdict(self), "state": self.state.value}


def examine(with_executors: bool = True, master: str = "local[2]") -> Iterator[Finding]:
    """All findings, each as it is made. Executors come last: asking them starts Spark."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        python,
        java,
        spark_package,
        tested_together,
        packages,
        spark_environment,
        cache_folder,
        numba,
        machine,
    ]
    findings: list[Finding] = []
    for check in checks:
        for finding in check():
            findings.append(finding)
            yield finding
    if with_executors:
        if any(finding.state is State.WRONG for finding in findings):
            yield Finding("executors", State.WARNING, "not asked", "mend the above first")
        else:
            yield from executors(master)


def settings() -> list[dict[str, str]]:
    """The table of settings with their defaults."""
    return [{"key": option.key, "default": option.default, "meaning": option.doc} for option in OPTIONS.values()]


def python() -> Iterator[Finding]:
    seen = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info >= OLDEST_PYTHON:
        yield Finding("Python", State.OK, seen)
    else:
        yield Finding("Python", State.WRONG, seen, f"use Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or newer")


def java() -> Iterator[Finding]:
    try:
        info = ensure_java()
    except EnvironmentProblem as error:
        yield Finding("Java", State.WRONG, "none that Spark can run on", str(error))
        return
    yield Finding("Java", State.OK, f"{info.version} from {info.source}, JAVA_HOME={info.home}")
    for problem in info.problems:
        if problem.startswith("JAVA_HOME"):
            yield Finding("Java", State.WARNING, problem, "change or unset JAVA_HOME")


def spark_package() -> Iterator[Finding]:
    """Whether pyspark is there. It is not a dependency: a cluster has it already."""
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        if os.environ.get("SPARK_HOME"):
            yield Finding("pyspark", State.OK, "that of SPARK_HOME")
        else:
            yield Finding("pyspark", State.WRONG, "not installed", "pip install 'sundog[spark]'")
        return
    if short_name(version) not in VERSIONS:
        advice = f"sundog knows {', '.join(VERSIONS)}, and leaves any other alone: pip install 'sundog[spark]'"
        yield Finding("pyspark", State.WRONG, version, advice)
    else:
        yield Finding("pyspark", State.OK, version)


def tested_together() -> Iterator[Finding]:
    """Whether the tests passed with this Spark, Python and Java, and when. Others may work as well,
    untested."""
    try:
        spark, java_version = short_name(metadata.version("pyspark")), str(major_version(ensure_java().version))
    except (metadata.PackageNotFoundError, EnvironmentProblem):
        return  # said already
    known = [each for each in environments() if short_name(each.spark) == spark]
    here = f"Spark {spark}, Python {_python_name()} and Java {java_version}"
    for each in known:
        if (each.python, each.java) == (_python_name(), java_version):
            outcomes = {"tests/versions": each.smoke, "other tests": each.others}
            said = "; ".join(f"{name} on {outcome}" for name, outcome in outcomes.items() if outcome is not None)
            yield Finding("tested", State.OK, f"{here} ({said})")
            return
    pairs = ", ".join(f"Python {each.python} and Java {each.java}" for each in known)
    yield Finding("tested", State.OK, f"not {here}, but Spark {spark} with {pairs or 'none'}")


def _python_name() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def packages() -> Iterator[Finding]:
    """Every required dependency, compared with its required version."""
    for requirement in metadata.requires("sundog") or []:
        if "extra ==" in requirement:
            continue
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        wanted = requirement[len(name) :].partition(";")[0].strip()
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding(name, State.WRONG, "not installed", f"pip install '{name}{wanted}'")
            continue
        if satisfies(version, wanted):
            yield Finding(name, State.OK, version)
        else:
            yield Finding(name, State.WRONG, version, f"sundog needs {name}{wanted}: pip install '{name}{wanted}'")


def satisfies(version: str, wanted: str) -> bool:
    """Whether a version is in ranges like `>=2.2,<3`, the only form that sundog declares."""
    have = _numbers(version)
    for comparison, bound in re.findall(r"(>=|<)\s*([0-9.]+)", wanted):
        if (have >= _numbers(bound)) is not (comparison == ">="):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def spark_environment() -> Iterator[Finding]:
    """Variables that make pyspark start another Spark than the one installed with it."""
    home = os.environ.get("SPARK_HOME")
    if home:
        theirs = _spark_version_of(Path(home))
        ours = metadata.version("pyspark")
        if theirs is not None and _numbers(theirs) != _numbers(ours):
            yield Finding(
                "SPARK_HOME", State.WRONG, f"{home} is Spark {theirs}", f"unset it, or install Spark {ours} there"
            )
        else:
            yield Finding("SPARK_HOME", State.OK, home)
    for variable in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if variable in os.environ:
            advice = "unset it for a classic session; of Spark Connect sundog takes those of remote('local[*]') only"
            without_token = os.environ[variable].partition(";")[0]  # sc://host:port/;token=...
            yield Finding(variable, State.WRONG, without_token, advice)


def _spark_version_of(home: Path) -> str | None:
    """From the release notes file of a download, or the jars of any installation."""
    release = home / "RELEASE"
    text = (
        release.read_text() if release.is_file() else " ".join(path.name for path in home.glob("jars/spark-core_*.jar"))
    )
    match = re.search(r"(?:Spark |spark-core_[\d.]+-)(\d+\.\d+\.\d+)", text)
    return match[1] if match else None


def cache_folder() -> Iterator[Finding]:
    found = user_cache()
    if found.path is None:
        advice = (
            "set SUNDOG_CACHE_DIR to a folder of your own that nobody else can write (chmod 700); until then "
            "kernels are "
            "compiled in each process"
        )
        yield Finding("cache folder", State.WARNING, "; ".join(found.problems), advice)
        return
    sizes = [path.stat().st_size for path in found.path.rglob("*") if path.is_file()]
    seen = f"{found.path}, {len(sizes)} files, {sum(sizes) / (1 << 20):.1f} MiB"
    if found.writable:
        yield Finding("cache folder", State.OK, seen)
    else:
        yield Finding("cache folder", State.WARNING, f"{seen}, read-only", "new kernels are compiled in each process")


def numba() -> Iterator[Finding]:
    """Whether numba is installed and can compile here."""
    try:
        from sundog.kernels.compile import compile_check

        seconds = compile_check()
    except Exception as error:
        yield Finding(
            "compiler", State.WRONG, f"{type(error).__name__}: {_first_line(error)}", "reinstall numba and llvmlite"
        )
        return
    yield Finding("compiler", State.OK, f"a kernel was compiled or loaded in {seconds:.2f} s")


def machine() -> Iterator[Finding]:
    yield Finding("cores", State.OK, str(usable_cores()))
    memory = usable_memory_bytes()
    if memory is None:
        yield Finding("memory", State.OK, "unknown")
        return
    given = default_driver_memory() / (1 << 30)
    seen = f"{memory / (1 << 30):.1f} GiB, of which sundog.session gives Spark {given:.1f} GiB"
    if memory < _LITTLE_MEMORY:
        yield Finding(
            "memory", State.WARNING, seen, "set spark.sundog.task.memoryBytes to a fraction of it, such as 256m"
        )
    else:
        yield Finding("memory", State.OK, seen)


def executors(master: str) -> Iterator[Finding]:
    """The Python workers' environment, asked by a job that needs nothing of sundog on executors."""
    from sundog.environment.shipping import ensure_executors, probe_executors
    from sundog.environment.stage_cost import stage_costs  # imports numba and all operators

    try:
        spark = session("sundog doctor", master)
    except Exception as error:
        yield Finding(
            "Spark",
            State.WRONG,
            f"no session on {master}: {_first_line(error)}",
            "Spark says why above; Java, memory and the name of the master are the usual causes",
        )
        return
    try:
        yield Finding("Spark", State.OK, f"{spark.version} on {master}, Java {_java_of(spark)}")
        judged = [judge_executor(seen) for seen in probe_executors(spark.sparkContext)]
        yield from judged
        if all(finding.state is State.OK for finding in judged):
            ensure_executors(spark)
            preloads = spark.sparkContext.getConf().get("spark.python.daemon.module", "") == DAEMON
            for cost in stage_costs(spark):
                yield start_cost(cost, preloads)
    except Exception as error:
        advice = "see docs/cluster.md for how the Python environment gets to the executors"
        yield Finding("executors", State.WRONG, _first_line(error), advice)
    finally:
        spark.stop()


def judge_executor(seen: dict[str, Any]) -> Finding:
    """One executor's Python, as `probe_executors` reports it."""
    part = f"executor on {seen['host']}"
    versions = ", ".join(f"{name} {version}" for name, version in seen["versions"].items())
    text = f"Python {seen['python_version']} at {seen['python']}; {versions}"
    missing = [name for name in seen["missing"] if name != "sundog"]  # sundog is sent by the driver
    theirs, ours = seen["versions"].get("sundog"), metadata.version("sundog")
    if missing:
        advice = f"install {', '.join(missing)} there, or send an environment along (docs/cluster.md)"
        return Finding(part, State.WRONG, text, advice)
    if theirs is not None and theirs != ours:
        return Finding(part, State.WRONG, text, f"the driver has sundog {ours}: install that there, or remove it there")
    return Finding(part, State.OK, text)


def start_cost(cost: StageCost, preloads: bool) -> Finding:
    """The cost of a stage's start on one executor, and whether its workers are forked from a process with sundog
    loaded."""
    warm = "unknown" if cost.warm_seconds is None else f"{cost.warm_seconds:.2f} s"
    how = "forked with sundog loaded" if preloads else f"started empty; see spark.python.daemon.module={DAEMON}"
    seen = (
        f"processor time of a worker to the end of its first stage {cost.cold_seconds:.2f} s, of a later stage {warm}; "
        f"{cost.workers} workers, {how}"
    )
    return Finding(f"stages on {cost.host}", State.OK, seen)


def _java_of(spark: Any) -> str:
    return str(spark._jvm.System.getProperty("java.version"))


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
