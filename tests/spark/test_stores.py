"""Tables that are not on local disks: footers are kept while a file is the same, and a held listing is not trusted.

A local folder replaces HDFS. Hadoop reads it through a view file system, under the scheme `hdfs`; Arrow's HDFS client
is replaced as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import sundog
from sundog.parquet import file_statuses, filesystem
from sundog.parquet.meta import footer
from sundog.parquet.prune.footer_tables import TABLES
from tests.oracle.plain_spark import plain_spark
from tests.spark.test_relations import outcome, same, settings

pytestmark = pytest.mark.spark
LONG_AGO = 1_700_000_000
_numbers = count()
CONFS = {
    "fs.hdfs.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
    "fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}


class Store:
    """`opened`: the files whose footers were read on the driver."""

    def __init__(self, session: Any, folder: Path, uri: str) -> None:
        self.session = session
        self.folder = folder
        self.uri = uri
        self.opened: list[str] = []

    def write(self, name: str, low: int, rows: int = 100, modified: float = LONG_AGO) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": range(low, low + rows)}), path, compression="NONE", use_dictionary=False)
        os.utime(path, (modified, modified))

    def read(self, name: str) -> Any:
        return self.session.read.parquet(f"{self.uri}/{name}")

    def footers_read(self, frame: Any) -> list[str]:
        """Of which files, in an action of sundog's on the frame."""
        self.opened.clear()
        frame.collect()
        assert sundog.last_run().accelerated, sundog.last_run().fallback_reasons
        return sorted(self.opened)


def top(frame: Any) -> Any:
    return frame.orderBy(frame.id.desc()).limit(3)


@pytest.fixture
def store(enabled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    hadoop = enabled.sparkContext._jsc.hadoopConfiguration()
    host = f"store{next(_numbers)}"  # Hadoop keeps the file system of a host
    found = Store(enabled, tmp_path / "data", f"hdfs://{host}/data")
    confs = {**CONFS, f"fs.viewfs.mounttable.{host}.link./data": found.folder.as_uri()}
    for key, value in confs.items():
        hadoop.set(key, value)
    stand_in = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setitem(filesystem._MAKERS, "hdfs", lambda **arguments: stand_in)
    read = footer._read_unchanged

    def noted(file: Any, *args: Any) -> Any:
        found.opened.append(file.path.rpartition("/")[2])
        return read(file, *args)

    monkeypatch.setattr(footer, "_read_unchanged", noted)
    TABLES.clear()
    with settings(enabled, {"spark.sundog.placement": "driver"}):
        yield found
    for key in confs:
        hadoop.unset(key)


def test_a_second_plan_opens_only_files_with_rows_of_the_answer(store: Store) -> None:
    for number in range(6):
        store.write(f"t/{number}.parquet", 100 * number)
    frame = top(store.read("t"))
    assert len(set(store.footers_read(frame))) == 6
    assert set(store.footers_read(frame)) == {"5.parquet"}
    assert set(store.footers_read(top(store.read("t")))) == {"5.parquet"}, "another listing of the same files"
    store.write("t/3.parquet", 9000, modified=LONG_AGO + 1)
    assert set(store.footers_read(frame)) == {"3.parquet"}, "the only one that is another"
    assert [row.id for row in frame.collect()] == [9099, 9098, 9097]


def test_a_file_that_was_written_just_now_is_read_again(store: Store) -> None:
    """Within a minute: it could be written again in the same second, by a clock that is not ours."""
    for name, age in (("old", 120), ("new", 20)):
        store.write(f"{name}/a.parquet", 0, modified=time.time() - age)
        store.write(f"{name}/b.parquet", 500, modified=time.time() - age)
        frame = top(store.read(name))
        store.footers_read(frame)
        assert ("a.parquet" in store.footers_read(frame)) is (name == "new")


def test_footers_are_not_kept_where_nobody_says_when_a_file_was_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    infos = file_statuses._infos

    def without_times(*args: Any) -> list[fs.FileInfo]:
        return [fs.FileInfo(each.path, each.type, size=each.size) for each in infos(*args)]

    monkeypatch.setattr(file_statuses, "_infos", without_times)
    store.write("t/a.parquet", 0)
    store.write("t/b.parquet", 500)
    frame = top(store.read("t"))
    store.footers_read(frame)
    assert "a.parquet" in store.footers_read(frame)


def test_a_file_system_that_does_not_list_is_read_as_before(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> list[fs.FileInfo]:
        raise PermissionError("no right to list")

    monkeypatch.setattr(file_statuses, "_infos", refused)
    store.write("t/a.parquet", 0)
    store.write("t/b.parquet", 500)
    frame = top(store.read("t"))
    store.footers_read(frame)
    assert "a.parquet" in store.footers_read(frame)
    assert same(store.session, lambda: frame)


def test_a_held_frame_over_a_rewritten_file_of_the_same_size_sees_its_rows(store: Store) -> None:
    """Spark's listing still has the old file. Its bounds must not prune the new one."""
    store.write("t/a.parquet", 0)
    store.write("t/b.parquet", 500)
    frame = top(store.read("t"))
    before = os.stat(store.folder / "t/a.parquet").st_size
    assert same(store.session, lambda: frame) == ["Row(id=597)", "Row(id=598)", "Row(id=599)"]
    store.write("t/a.parquet", 7000, modified=LONG_AGO + 5)
    assert os.stat(store.folder / "t/a.parquet").st_size == before
    assert outcome(frame) == ["Row(id=7097)", "Row(id=7098)", "Row(id=7099)"]
    assert sundog.last_run().accelerated
    with plain_spark(store.session):
        assert outcome(top(store.read("t"))) == ["Row(id=7097)", "Row(id=7098)", "Row(id=7099)"]


def test_a_held_frame_over_a_file_of_another_size_is_left_to_spark(store: Store) -> None:
    store.write("t/a.parquet", 0)
    store.write("t/b.parquet", 500)
    frame = top(store.read("t"))
    same(store.session, lambda: frame)
    store.write("t/a.parquet", 7000, rows=2000)
    frame.collect()
    assert [str(reason)[:12] for reason in sundog.last_run().fallback_reasons] == ["FILE_CHANGED"]
    same(store.session, lambda: top(store.read("t")))


def test_a_file_that_is_gone_raises_sparks_error(store: Store) -> None:
    store.write("t/a.parquet", 0)
    store.write("t/b.parquet", 500)
    frame = store.read("t")
    same(store.session, lambda: top(frame))
    (store.folder / "t/b.parquet").unlink()
    with plain_spark(store.session):
        theirs = outcome(top(frame))
    assert isinstance(theirs, str)
    assert outcome(top(frame)) == theirs
