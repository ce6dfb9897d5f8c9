"""The process from which an executor's Python workers are forked, with everything loaded that sundog's stages need.

    spark.python.daemon.module = sundog.environment.worker_daemon        (read when Spark starts, and only then)

pyspark's own daemon forks workers that have imported nothing. Each of them loads pyspark, pyarrow, pandas, numba and
sundog, a second of processor time; an executor with 8 cores has 8 of them, and Spark ends those that were idle for a
minute. Here they are loaded once for each executor, before the first fork.

pyspark's daemon does not do so because a library may start threads when it is imported, and after a fork only the
forking thread exists in the child. The libraries imported here start two: one of NumPy's OpenBLAS and one of pyarrow's
jemalloc. Both have handlers for a fork. Nothing is computed here, so Arrow's thread pools do not exist yet. NumPy's
random numbers are seeded at import, and would be the same in all workers: each worker seeds its own.

If anything fails here, pyspark's daemon stays as it is, with a line in the executor's log.
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
    gc.freeze()  # these objects stay: no worker's collector visits them, and their memory remains shared


def _seed() -> None:
    import numpy as np

    np.random.seed()


@contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """Keep other output away from stdout, from which Spark reads the daemon's port."""
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
        except Exception:  # a worker will report the error, to the query that needs the module
            sys.stderr.write(f"sundog could not be loaded ahead of Python workers:\n{traceback.format_exc()}")
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
