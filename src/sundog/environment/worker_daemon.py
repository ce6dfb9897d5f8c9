"""The process that an executor's Python workers are forked from, with all loaded that sundog's stages need.

    spark.python.daemon.module = sundog.environment.worker_daemon        (read when Spark starts, and only then)

pyspark's own daemon forks workers that have imported nothing. Each of them loads pyspark, pyarrow, pandas, numba and
sundog, a second of processor time; an executor with 8 cores has 8 of them, and Spark ends those that were idle for a
minute. Here they are loaded once for each executor, before the first fork.

pyspark does not do so because a library may start threads when it is imported, and only the thread that forks lives on
in the child. Those that are imported here start two: one of NumPy's OpenBLAS and one of pyarrow's jemalloc. Both
libraries have handlers for a fork. Nothing is computed here, so no thread pool of Arrow's exists. NumPy's random
numbers are seeded at import, and would be the same in all workers: each seeds its own.

Whatever goes wrong here leaves pyspark's daemon as it is, with a line in the executor's log.
"""

from __future__ import annotations

import gc
import os
import pkgutil
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

MODULE = "sundog.environment.worker_daemon"
_MODULES = ("pyspark.worker", "pandas", "pyarrow.pandas_compat", "sundog.runtime.processes.stage")
_OPERATORS = "sundog.operators"  # all modules in it: a stage is made of these


def preload() -> None:
    """Import what workers need, and make numba ready to load kernels."""
    for name in _MODULES:
        import_module(name)
    for module in pkgutil.walk_packages(import_module(_OPERATORS).__path__, f"{_OPERATORS}."):
        import_module(module.name)
    from sundog.kernels.compile import compile_check

    compile_check()
    os.register_at_fork(after_in_child=_seed)
    gc.collect()
    gc.freeze()  # what is here stays: no worker goes through it again, and its memory remains shared


def _seed() -> None:
    import numpy as np

    np.random.seed()


@contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """Spark reads the daemon's port from its output, which nothing else may write to."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def main() -> None:
    with _stdout_kept_clean():
        try:
            preload()
        except Exception:  # a worker will say what is wrong, to the query that needs it
            sys.stderr.write(f"sundog could not be loaded ahead of Python workers:\n{traceback.format_exc()}")
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
