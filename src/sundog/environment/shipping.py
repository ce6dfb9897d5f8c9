"""Checks once per Spark application, with a tiny job, whether its executors can run sundog's stages.

Executors need pyarrow, numpy, numba and pandas in their Python; these have compiled parts and must be installed there
(`docs/cluster.md`). sundog itself is pure Python, and the driver sends it if it is missing. If a package is missing, a
warning says so host by host, and the application runs sundog's plans on the driver only.
"""

from __future__ import annotations

import atexit
import os
import py_compile
import shutil
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

NEEDED = ("pyarrow", "numpy", "numba", "pandas")
NOT_SENT = ("benchmarks", "cli.py", "commands", "demo", "simulate")  # parts of this package that no other part imports

_lock = threading.Lock()
_problems: dict[str, str | None] = {}  # application id -> the problem, or None


def ensure_executors(session: SparkSession) -> None:
    """Check this application's executors once; send sundog to them; warn of missing packages."""
    context = session.sparkContext
    with _lock:
        if context.applicationId in _problems:
            return
        problem = None if _runs_in_our_environment(context) else _check(context)
        _problems[context.applicationId] = problem
    if problem is not None:
        warnings.warn(f"{problem} Until then sundog runs on the driver only.", stacklevel=3)


def executor_problem(session: SparkSession) -> str | None:
    """Why this application's executors cannot run sundog's stages, or None if they can."""
    return _problems.get(session.sparkContext.applicationId)


def _runs_in_our_environment(context: SparkContext) -> bool:
    """Whether executors use the driver's own Python, as with a local master: then there is nothing to check."""
    if not str(context.master).startswith("local") or str(context.master).startswith("local-cluster"):
        return False
    python = shutil.which(context.pythonExec)
    return python is not None and os.path.abspath(python) == os.path.abspath(sys.executable)


def _check(context: SparkContext) -> str | None:
    findings = probe_executors(context)
    if any("sundog" in finding["missing"] for finding in findings):
        context.addPyFile(str(zip_of_this_package()))
        findings = probe_executors(context)
    sentences = sorted(
        {
            f"The Python {finding['python']} on {finding['host']} lacks {', '.join(finding['missing'])}: "
            "install it there or point PYSPARK_PYTHON at an environment that has it (docs/cluster.md)."
            for finding in findings
            if finding["missing"]
        }
    )
    return " ".join(sentences) or None


def probe_executors(context: SparkContext) -> list[dict[str, Any]]:
    """The environment of the executors' Python workers: host, executable, versions, missing packages."""
    slots = max(2, context.defaultParallelism)
    found: list[dict[str, Any]] = context.parallelize(range(slots), slots).mapPartitions(_probe_function()).collect()
    unique = {(f["host"], f["python"]): f for f in found}
    return [unique[key] for key in sorted(unique)]


def _probe_function() -> Callable[[Iterator[int]], Iterator[dict[str, Any]]]:
    """A function that is pickled by value (it is local), since the workers may have no sundog to import it from."""
    wanted = NEEDED

    def probe(_: Iterator[int]) -> Iterator[dict[str, Any]]:
        import importlib
        import platform
        import socket
        import sys as worker_sys

        versions, missing = {}, []
        for name in (*wanted, "sundog"):
            try:
                versions[name] = getattr(importlib.import_module(name), "__version__", "?")
            except ImportError:
                missing.append(name)
        yield {
            "host": socket.gethostname(),
            "python": worker_sys.executable,
            "python_version": platform.python_version(),
            "versions": versions,
            "missing": missing,
        }

    return probe


def zip_of_this_package() -> Path:
    """This package as an archive that Python imports from, without what only people on the driver run.

    With its bytecode: Python keeps none of what it imports from an archive, so that each worker would compile the
    sources again, which makes 0.6 s of processor time of 0.2. Another version of Python than the driver's, which
    pyspark refuses anyway, would read the sources.
    """
    package = Path(__file__).parents[1]
    folder = Path(tempfile.mkdtemp(prefix="sundog-ship-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # Spark serves it to executors as long as it runs
    target = folder / "sundog.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(package.rglob("*")):
            place = source.relative_to(package)
            if source.is_file() and "__pycache__" not in place.parts and place.parts[0] not in NOT_SENT:
                archive.write(source, Path("sundog") / place)
                if source.suffix == ".py":
                    archive.write(_bytecode(source, place, folder), Path("sundog") / place.with_suffix(".pyc"))
    return target


def _bytecode(source: Path, place: Path, folder: Path) -> str:
    """A file with the module's bytecode, which Python takes as it is: the archive's sources do not change."""
    return str(
        py_compile.compile(
            str(source),
            cfile=str(folder / "bytecode" / place.with_suffix(".pyc")),
            dfile=f"sundog/{place.as_posix()}",
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    )
