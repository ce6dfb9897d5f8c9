"""Kernels keep IEEE arithmetic, and their machine code on disk serves many processes without ever serving wrong
code."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError

import sundog.kernels
from sundog.kernels.cache.code_cache import code_folder
from sundog.kernels.compile import kernel, register_warmup, warm_up

LOOPS = """
from sundog.kernels.compile import kernel

@kernel(inline=True)
def twice(value):
    return value * {factor}

@kernel
def total(values):
    result = values[0] * 0
    for i in range(len(values)):
        result += twice(values[i])
    return result
"""

RUN = """
import json, sys
import numpy as np
from {module} import total
print("ready", flush=True)
sys.stdin.readline()
answers = [total(np.arange(10, dtype=kind)) for kind in sys.argv[1].split()]
print(json.dumps(dict(
    answer=" ".join(map(str, answers)),
    compiled=sum(total.stats.cache_misses.values()),
    loaded=sum(total.stats.cache_hits.values()),
    file=sys.modules[total.__module__].__file__,
    compiler="numba.np.linalg" in sys.modules,
)))
"""


class Worker:
    """A Python process that has imported the loops and waits for `go` before it calls one."""

    def __init__(
        self,
        cache: Path,
        path: Path,
        kinds: str = "int64",
        module: str = "loops",
        before: Callable[[], object] | None = None,
    ) -> None:
        folders = os.pathsep.join([str(path), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "SUNDOG_CACHE_DIR": str(cache), "PYTHONPATH": folders}
        self._process = subprocess.Popen(
            [sys.executable, "-c", RUN.format(module=module), kinds],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=before,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def outcome(self) -> dict[str, Any]:
        out, _ = self._process.communicate(timeout=120)
        assert self._process.returncode == 0
        result: dict[str, Any] = json.loads(out)
        return result


def outcome(*args: Any, **kwargs: Any) -> dict[str, Any]:
    worker = Worker(*args, **kwargs)
    worker.go()
    return worker.outcome()


@pytest.fixture
def loops(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "loops.py").write_text(LOOPS.format(factor=2))
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def entries(cache: Path) -> list[Path]:
    return sorted(cache.rglob("loops.total-*.code"))


def give_up_root_powers() -> None:
    """Root may write anywhere; take that right from a child, so that a read-only folder is read-only for it as well."""
    drop_from_bounding_set, dac_override = 24, 1
    ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override, 0, 0, 0)


def test_four_processes_on_an_empty_cache_agree_and_one_compiles(cache: Path, loops: Path) -> None:
    workers = [Worker(cache, loops) for _ in range(4)]
    for worker in workers:
        worker.go()
    outcomes = [worker.outcome() for worker in workers]
    assert {each["answer"] for each in outcomes} == {"90"}
    assert sorted(each["compiled"] for each in outcomes) == [0, 0, 0, 1]
    later = outcome(cache, loops)
    assert (later["answer"], later["compiled"], later["loaded"]) == ("90", 0, 1)
    assert not later["compiler"], "a process that only loads code does not set up numba's compiler"
    leftovers = [path.name for path in cache.rglob("*") if path.is_file() and path.suffix != ".code"]
    assert leftovers == []


def test_processes_that_compile_for_different_types_at_once_do_not_mix_up_the_code(cache: Path, loops: Path) -> None:
    kinds = ["int64", "float64", "int32"]
    workers = [Worker(cache, loops, kind) for kind in kinds]
    for worker in workers:
        worker.go()
    expected = ["90", "90.0", "90"]
    assert [worker.outcome()["answer"] for worker in workers] == expected
    later = outcome(cache, loops, " ".join(kinds))
    assert (later["answer"], later["loaded"]) == ("90 90.0 90", 3)


def test_edited_source_is_not_answered_from_old_code(cache: Path, loops: Path) -> None:
    assert outcome(cache, loops)["answer"] == "90"
    # longer by a digit: within a second, Python's own cache sees no other edit
    (loops / "loops.py").write_text(LOOPS.format(factor=30))
    assert outcome(cache, loops)["answer"] == "1350"


def test_damaged_entry_is_compiled_again_and_repaired(cache: Path, loops: Path) -> None:
    outcome(cache, loops)
    (entry,) = entries(cache)
    entry.write_bytes(entry.read_bytes()[:-100])
    repaired = outcome(cache, loops)
    assert (repaired["answer"], repaired["compiled"]) == ("90", 1)
    assert outcome(cache, loops)["loaded"] == 1


def test_read_only_cache_serves_what_it_has_and_takes_nothing(cache: Path, loops: Path) -> None:
    outcome(cache, loops)
    before = entries(cache)
    folders = [cache, *(path for path in cache.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        result = outcome(cache, loops, "int64 float64", before=give_up_root_powers)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert (result["answer"], result["loaded"], result["compiled"]) == ("90 90.0", 1, 1)
    assert entries(cache) == before


def test_cache_folder_that_cannot_exist_is_done_without(tmp_path: Path, loops: Path) -> None:
    (tmp_path / "file").write_text("")
    result = outcome(tmp_path / "file" / "below", loops)
    assert (result["answer"], result["compiled"]) == ("90", 1)


def zipped(path: Path, factor: int) -> Path:
    """The kernels package as `addPyFile` would send it, with two more modules: a loop, and the helper it calls."""
    helper, loop = LOOPS.format(factor=factor).split("@kernel\n")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sundog/__init__.py", "")
        package = Path(sundog.kernels.__path__[0])
        for module in package.rglob("*.py"):
            archive.write(module, f"sundog/kernels/{module.relative_to(package).as_posix()}")
        archive.writestr("sundog/kernels/helper.py", helper)
        imports = "from sundog.kernels.compile import kernel\nfrom sundog.kernels.helper import twice\n"
        archive.writestr("sundog/kernels/loops.py", f"{imports}\n@kernel\n{loop}")
    return path


def test_kernels_in_a_zip_compile_and_are_cached(tmp_path: Path, cache: Path) -> None:
    archive = zipped(tmp_path / "sundog.zip", factor=2)
    first = outcome(cache, archive, module="sundog.kernels.loops")
    assert first["file"].startswith(str(archive))
    assert (first["answer"], first["compiled"]) == ("90", 1)
    elsewhere = archive.rename(tmp_path / "other-name.zip")
    second = outcome(cache, elsewhere, module="sundog.kernels.loops")
    assert (second["answer"], second["loaded"]) == ("90", 1)


def test_helper_edited_in_another_module_is_noticed(tmp_path: Path, cache: Path) -> None:
    assert outcome(cache, zipped(tmp_path / "a.zip", factor=2), module="sundog.kernels.loops")["answer"] == "90"
    assert outcome(cache, zipped(tmp_path / "b.zip", factor=3), module="sundog.kernels.loops")["answer"] == "135"


@kernel
def ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator


@kernel
def add_in_order(values: np.ndarray) -> float:
    result = 0.0
    for value in values:
        result += value
    return result


def test_arithmetic_is_ieee() -> None:
    assert ratio(1.0, 0.0) == np.inf
    assert np.isnan(ratio(0.0, 0.0))
    assert np.signbit(ratio(-0.0, 1.0))
    values = np.array([1e16, 1.0, -1e16, 1.0])
    assert add_in_order(values) == 1.0  # any other order of additions gives 0 or 2
    assert np.isnan(add_in_order(np.array([np.nan, 1.0])))


def test_kernels_release_the_gil() -> None:
    assert ratio.targetoptions["nogil"] is True  # type: ignore[attr-defined]
    assert not ratio.targetoptions["fastmath"]  # type: ignore[attr-defined]


def test_first_calls_from_many_threads() -> None:
    start = threading.Barrier(8)

    @kernel
    def squares(values: np.ndarray) -> float:
        result = 0.0
        for value in values:
            result += value * value
        return result

    def call(_: int) -> float:
        start.wait()
        return squares(np.arange(100.0))

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(call, range(8))) == {328350.0}


def test_failed_compilation_raises_and_keeps_no_lock(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUNDOG_CACHE_DIR", str(cache))
    with pytest.raises(TypingError):
        ratio("text", 1.0)  # type: ignore[arg-type]
    folder = code_folder()
    assert folder is not None
    assert folder.is_dir()
    assert list(folder.iterdir()) == []


def test_closure_works_and_is_not_cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUNDOG_CACHE_DIR", str(cache))

    def times(factor: int) -> Any:
        @kernel
        def multiply(value: int) -> int:
            return value * factor

        return multiply

    assert [times(factor)(7) for factor in (2, 3)] == [14, 21]
    assert not list(cache.rglob("*.code"))


def test_warm_up_prepares_signatures_and_makes_registered_calls() -> None:
    @kernel(signatures=["int64(int64)", "float64(float64)"])
    def add_one(value: Any) -> Any:
        return value + 1

    calls = []
    register_warmup(lambda: calls.append(ratio(1.0, 2.0)))
    first = warm_up()
    assert len(add_one.signatures) == 2  # type: ignore[attr-defined]
    assert calls == [0.5]
    assert first.compiled + first.loaded >= 2
    assert first.seconds > 0
    again = warm_up()
    assert (again.compiled, again.loaded) == (0, 0)
