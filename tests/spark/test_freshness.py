"""Which rows a DataFrame sees after its files changed: the ones that plain Spark sees, or Spark's error, each by name.

Every change is made to two copies of the same table, one queried by plain Spark and one by sundog, since a query of
Spark may leave something behind (a listing, a cached relation) that the next query of either would use.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sundog
from tests.oracle.plain_spark import plain_spark
from tests.spark.test_relations import outcome

pytestmark = [pytest.mark.spark, pytest.mark.thin(2)]


@pytest.fixture(scope="module")
def session(enabled: Any) -> Any:
    return enabled


@pytest.fixture
def tables(session: Any) -> Iterator[tuple[str, str]]:
    names = ("fresh_ours", "fresh_theirs")
    for name in names:
        session.sql(f"DROP TABLE IF EXISTS {name}")
    yield names
    for name in names:
        session.sql(f"DROP TABLE IF EXISTS {name}")


def write(path: Path, low: int, high: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(range(low, high))}), path, compression="NONE", use_dictionary=False)


def folder(path: Path) -> Path:
    write(path / "a.parquet", 0, 100)
    write(path / "b.parquet", 100, 200)
    return path


def top(frame: Any) -> Any:
    return frame.orderBy(frame.id.desc()).limit(5)


def held(session: Any, make: Callable[[], Any], change: Callable[[], None]) -> list[Any]:
    """What a held top-k, a frame derived from the held one, and a fresh frame give, before and after the change."""
    frame = make()
    first = top(frame)
    results = [outcome(first)]
    change()
    runs = [outcome(first), outcome(top(frame)), outcome(frame.groupBy().count())]
    return [*results, *runs, outcome_of(lambda: top(make()))]


def outcome_of(make: Callable[[], Any]) -> list[str] | str:
    """The outcome of a frame whose making may raise already: Spark reads a footer to find the schema."""
    try:
        frame = make()
    except Exception as error:
        return type(error).__name__
    return outcome(frame)


def assert_same_after(
    session: Any, tmp_path: Path, change: Callable[[Path], None], start: Callable[[Path], Path] = folder
) -> list[Any]:
    """The change to a folder of files, on plain Spark and with sundog."""
    with plain_spark(session):
        theirs_at = start(tmp_path / "theirs")
        theirs = held(session, lambda: session.read.parquet(str(theirs_at)), lambda: change(theirs_at))
    ours_at = start(tmp_path / "ours")
    ours = held(session, lambda: session.read.parquet(str(ours_at)), lambda: change(ours_at))
    assert ours == theirs
    return theirs


def by_spark(session: Any) -> Callable[[Path], Path]:
    """A folder that Spark wrote: with the checksum files of Hadoop's local file system."""

    def make(path: Path) -> Path:
        session.range(0, 200, 1, 2).write.parquet(str(path))
        return path

    return make


def test_a_file_that_was_added_is_not_seen_by_a_held_frame(session: Any, tmp_path: Path) -> None:
    assert_same_after(session, tmp_path, lambda path: write(path / "c.parquet", 200, 300))


def test_a_file_that_was_removed(session: Any, tmp_path: Path) -> None:
    found = assert_same_after(session, tmp_path, lambda path: os.remove(path / "b.parquet"))
    assert "Error" in found[1] or "Exception" in found[1]


@pytest.mark.parametrize("ignored", ["true", "false"])
def test_a_file_that_was_removed_with_ignore_missing_files(session: Any, tmp_path: Path, ignored: str) -> None:
    session.conf.set("spark.sql.files.ignoreMissingFiles", ignored)
    try:
        assert_same_after(session, tmp_path, lambda path: os.remove(path / "b.parquet"))
    finally:
        session.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_a_file_that_was_emptied_is_sparks_error(session: Any, tmp_path: Path) -> None:
    found = assert_same_after(session, tmp_path, lambda path: os.truncate(path / "b.parquet", 0))
    assert isinstance(found[1], str)


def test_a_file_that_was_emptied_with_ignore_corrupt_files(session: Any, tmp_path: Path) -> None:
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        assert_same_after(session, tmp_path, lambda path: os.truncate(path / "b.parquet", 0))
    finally:
        session.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_a_file_that_was_rewritten_with_fewer_rows(session: Any, tmp_path: Path) -> None:
    assert_same_after(session, tmp_path, lambda path: write(path / "b.parquet", 500, 520))


def test_a_file_that_was_rewritten_with_more_row_groups_than_were_listed(session: Any, tmp_path: Path) -> None:
    def larger(path: Path) -> None:
        pq.write_table(pa.table({"id": list(range(1000, 5000))}), path / "b.parquet", row_group_size=100)

    assert_same_after(session, tmp_path, larger)


def test_a_file_that_was_rewritten_with_the_same_name_size_and_second(session: Any, tmp_path: Path) -> None:
    def rewritten(path: Path) -> None:
        before = os.stat(path / "b.parquet")
        write(path / "b.parquet", 300, 400)
        assert os.stat(path / "b.parquet").st_size == before.st_size
        os.utime(path / "b.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))

    found = assert_same_after(session, tmp_path, rewritten)
    assert found[0] != found[1]


def test_a_file_that_was_replaced_by_another_inode_with_the_same_times(session: Any, tmp_path: Path) -> None:
    def replaced(path: Path) -> None:
        before = os.stat(path / "b.parquet")
        write(path / "new", 300, 400)
        os.utime(path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
        os.replace(path / "new", path / "b.parquet")

    assert_same_after(session, tmp_path, replaced)


def test_a_file_of_spark_that_another_writer_rewrote_under_its_checksum(session: Any, tmp_path: Path) -> None:
    def rewritten(path: Path) -> None:
        write(min(path.glob("*.parquet")), 900, 950)

    found = assert_same_after(session, tmp_path, rewritten, by_spark(session))
    assert isinstance(found[1], str), "Hadoop's checksum file tells Spark that the file is not the one it wrote"


def test_a_copied_folder_with_checksums_is_still_taken(session: Any, tmp_path: Path) -> None:
    by_spark(session)(tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "second", copy_function=shutil.copyfile)
    for path in (tmp_path / "second").glob("*.parquet"):
        os.utime(path, (2_000_000_000, 2_000_000_000))
    outcome(top(session.read.parquet(str(tmp_path / "second"))))
    assert sundog.last_run().accelerated


def test_an_overwrite_of_a_folder_by_spark(session: Any, tmp_path: Path) -> None:
    assert_same_after(
        session, tmp_path, lambda path: session.range(1000, 1010).write.mode("overwrite").parquet(str(path))
    )


def test_an_append_to_a_folder_by_spark(session: Any, tmp_path: Path) -> None:
    assert_same_after(session, tmp_path, lambda path: session.range(1000, 1010).write.mode("append").parquet(str(path)))


def test_a_refresh_by_path_after_a_file_was_added(session: Any, tmp_path: Path) -> None:
    def added(path: Path) -> None:
        write(path / "c.parquet", 200, 300)
        session.catalog.refreshByPath(str(path))

    assert_same_after(session, tmp_path, added)


CHANGES: dict[str, Callable[[Any, str], None]] = {
    "insert": lambda session, name: session.sql(f"INSERT INTO {name} SELECT id + 1000 FROM range(10)"),
    "insert overwrite": lambda session, name: session.sql(f"INSERT OVERWRITE {name} SELECT id + 1000 FROM range(10)"),
    "save as table": lambda session, name: session.range(7).write.mode("overwrite").saveAsTable(name),
    "drop and create as select": lambda session, name: (
        session.sql(f"DROP TABLE {name}"),
        session.sql(f"CREATE TABLE {name} USING parquet AS SELECT id + 50 AS id FROM range(30)"),
    ),
    "file added": lambda session, name: write(location(session, name) / "c.parquet", 500, 600),
    "file added and refresh table": lambda session, name: (
        write(location(session, name) / "c.parquet", 500, 600),
        session.sql(f"REFRESH TABLE {name}"),
    ),
    "truncate": lambda session, name: session.sql(f"TRUNCATE TABLE {name}"),
}


def location(session: Any, name: str) -> Path:
    rows = session.sql(f"DESCRIBE FORMATTED {name}").where("col_name = 'Location'").collect()
    return Path(rows[0]["data_type"].removeprefix("file:"))


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_after(session: Any, tables: tuple[str, str], change: str) -> None:
    ours_name, theirs_name = tables
    results = []
    for name in (theirs_name, ours_name):
        session.range(0, 100, 1, 2).write.saveAsTable(name)

        def run(name: str = name) -> list[Any]:
            return held(session, lambda: session.table(name), lambda: CHANGES[change](session, name))

        if name == theirs_name:
            with plain_spark(session):
                results.append(run())
        else:
            results.append(run())
    theirs, ours = results
    if change in ("insert overwrite", "truncate"):
        # The files that the held frame read are gone. Spark raises, if it was Spark that read them; where sundog did,
        # Spark plans the frame for the first time, and it sees what a fresh one sees.
        assert isinstance(theirs[1], str)
        assert ours[1] == theirs[-1]
        ours[1] = theirs[1]
    assert ours == theirs
