"""Values that the workers of an executor share: the same for all, in one file, which goes when nobody maps it."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sundog.columns.arrow import from_arrow
from sundog.expr.nodes import Column
from sundog.operators.join.build_side import BuildSide
from sundog.plan.costs import DRIVER
from sundog.runtime.processes.mapping import Mapped, mapped_file
from sundog.runtime.sharing import SharedValues, load_sharing

LONG = pa.int64()
fcntl = pytest.importorskip("fcntl")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/not/used")
    return tmp_path


def files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.endswith("lock")]


def build_side(scattered: bool, text: bool = False) -> BuildSide:
    """By hash if its keys are scattered; else by value."""
    keys = np.arange(50_000) * (7919 if scattered else 1)
    names = pa.array([f"a name that is not stored inline {key}" for key in keys.tolist()])
    batch = pa.record_batch({"k": pa.array(keys), "name": names, "v": pa.array(np.arange(50_000) * 0.5)})
    key = Column("name", pa.string()) if text else Column("k", LONG)
    return BuildSide.of([batch], batch.schema, [key], (False,), DRIVER)


@pytest.mark.parametrize(("scattered", "text"), [(False, False), (True, False), (True, True)])
def test_a_mapped_build_side_is_the_same(folder: Path, scattered: bool, text: bool) -> None:
    build = build_side(scattered, text)
    dumped = pickle.dumps(Mapped(build))
    found: BuildSide = pickle.loads(dumped)
    again: BuildSide = pickle.loads(dumped)
    [path] = files(folder)
    assert path.stat().st_mode & 0o077 == 0
    assert path.stat().st_size >= build.columns.nbytes
    assert found.nbytes == build.nbytes
    assert found.columns.equals(build.columns)
    assert again.columns.equals(build.columns)
    keys = [from_arrow(build.columns.column("name" if text else "k").slice(7, 99))]
    expected = build.index.find(keys, 99).tolist()
    assert found.index.find(keys, 99).tolist() == again.index.find(keys, 99).tolist() == expected
    for array in (found.index.starts, found.index.rows):  # else kernels would be compiled once more
        assert array.flags.writeable
        assert array.flags.aligned
    address = found.columns.column("v").buffers()[1].address
    assert str(path) in _mapping_of(address)


def _mapping_of(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(end, 16) for end in line.split()[0].split("-"))
        if low <= address < high:
            return line
    return ""


def test_a_file_goes_when_nobody_maps_it_and_another_is_written(folder: Path) -> None:
    first, second = (pickle.dumps(Mapped(np.full(1000, number))) for number in (1, 2))
    one = pickle.loads(first)
    [path] = files(folder)
    two = pickle.loads(second)
    assert len(files(folder)) == 2
    assert (one[0], two[0]) == (1, 2)
    del one
    gc.collect()
    three = pickle.loads(pickle.dumps(Mapped(np.full(1000, 3))))
    assert path not in files(folder)
    assert len(files(folder)) == 2
    assert (two[-1], three[-1]) == (2, 3)


def test_what_a_killed_worker_left_half_written_goes_too(folder: Path) -> None:
    (folder / "sundog-shared-0123.abcd").write_bytes(b"half")
    found = pickle.loads(pickle.dumps(Mapped(np.arange(1000))))
    assert found.sum() == 499_500
    assert len(files(folder)) == 1


WORKER = """
import pickle, sys
value = pickle.load(open(sys.argv[1], "rb"))
print(int(value.sum()), flush=True)
sys.stdin.readline()
"""


def test_processes_that_come_at_once_share_one_file(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    dump = tmp_path_factory.mktemp("dump") / "value"
    dump.write_bytes(pickle.dumps(Mapped(np.arange(1 << 20))))
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, dump], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert int(worker.stdout.readline()) == sum(range(1 << 20))
        [path] = files(folder)
        assert _still_maps(path)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    assert not _still_maps(path)  # locks end with a worker, also with one that is killed


def _still_maps(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.parametrize("reason", ["no folder", "folder is gone", "other size"])
def test_a_worker_that_cannot_map_has_its_own_copy(folder: Path, monkeypatch: Any, reason: str) -> None:
    packed = Mapped(np.arange(1000))
    if reason == "no folder":
        monkeypatch.delenv("SPARK_LOCAL_DIRS")
    elif reason == "folder is gone":
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(folder / "gone"))
    else:
        (folder / packed._name).write_bytes(b"not the data")
    found = pickle.loads(pickle.dumps(packed))
    assert found.tolist() == list(range(1000))
    assert found.flags.writeable
    assert mapped_file(packed._name, packed._data) is None


class Context:
    """As much of a SparkContext as broadcast variables need."""

    def __init__(self, encrypted: bool) -> None:
        self.conf = {"spark.io.encryption.enabled": str(encrypted).lower()}

    def getConf(self) -> dict[str, str]:  # noqa: N802
        return self.conf

    def broadcast(self, value: object) -> Any:
        data = pickle.dumps(value)

        class Broadcast:
            value = property(lambda _: pickle.loads(data))

        return Broadcast()


@pytest.mark.parametrize("encrypted", [False, True])
def test_nothing_is_written_to_the_disk_of_a_cluster_that_encrypts(folder: Path, encrypted: bool) -> None:
    build = build_side(scattered=True)
    shared = SharedValues(Context(encrypted))
    found = load_sharing(shared.dump([build]), shared.broadcasts)[0]
    assert found.columns.equals(build.columns)
    assert len(files(folder)) == (0 if encrypted else 1)
    assert os.environ["SPARK_LOCAL_DIRS"].startswith(str(folder))
