"""Values that the workers of an executor share: the same for all, in one mapped file, which is deleted when no process
maps it."""

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
from sundog.plan.sites import Cluster, TravelRule
from sundog.runtime.broadcasts import SharedValues, load_sharing
from sundog.runtime.processes.mapping import Mapped, mapped_file

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


APPLICATION = "executor-0dd3c4c4-91f4-4c6e-8a0e-d1b7a0b3c1e7"


@pytest.mark.parametrize("application", [APPLICATION, "application_1763500000000_0042"])
def test_executors_of_an_application_share_one_file(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, application: str
) -> None:
    """Also where Spark gives them their disks in another order. What none maps any more is removed, what another
    executor maps is not."""
    dump = tmp_path_factory.mktemp("dump") / "value"
    disks = [tmp_path / disk / application for disk in ("a", "b")]
    executors = []
    try:
        dump.write_bytes(pickle.dumps(Mapped(np.arange(1 << 20))))
        for number in range(2):
            own = [disk / f"blockmgr-{number}" for disk in disks[:: 1 if number == 0 else -1]]
            for each in own:
                each.mkdir(parents=True)
            given = {**os.environ, "SPARK_LOCAL_DIRS": ",".join(map(str, own))}
            command = [sys.executable, "-c", WORKER, str(dump)]
            executors.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=given))
            output = executors[-1].stdout
            assert output is not None
            assert int(output.readline()) == sum(range(1 << 20))
            if number == 0:
                [path] = files_below(tmp_path)
                assert path.parent == disks[0]
        assert files_below(tmp_path) == [path]
        executors[0].kill()  # the one that wrote it
        executors[0].communicate()
        others = write_another(tmp_path, disks[0] / "blockmgr-0")
        assert files_below(tmp_path) == sorted([path, *others])
        executors[1].kill()
        executors[1].communicate()
        others = write_another(tmp_path, disks[0] / "blockmgr-1")
        assert files_below(tmp_path) == others
    finally:
        for executor in executors:
            executor.kill()
            executor.communicate()


def write_another(root: Path, folder: Path) -> list[Path]:
    """The files of one more value, which is not mapped any more when this returns."""
    before = set(files_below(root))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_DIRS", str(folder))
        assert pickle.loads(pickle.dumps(Mapped(np.arange(1000)))).sum() == 499_500
    gc.collect()
    return [path for path in files_below(root) if path not in before]


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("sundog-shared-*") if not path.name.endswith("lock"))


@pytest.mark.parametrize(
    "above", ["tmp", "spark-0dd3c4c4-91f4-4c6e-8a0e-d1b7a0b3c1e7", "executor-7", f"{APPLICATION}.old"]
)
def test_a_folder_that_may_be_of_others_too_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: str
) -> None:
    own = tmp_path / above / "blockmgr-1"
    own.mkdir(parents=True)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(own))
    found = pickle.loads(pickle.dumps(Mapped(np.arange(1000))))
    assert found.sum() == 499_500
    assert [path.parent for path in files_below(tmp_path)] == [own]


def test_an_executor_that_must_not_write_above_its_folder_has_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / APPLICATION / "blockmgr-1"
    own.mkdir(parents=True)
    (tmp_path / APPLICATION / "sundog-shared-lock").mkdir()  # cannot be opened, also not by root
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(own))
    found = pickle.loads(pickle.dumps(Mapped(np.arange(1000))))
    assert found.sum() == 499_500
    assert [path.parent for path in files_below(tmp_path)] == [own]


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

    def broadcast(self, value: object) -> Any:
        data = pickle.dumps(value)

        class Broadcast:
            value = property(lambda _: pickle.loads(data))

        return Broadcast()


@pytest.mark.parametrize("encrypted", [False, True])
def test_nothing_is_written_to_the_disk_of_a_cluster_that_encrypts(folder: Path, encrypted: bool) -> None:
    build = build_side(scattered=True)
    cluster = Cluster("yarn", {"spark.io.encryption.enabled": str(encrypted).lower()}, True, True)
    shared = SharedValues(Context(), TravelRule.of(cluster, DRIVER))
    found = load_sharing(shared.dump([build]), shared.broadcasts)[0]
    assert found.columns.equals(build.columns)
    assert len(files(folder)) == (0 if encrypted else 1)
    assert os.environ["SPARK_LOCAL_DIRS"].startswith(str(folder))
