from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sundog.parquet.meta import footer as footer_module
from sundog.parquet.meta.footer import FOOTERS, FooterCache, read_footer, read_footers
from sundog.parquet.problems import FileProblem, ProblemKind
from tests.parquet.files import cut, data_file, relation, write_file

TABLE = pa.table({"x": pa.array([3, 1, None, 7, 5], pa.int64()), "s": ["b", "a", "c", None, "d"]})


@pytest.fixture
def path(tmp_path):
    return write_file(tmp_path / "a.parquet", cut(TABLE, 3))


def test_counts_sizes_and_statistics(path):
    footer = read_footer(data_file(path), ())
    assert footer is not None
    assert footer.num_rows == 5
    assert footer.row_counts.tolist() == [3, 2]
    statistics = footer.raw_statistics(0)
    assert statistics.lows == (1, 5)
    assert statistics.highs == (3, 7)
    assert statistics.null_counts == (1, 0)
    assert footer.raw_statistics(1).highs == (b"c", b"d")
    compressed, uncompressed = footer.chunk_size(0, 0)
    assert compressed > 0
    assert uncompressed > 0


def test_missing_statistics_are_none(tmp_path):
    path = write_file(tmp_path / "a.parquet", [TABLE], write_statistics=False)
    footer = read_footer(data_file(path), ())
    assert footer is not None
    assert footer.raw_statistics(0).lows == (None,)
    assert footer.raw_statistics(0).null_counts == (None,)


@pytest.fixture
def settled(monkeypatch):
    """As if all files had been written a while ago."""
    monkeypatch.setattr(footer_module, "SETTLED_NS", -(10**18))


@pytest.mark.usefixtures("settled")
def test_an_unchanged_file_is_read_once_and_a_rewritten_one_again(path):
    first = read_footer(data_file(path), ())
    assert read_footer(data_file(path), ()) is first
    pq.write_table(pa.table({"x": [10, 20], "s": ["y", "z"]}), path)
    second = read_footer(data_file(path), ())
    assert second is not None
    assert second.num_rows == 2
    assert second.raw_statistics(0).lows == (10,)


def test_same_size_and_modification_time_is_still_another_file(path, tmp_path):
    """A rewrite that restores the time stamp: the change time and the inode give it away."""
    before = os.stat(path)
    first = read_footer(data_file(path), ())
    other = write_file(tmp_path / "b.parquet", cut(TABLE.slice(0, 5), 3))
    assert os.stat(other).st_size == before.st_size
    os.replace(other, path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read_footer(data_file(path), ()) is not first


def test_a_file_that_was_emptied_is_not_passed_over(tmp_path):
    empty = tmp_path / "empty.parquet"
    empty.touch()
    with pytest.raises(FileProblem, match="empty"):
        read_footer(data_file(empty), ())


def _broken(tmp_path, content):
    path = tmp_path / "broken.parquet"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("content", [b"PAR1", b"not parquet at all, but long enough", b"PAR1" + b"\xff" * 30 + b"PAR1"])
def test_corrupt_footer(tmp_path, content):
    with pytest.raises(FileProblem) as problem:
        read_footer(data_file(_broken(tmp_path, content)), ())
    assert problem.value.kind is ProblemKind.CORRUPT


def test_encrypted_footer(tmp_path):
    with pytest.raises(FileProblem) as problem:
        read_footer(data_file(_broken(tmp_path, b"PARE" + b"\0" * 30 + b"PARE")), ())
    assert problem.value.kind is ProblemKind.ENCRYPTED


def test_problems_travel_by_pickle():
    problem = pickle.loads(pickle.dumps(FileProblem(ProblemKind.MISSING, "/a", "why")))
    assert (problem.kind, problem.path, problem.message) == (ProblemKind.MISSING, "/a", "why")


def test_missing_files_are_ignored_only_if_told(tmp_path):
    good = write_file(tmp_path / "a.parquet", [TABLE])
    gone = write_file(tmp_path / "b.parquet", [TABLE])
    strict = relation([good, gone], TABLE.schema)
    lenient = relation([good, gone], TABLE.schema, ignore_missing_files=True)
    gone.unlink()
    with pytest.raises(FileProblem):
        read_footers(strict.files, strict)
    footers = read_footers(lenient.files, lenient)
    assert [footer is None for footer in footers] == [False, True]


def test_whether_a_broken_file_is_ignored_is_left_to_spark(tmp_path):
    """What does not add up here may be read by Spark, and then its rows count."""
    bad = _broken(tmp_path, b"not parquet at all, but long enough")
    with pytest.raises(FileProblem):
        read_footers([data_file(bad)], relation([bad], TABLE.schema, ignore_missing_files=True))


def test_missing_is_not_corrupt(tmp_path):
    gone = write_file(tmp_path / "b.parquet", [TABLE])
    strict = relation([gone], TABLE.schema)
    gone.unlink()
    with pytest.raises(FileProblem) as problem:
        read_footers(strict.files, strict)
    assert problem.value.kind is ProblemKind.MISSING


def test_many_footers_in_order(tmp_path):
    tables = [pa.table({"x": [i]}) for i in range(20)]
    paths = [write_file(tmp_path / f"{i}.parquet", [table]) for i, table in enumerate(tables)]
    for _ in range(2):  # cold, then from the cache
        footers = read_footers([data_file(path) for path in paths], relation(paths, tables[0].schema))
        assert [footer.raw_statistics(0).lows for footer in footers if footer] == [(i,) for i in range(20)]


def test_the_cache_forgets_the_oldest(path, tmp_path):
    footer = read_footer(data_file(path), ())
    other = read_footer(data_file(write_file(tmp_path / "o.parquet", [TABLE])), ())
    assert footer is not None
    assert other is not None
    cache = FooterCache(footer.nbytes + other.nbytes - 1)
    cache.put(footer)
    cache.put(other)
    assert cache.get(footer.path, footer.stamp) is None
    assert cache.get(other.path, other.stamp) is other


def test_the_cache_counts_bytes_also_of_footers_that_are_put_again_or_too_large(path):
    footer = read_footer(data_file(path), ())
    assert footer is not None
    cache = FooterCache(2 * footer.nbytes)
    for _ in range(5):
        cache.put(footer)
    assert cache.get(footer.path, footer.stamp) is footer
    assert cache.nbytes == footer.nbytes
    FooterCache(footer.nbytes - 1).put(footer)
    small = FooterCache(footer.nbytes - 1)
    small.put(footer)
    assert small.get(footer.path, footer.stamp) is None
    assert small.nbytes == 0


def test_many_threads_leave_the_cache_within_its_bytes(tmp_path):
    table = pa.table({"x": [1]})
    footers = [read_footer(data_file(write_file(tmp_path / f"{i}.parquet", [table])), ()) for i in range(16)]
    known = [footer for footer in footers if footer is not None]
    cache = FooterCache(4 * known[0].nbytes)

    def use(start):
        for at in range(2000):
            footer = known[(start + at * 7) % len(known)]
            cache.put(footer)
            found = cache.get(footer.path, footer.stamp)
            assert found is None or found is footer

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    assert 0 < cache.nbytes <= 4 * known[0].nbytes


def test_a_file_that_was_written_a_moment_ago_is_not_kept(path):
    """It could be written again within one tick of the file system's clock, in place, with the same size."""
    first = read_footer(data_file(path), ())
    assert first is not None
    before = os.stat(path)
    changed = pa.table({"x": pa.array([4, 2, None, 8, 6], pa.int64()), "s": TABLE["s"]})
    other = write_file(path.with_name("b.parquet"), cut(changed, 3)).read_bytes()
    with open(path, "r+b") as file:
        assert file.write(other) == before.st_size
    assert FOOTERS.get(str(path), first.stamp) is None
    second = read_footer(data_file(path), ())
    assert second is not None
    assert second.raw_statistics(0).lows == (2, 6)


@pytest.mark.usefixtures("settled")
def test_clear_forgets(path):
    first = read_footer(data_file(path), ())
    FOOTERS.clear()
    assert read_footer(data_file(path), ()) is not first


def test_annotations_of_integers_and_timestamps(tmp_path):
    """By value, whatever text this pyarrow writes them in."""
    types = [pa.int8(), pa.uint16(), pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.timestamp("ns")]
    table = pa.table({str(i): pa.array([None], dtype) for i, dtype in enumerate(types)})
    footer = read_footer(data_file(write_file(tmp_path / "a.parquet", [table])), ())
    assert footer is not None
    leaves = [footer.leaf(index) for index in range(len(types))]
    assert [(leaf.bit_width, leaf.signed) for leaf in leaves[:3]] == [(8, True), (16, False), (0, False)]
    assert [(leaf.time_unit, leaf.adjusted_to_utc) for leaf in leaves[3:]] == [
        ("micro", True),
        ("milli", False),
        ("nano", False),
    ]
