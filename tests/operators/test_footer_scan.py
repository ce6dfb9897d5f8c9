"""Footers that tasks read: equal to those that the driver reads, and never older than the files are now."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.operators.context import TaskContext
from sundog.operators.scan.footers import FooterScan, JobFooters, footer_scans
from sundog.parquet.meta.table_footers import TableFooters, read_as_columns
from sundog.parquet.problems import FileProblem
from sundog.parquet.reading import ReadOptions, ReadSpec
from tests.oracle.batches import FILE_TYPES, arrow_arrays
from tests.parquet.files import cut, data_file, relation, write_file


def job(scans: tuple[FooterScan, ...], reading: ReadSpec) -> JobFooters:
    travelled = pickle.loads(pickle.dumps(scans))
    batches = [batch for scan in travelled for batch in scan.read(TaskContext())]
    return JobFooters([pa.concat_batches(batches)] if batches else [], reading)  # as blocks bring them


def check_same(found: TableFooters, expected: TableFooters) -> None:
    assert found.paths == expected.paths
    for name in ("stamps", "starts", "row_counts", "byte_counts"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert list(found.columns) == list(expected.columns)
    for key, ours in found.columns.items():
        theirs = expected.columns[key]
        sources = [[facts.sources[number] for number in facts.source_of.tolist()] for facts in (ours, theirs)]
        assert sources[0] == sources[1]
        assert ours.sizes.tolist() == theirs.sizes.tolist()
        assert (ours.bounds is None) == (theirs.bounds is None)
        if ours.bounds is not None and theirs.bounds is not None:
            assert ours.bounds.low.tolist() == theirs.bounds.low.tolist()
            assert ours.bounds.high.tolist() == theirs.bounds.high.tolist()
            assert ours.bounds.null_counts.tolist() == theirs.bounds.null_counts.tolist()


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(FILE_TYPES).flatmap(lambda dtype: st.lists(arrow_arrays(dtype, 1, 20), min_size=1, max_size=4)),
    st.integers(1, 3),
    st.booleans(),
)
def test_tasks_tell_what_the_driver_would_read(
    tmp_path_factory: Any, arrays: list[pa.Array], tasks: int, bounded: bool
) -> None:
    folder = tmp_path_factory.mktemp("f")
    paths = [write_file(folder / f"{n}.parquet", cut(pa.table({"c": array}), 7)) for n, array in enumerate(arrays)]
    table = relation(paths, pa.schema([("c", arrays[0].type), ("missing", pa.string())]))
    reading, names = ReadSpec(table.file_columns), frozenset(("c", "missing") if bounded else ())
    found = job(footer_scans(table.files, reading, names, tasks), reading).read(table.files, reading, names)
    check_same(found, read_as_columns(table.files, reading, names))


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [write_file(tmp_path / f"{n}.parquet", cut(pa.table({"c": [n, n + 100]}), 1)) for n in range(6)]


def test_a_file_that_was_rewritten_since_is_read_again(paths: list[Path]) -> None:
    table = relation(paths, pa.schema([("c", pa.int64())]))
    reading, names = ReadSpec(table.file_columns), frozenset(("c",))
    done = job(footer_scans(table.files, reading, names, 2), reading)
    write_file(paths[3], cut(pa.table({"c": [7, 8, 9]}), 1))
    now = tuple(map(data_file, paths))
    check_same(done.read(now, reading, names), read_as_columns(now, reading, names))
    assert done.read(now, reading, names).row_counts.tolist() == [1] * 13


def test_what_a_task_cannot_read_is_read_by_the_driver(paths: list[Path], tmp_path: Path) -> None:
    table = relation(paths, pa.schema([("c", pa.int64())]))
    reading, names = ReadSpec(table.file_columns), frozenset(("c",))
    sound = paths[2].read_bytes()
    paths[2].write_bytes(b"nothing of Parquet")
    scans = footer_scans(table.files, reading, names, 1)
    done = job(scans, reading)
    with pytest.raises(FileProblem, match=r"2\.parquet"):
        done.read(table.files, reading, names)
    paths[2].write_bytes(sound)
    check_same(done.read(table.files, reading, names), read_as_columns(table.files, reading, names))
    assert JobFooters([], reading).read(table.files, reading, names).paths == tuple(f.path for f in table.files)


def test_a_file_that_only_the_driver_has_is_not_passed_over(paths: list[Path]) -> None:
    """An executor without the driver's disk finds none of the files, and may be told to ignore that."""
    table = relation(paths, pa.schema([("c", pa.int64())]), ignore_missing_files=True)
    reading = ReadSpec(table.file_columns, options=ReadOptions(ignore_missing_files=True))
    hidden = [path.rename(path.with_suffix(".hidden")) for path in paths]
    done = job(footer_scans(table.files, reading, frozenset(), 1), reading)
    for path in hidden:
        path.rename(path.with_suffix(".parquet"))
    found = done.read(table.files, reading, frozenset())
    assert found.opened.all()
    assert found.row_counts.tolist() == [1] * 12
