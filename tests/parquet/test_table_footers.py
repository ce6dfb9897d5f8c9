"""Footers as columns: equal to those of single files, small, cached by what files are now, and planned by arrays."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sundog.expr.nodes import And, Column, Compare, CompareOp, In, Literal
from sundog.expr.ordering import SortKey
from sundog.expr.rank_columns import MAX_TEXT_BYTES, RankColumn, successor, text_bounds
from sundog.expr.ranks import Rank
from sundog.operators.topk.topk_plan import plan_topk
from sundog.operators.topk.topk_scan import TopKSearch
from sundog.operators.window.ranges.scans import plan_range_scans
from sundog.parquet.meta import table_footers
from sundog.parquet.meta.footer import FOOTERS, read_footers, read_joined
from sundog.parquet.meta.table_footers import (
    ColumnKey,
    TableFooters,
    read_as_columns,
)
from sundog.parquet.problems import FileProblem, FileSchemaProblem
from sundog.parquet.prune import footer_tables as module
from sundog.parquet.prune.access_plan import plan_access
from sundog.parquet.prune.footer_tables import FooterTables
from sundog.parquet.prune.pruning import PruningPredicate, Verdict
from sundog.parquet.prune.table_statistics import TableStatistics
from sundog.parquet.reading import DataFile, ReadOptions, ReadSpec
from sundog.plan.costs import DRIVER
from sundog.simulate.synthetic import SyntheticTable
from sundog.tables.parquet_folder import ParquetFolder
from tests.oracle.batches import FILE_TYPES, arrow_arrays
from tests.parquet.files import cut, data_file, relation, statistics_of, write_file

LONG = pa.int64()


def files_of(folder: Path, arrays: list[pa.Array], rows: int) -> ParquetFolder:
    paths = [
        write_file(folder / f"{number}.parquet", cut(pa.table({"c": array}), rows))
        for number, array in enumerate(arrays)
    ]
    return relation(paths, pa.schema([("c", arrays[0].type), ("missing", pa.string())]))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(FILE_TYPES).flatmap(lambda dtype: st.lists(arrow_arrays(dtype, 1, 30), min_size=1, max_size=3)),
    st.integers(1, 30),
)
def test_columns_of_many_files_are_those_of_each(tmp_path_factory: Any, arrays: list[pa.Array], rows: int) -> None:
    table = files_of(tmp_path_factory.mktemp("t"), arrays, rows)
    reading = ReadSpec(table.file_columns)
    bounded = frozenset(("c", "missing"))
    footers = read_as_columns(table.files, reading, bounded)
    statistics = TableStatistics(table.files, reading, footers, FooterTables().get)
    alone = [statistics_of(replace(table, files=(file,))) for file in table.files]
    for name in ("c", "missing"):
        found, parts = statistics.column(name), [each.column(name) for each in alone]
        for field in ("low", "high", "nulls", "values", "null_counts", "safe"):
            together = [value for part in parts for value in getattr(part, field).tolist()]
            assert getattr(found, field).tolist() == together
    swapped = footers.take(np.arange(len(table.files))[::-1])
    again = TableFooters.concat([swapped.take(np.array([number])) for number in range(len(table.files))])
    assert again.paths == footers.paths[::-1]
    assert sorted(again.row_counts.tolist()) == sorted(footers.row_counts.tolist())
    key = ColumnKey.of(table.file_columns[0], reading.options)
    bounds = again.take(np.arange(len(table.files))[::-1]).columns[key].bounds
    assert bounds is not None
    assert bounds.low.tolist() == statistics.column("c").low.tolist()


RANKS = {
    LONG: st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1])),
    pa.string(): st.binary(max_size=2),
    pa.decimal128(30, 0): st.integers(-3, 3),
}


@given(st.data(), st.sampled_from(list(RANKS)))
def test_rank_columns_compare_as_their_ranks(data: st.DataObject, dtype: pa.DataType) -> None:
    one = st.one_of(st.none(), RANKS[dtype])
    pairs: list[tuple[Any, Any]] = data.draw(st.lists(st.tuples(one, one), max_size=8))
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    columns = RankColumn.of(left, dtype), RankColumn.of(right, dtype)
    known = [a is not None and b is not None for a, b in pairs]
    assert columns[0].less(columns[1]).tolist() == [k and a < b for (a, b), k in zip(pairs, known, strict=True)]
    assert columns[0].less_equal(columns[1]).tolist() == [k and a <= b for (a, b), k in zip(pairs, known, strict=True)]
    assert columns[0].equal(columns[1]).tolist() == [k and a == b for (a, b), k in zip(pairs, known, strict=True)]
    constant: Any = data.draw(RANKS[dtype])
    assert columns[0].below(constant).tolist() == [a is not None and a < constant for a in left]
    assert columns[0].at_least(constant).tolist() == [a is not None and a >= constant for a in left]
    assert columns[0].tolist() == left
    assert RankColumn.of_array(columns[0].to_array(dtype)).tolist() == left
    listed = sorted({rank for rank in right if rank is not None})
    for before_equal, bisect in ((True, bisect_left), (False, bisect_right)):
        places = [-7 if rank is None else bisect(listed, rank) for rank in left]
        assert columns[0].places_in(listed, before_equal, unknown=-7).tolist() == places
    slots = [slot for slot, rank in enumerate(left) if rank is not None]
    for descending in (False, True):
        ordered = columns[0].best_first(np.array(slots, np.int64), descending).tolist()
        assert [left[slot] for slot in ordered] == sorted((left[slot] for slot in slots), reverse=descending)
        assert all(a < b for a, b in pairwise(ordered) if left[a] == left[b])


@given(st.binary(max_size=MAX_TEXT_BYTES + 8), st.binary(max_size=MAX_TEXT_BYTES + 8))
def test_long_strings_lie_within_bounds_that_are_cut(one: bytes, other: bytes) -> None:
    least, greatest = sorted((one * 3, other * 3))
    low, high = text_bounds([least], [greatest])
    cut_low, cut_high = low[0], high[0]
    assert isinstance(cut_low, bytes)
    assert cut_low <= least
    assert len(cut_low) <= MAX_TEXT_BYTES
    assert cut_high is None or (
        isinstance(cut_high, bytes) and greatest <= cut_high and len(cut_high) <= MAX_TEXT_BYTES
    )
    after = successor(one)
    assert after is None or (after > one + b"\xff\xff" and not after.startswith(one))


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all files had been written a while ago."""
    monkeypatch.setattr(module, "SETTLED_NS", -(10**18))


class Reads:
    """Counts the files whose footers are read."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, files: Any, reading: ReadSpec, bounded: frozenset[str]) -> TableFooters:
        self.paths += [os.path.basename(file.path) for file in files]
        return read_as_columns(files, reading, bounded)


@pytest.mark.usefixtures("settled")
def test_only_files_that_are_new_or_changed_are_read(tmp_path: Path) -> None:
    arrays = [pa.array([number, number + 10]) for number in range(5)]
    table = files_of(tmp_path, arrays, 1)
    reading, tables, reads = ReadSpec(table.file_columns), FooterTables(), Reads()
    bounded = frozenset(("c",))
    first = tables.get(table.files, reading, bounded, reads)
    assert sorted(reads.paths) == [f"{number}.parquet" for number in range(5)]
    reads.paths.clear()
    assert tables.get(table.files, reading, bounded, reads).columns == first.columns
    assert tables.get(table.files[1:3], reading, bounded, reads).paths == first.paths[1:3]
    assert tables.unknown(table.files, reading, bounded) == []
    assert reads.paths == []
    write_file(tmp_path / "2.parquet", cut(pa.table({"c": [70, 80, 90]}), 1))
    write_file(tmp_path / "9.parquet", [pa.table({"c": [5]})])
    now = tuple(data_file(tmp_path / f"{number}.parquet") for number in (0, 9, 2, 4))
    assert [file.path for file in tables.unknown(now, reading, bounded)] == [now[1].path, now[2].path]
    found = tables.get(now, reading, bounded, reads)
    assert reads.paths == ["9.parquet", "2.parquet"]
    assert found.paths == tuple(file.path for file in now)
    assert found.row_counts.tolist() == [1, 1, 1, 1, 1, 1, 1, 1]
    bounds = found.columns[ColumnKey.of(table.file_columns[0], reading.options)].bounds
    assert bounds is not None
    assert bounds.low.tolist() == [0, 10, 5, 70, 80, 90, 4, 14]


@pytest.mark.usefixtures("settled")
def test_bounds_are_added_to_what_is_known_of_a_table(tmp_path: Path) -> None:
    table = files_of(tmp_path, [pa.array([1]), pa.array([2])], 1)
    reading, tables, reads = ReadSpec(table.file_columns), FooterTables(), Reads()
    for name in ("c", "missing"):
        tables.get(table.files, reading, frozenset((name,)), reads)
    reads.paths.clear()
    tables.get(table.files, reading, frozenset(("c", "missing")), reads)
    assert reads.paths == []


def test_a_file_that_was_just_written_is_not_kept(tmp_path: Path) -> None:
    table = files_of(tmp_path, [pa.array([1])], 1)
    reading, tables, reads = ReadSpec(table.file_columns), FooterTables(), Reads()
    for _ in range(2):
        tables.get(table.files, reading, frozenset(), reads)
    assert len(reads.paths) == 2
    assert tables.nbytes == 0


@pytest.mark.usefixtures("settled")
def test_the_cache_forgets_what_does_not_fit(tmp_path: Path) -> None:
    table = files_of(tmp_path, [pa.array([1])], 1)
    tables = FooterTables(max_bytes=10)
    tables.get(table.files, ReadSpec(table.file_columns), frozenset())
    assert tables.nbytes == 0


def test_a_missing_file_is_told_or_passed_over(tmp_path: Path) -> None:
    table = files_of(tmp_path, [pa.array([1]), pa.array([2])], 1)
    (tmp_path / "0.parquet").unlink()
    with pytest.raises(FileProblem):
        FooterTables().get(table.files, ReadSpec(table.file_columns), frozenset())
    lenient = ReadSpec(table.file_columns, options=ReadOptions(ignore_missing_files=True))
    found = FooterTables().get(table.files, lenient, frozenset(("c",)))
    assert found.opened.tolist() == [False, True]
    assert found.row_counts.tolist() == [1]


# Footers that are read together


def described(found: TableFooters) -> list[object]:
    columns = [
        (
            key,
            [each.sources[number] for number in each.source_of.tolist()],
            each.sizes.tolist(),
            None
            if each.bounds is None
            else [each.bounds.low.tolist(), each.bounds.high.tolist(), each.bounds.null_counts.tolist()],
        )
        for key, each in found.columns.items()
    ]
    numbers = (found.stamps, found.starts, found.row_counts, found.byte_counts)
    return [found.paths, [each.tolist() for each in numbers], columns]


def outcome(read: Callable[[], TableFooters]) -> list[object]:
    try:
        return described(read())
    except (FileProblem, FileSchemaProblem) as problem:
        return [type(problem), str(problem)]


def check_together(files: Sequence[DataFile], reading: ReadSpec) -> bool:
    """Whether the files were read together, which must say what each of them says, or raise what it raises."""
    bounded = frozenset(column.name for column in reading.file_columns)
    FOOTERS.clear()
    together = outcome(lambda: table_footers._read_part(files, reading, bounded, []))
    alone = outcome(lambda: table_footers.footers_as_columns(files, read_footers(files, reading), reading, bounded))
    assert together == alone
    return read_joined(files, reading.filesystem, []) is not None


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(FILE_TYPES).flatmap(lambda dtype: st.lists(arrow_arrays(dtype, 1, 30), min_size=3, max_size=6)),
    st.integers(1, 30),
)
def test_files_of_one_schema_are_read_together(tmp_path_factory: Any, arrays: list[pa.Array], rows: int) -> None:
    table = files_of(tmp_path_factory.mktemp("t"), arrays, rows)
    assert check_together(table.files, ReadSpec(table.file_columns))


def two_kinds(folder: Path) -> ParquetFolder:
    """Files of two schemas in turns, with 1 to 17 row groups: more than 14 have another form of list."""
    paths = []
    for number in range(8):
        values = pa.array(range(number * 100, number * 100 + 2 * number + 3))
        extra = {"b": pa.array([str(value) for value in values.to_pylist()])} if number % 2 else {}
        paths.append(write_file(folder / f"{number}.parquet", cut(pa.table({**extra, "c": values}), 1)))
    return relation(paths, pa.schema([("c", LONG), ("b", pa.string())]))


def test_files_of_two_schemas_are_read_together_each_with_its_own(tmp_path: Path) -> None:
    table = two_kinds(tmp_path)
    reading = ReadSpec(table.file_columns)
    assert check_together(table.files, reading)
    joined = read_joined(table.files, reading.filesystem, [])
    assert joined is not None
    assert [each.files for each in joined] == [(0, 2, 4, 6), (1, 3, 5, 7)]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 7), st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=3))
@example(4, [(0.01729944869925326, 51)])  # a negative number of rows
def test_a_damaged_footer_is_judged_as_if_it_were_read_alone(
    tmp_path: Path, victim: int, damage: list[tuple[float, int]]
) -> None:
    table = two_kinds(tmp_path)
    path = tmp_path / f"{victim}.parquet"
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[-8:-4], "little")
    for place, byte in damage:
        content[len(content) - 8 - size + int(place * (size + 8))] = byte
    path.write_bytes(content)
    files = tuple(data_file(tmp_path / f"{number}.parquet") for number in range(8))
    check_together(files, ReadSpec(table.file_columns))


def test_row_groups_that_are_another_files_are_refused(tmp_path: Path) -> None:
    """One footer says one row group too few, and another, of the same schema, one too many."""
    table = two_kinds(tmp_path)
    counted = {0: 3, 2: 7}
    for number, change in ((0, -1), (2, 1)):
        path = tmp_path / f"{number}.parquet"
        content = path.read_bytes()
        footer = content[-8 - int.from_bytes(content[-8:-4], "little") :]
        count = counted[number]
        rows = bytes((0x16, 2 * count, 0x19))
        assert footer.count(rows + bytes((count << 4 | 12,))) == 1
        wrong = footer.replace(
            rows + bytes((count << 4 | 12,)), bytes((0x16, 2 * (count + change), 0x19, (count + change) << 4 | 12))
        )
        path.write_bytes(content[: -len(footer)] + wrong)
    files = tuple(data_file(tmp_path / f"{number}.parquet") for number in range(8))
    assert not check_together(files, ReadSpec(table.file_columns))


# A million row groups


@pytest.fixture(scope="module")
def million() -> tuple[ParquetFolder, TableFooters]:
    made = SyntheticTable.of(rows=10**11, row_groups=10**6, files=10**5)
    return made.table, made.footers


def test_a_row_group_takes_less_than_200_bytes_a_column(million: tuple[ParquetFolder, TableFooters]) -> None:
    _, footers = million
    for key, column in footers.columns.items():
        assert column.nbytes / len(footers.row_counts) < 200, key
    texts = [("é" * 500 + str(number)).encode() for number in range(1000)]
    low, high = text_bounds(texts, texts)
    assert (low.nbytes + high.nbytes) / 1000 < 190
    wide = RankColumn.of([10**30 + number for number in range(1000)], pa.decimal128(38, 2))
    assert 2 * wide.nbytes / 1000 < 190


class Objects:
    """Counts what is made for single row groups."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ranks = 0
        get = RankColumn.__getitem__

        def counted(column: RankColumn, slot: int) -> Rank | None:
            self.ranks += 1
            return get(column, slot)

        monkeypatch.setattr(RankColumn, "__getitem__", counted)
        for name in ("tolist", "__iter__"):
            monkeypatch.setattr(RankColumn, name, self._refuse)

    def _refuse(self, *_: Any) -> Any:
        raise AssertionError("an object for each row group")


def column(table: ParquetFolder, name: str) -> Column:
    found = next(each for each in table.file_columns if each.file_name == name)
    return Column(found.name, found.dtype)


def test_a_million_row_groups_are_planned_by_arrays(
    million: tuple[ParquetFolder, TableFooters], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, footers = million
    objects = Objects(monkeypatch)
    made = 0
    init = DataFile.__init__

    def counted(self: DataFile, *args: Any, **named: Any) -> None:
        nonlocal made
        made += 1
        init(self, *args, **named)

    monkeypatch.setattr(DataFile, "__init__", counted)
    time, name = column(table, "time"), column(table, "name")
    last = 10**11 - 5_000_000
    where = And(
        Compare(CompareOp.GE, time, Literal(last, LONG)),
        In(name, tuple(f"n{number:08d}" for number in range(0, 1_000_000, 1000))),
    )
    names = tuple(each.name for each in table.file_columns)
    access = plan_access(table, names, where, get_footers=lambda *_: footers)
    assert access.rows() <= 5_100_000
    assert 0 < len(access.left) < 60
    everything = plan_access(table, names, None, get_footers=lambda *_: footers)
    assert everything.rows() == 10**11
    assert everything.column_bytes() > 10**11
    topk = plan_topk(everything, (SortKey(time, descending=True, nulls_first=False),), 10)
    search = TopKSearch(topk, DRIVER)
    assert search.waiting == 1
    assert topk.column_bytes() < 10**7
    assert len(search.ruled_out_at_start) == 999_999
    assert objects.ranks < 200
    assert made == 0


def test_ranges_of_a_million_row_groups(
    million: tuple[ParquetFolder, TableFooters], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, footers = million
    objects = Objects(monkeypatch)
    everything = plan_access(table, ("time#1",), None, get_footers=lambda *_: footers)
    found = plan_range_scans(everything, SortKey(column(table, "time")), (), 64, 1.5, DRIVER)
    assert found is not None
    assert len(found.reads.reads) == 64
    assert found.reads.cost < 1.01
    assert sum(len(read.row_groups) for read in found.reads.reads) < 1_000_200
    assert all(len(read.row_groups) == 0 for read in found.reads.keys_only.reads)
    assert objects.ranks == 0


def test_verdicts_of_a_sample_are_those_of_all(million: tuple[ParquetFolder, TableFooters]) -> None:
    table, footers = million
    time = column(table, "time")
    where = Compare(CompareOp.LT, time, Literal(123_456_789, LONG))
    all_of_them = plan_access(table, ("time#1",), where, get_footers=lambda *_: footers).verdicts
    some = np.arange(0, 100_000, 997)
    few = footers.take(some)
    reading = ReadSpec(table.file_columns, options=table.options)
    files = [table.files[number] for number in some.tolist()]
    statistics = TableStatistics(files, reading, few, lambda *_: few)
    found = PruningPredicate(where).verdicts(statistics)
    assert found.tolist() == all_of_them[footers.groups_of(some)].tolist()
    assert {Verdict(v) for v in all_of_them.tolist()} == {Verdict.SKIP, Verdict.SCAN, Verdict.ALL_ROWS_MATCH}
