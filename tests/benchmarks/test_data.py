"""The tables have the shapes that the benchmarks rest on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sundog.benchmarks.data.catalog import DATA_SETS, NOTE_NAME, DataSetError, Note, find_data_set
from sundog.benchmarks.data.h2o import GroupByTable, WindowTable
from sundog.benchmarks.data.hits import QUERIED_REFERER_HASH, QUERIED_URL_HASH, QUERIED_USER, Hits
from sundog.benchmarks.data.layout import Layout, TableGenerator
from sundog.benchmarks.data.lineitem import lineitem, lineitem_single
from sundog.benchmarks.data.write import clear, is_ready, make_local, make_with_spark
from sundog.versions import spark_version

HITS_ROWS = 300_000


def whole(generator: TableGenerator) -> pa.Table:
    return pa.Table.from_batches([generator.row_group(group) for group in range(generator.layout.group_count)])


@pytest.fixture(scope="module")
def hits() -> pa.Table:
    return whole(Hits(HITS_ROWS))


def distinct_share(table: pa.Table, *columns: str) -> float:
    return table.group_by(list(columns)).aggregate([]).num_rows / table.num_rows


# --- layout ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "per_group", "per_file"), [(1, 10, 3), (10, 10, 3), (11, 10, 3), (95, 10, 3), (60, 1, 20)]
)
def test_layout_covers_every_row_once(rows: int, per_group: int, per_file: int) -> None:
    layout = Layout(rows, per_group, per_file)
    groups = [group for file in range(layout.file_count) for group in layout.groups_of_file(file)]
    assert groups == list(range(layout.group_count))
    assert [row for group in groups for row in range(*layout.bounds(group))] == list(range(rows))


# --- hits ------------------------------------------------------------------------------------------------------------


def test_hits_has_the_published_cardinalities(hits: pa.Table) -> None:
    assert distinct_share(hits, "UserID") == pytest.approx(0.176, rel=0.02)
    assert distinct_share(hits, "SearchPhrase") == pytest.approx(0.060, rel=0.03)
    assert distinct_share(hits, "UserID", "SearchPhrase") == pytest.approx(0.2407, rel=0.02)
    assert distinct_share(hits, "WatchID") == 1
    assert pc.mean(pc.equal(hits["SearchPhrase"], "")).as_py() == pytest.approx(0.868, rel=0.01)


def test_hits_users_are_skewed(hits: pa.Table) -> None:
    counts = np.sort(hits.group_by("UserID").aggregate([([], "count_all")])["count_all"].to_numpy())[::-1]
    assert counts[0] > 500 * np.median(counts)
    assert counts[: len(counts) // 10].sum() > 0.35 * HITS_ROWS


def test_hits_come_in_order_of_time_with_little_jitter(hits: pa.Table) -> None:
    seconds = hits["EventTime"].cast(pa.int64()).to_numpy() // 1_000_000
    behind = np.maximum.accumulate(seconds) - seconds
    assert 0 < behind.max() <= 41
    assert (behind > 0).mean() > 0.3
    days = hits["EventDate"].cast(pa.int32()).to_numpy()
    np.testing.assert_array_equal(days, seconds // 86_400)


def test_600_seconds_hold_11500_rows_at_10_million(hits: pa.Table) -> None:
    seconds = np.sort(hits["EventTime"].cast(pa.int64()).to_numpy() // 1_000_000)
    rows = np.searchsorted(seconds, seconds, side="right") - np.searchsorted(seconds, seconds - 600, side="left")
    assert rows.mean() * 10_000_000 / HITS_ROWS == pytest.approx(11_500, rel=0.03)


def test_hits_holds_what_the_published_queries_ask_for(hits: pa.Table) -> None:
    queried = hits.filter(pc.equal(hits["CounterID"], 62))
    assert 0.004 < queried.num_rows / HITS_ROWS < 0.015
    for column, value in (("URLHash", QUERIED_URL_HASH), ("RefererHash", QUERIED_REFERER_HASH)):
        assert pc.sum(pc.equal(queried[column], value)).as_py() > 100
        assert pc.sum(pc.equal(hits[column], value)).as_py() == pc.sum(pc.equal(queried[column], value)).as_py()
    assert pc.sum(pc.equal(hits["UserID"], QUERIED_USER)).as_py() > 0
    assert pc.any(pc.match_substring(hits["URL"], "google")).as_py()
    assert pc.any(pc.match_substring(hits["Title"], "Google")).as_py()
    assert pc.min(hits["ClientIP"]).as_py() > -(2**31) + 3


def test_hits_url_and_hash_name_the_same_page(hits: pa.Table) -> None:
    assert distinct_share(hits, "URL") == distinct_share(hits, "URLHash") == distinct_share(hits, "URL", "URLHash")


def test_rows_do_not_depend_on_row_groups_but_on_the_seed() -> None:
    first = whole(Hits(5000, rows_per_group=5000))
    assert whole(Hits(5000, rows_per_group=777)).combine_chunks().equals(first.combine_chunks())
    assert not whole(Hits(5000, seed=1)).equals(first)


# --- lineitem --------------------------------------------------------------------------------------------------------


def ranges(folder: Path) -> list[tuple[int, int]]:
    found = []
    for file in sorted(folder.glob("*.parquet")):
        metadata = pq.ParquetFile(file).metadata
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(0).statistics
            found.append((statistics.min, statistics.max))
    return found


def test_lineitem_has_disjoint_ranges_in_scrambled_order(tmp_path: Path) -> None:
    make_local(DATA_SETS["lineitem"], 6000, tmp_path / "t")
    files = sorted((tmp_path / "t").glob("*.parquet"))
    assert [pq.ParquetFile(file).metadata.num_row_groups for file in files] == [20, 20, 20]
    found = ranges(tmp_path / "t")
    ordered = sorted(found)
    assert all(before[1] < after[0] for before, after in pairwise(ordered))
    assert found != ordered
    places = [ordered.index(one) for one in found]
    assert sum(after == before + 1 for before, after in pairwise(places)) < 10


def test_lineitem_grows_by_row_groups() -> None:
    assert [lineitem(6_000_000 * scale).layout.group_count for scale in (1, 4, 16)] == [60, 240, 960]
    assert lineitem(6_000_000).layout.file_count == 3
    assert (lineitem_single(6_000_000).layout.file_count, lineitem_single(6_000_000).layout.group_count) == (1, 300)


def test_lineitem_follows_tpch() -> None:
    table = whole(lineitem(56_000))
    assert len(table.schema) == 16
    orders = table.group_by("l_orderkey").aggregate([("l_linenumber", "max"), ([], "count_all")])
    assert orders["l_linenumber_max"].to_pylist() == orders["count_all"].to_pylist()
    assert set(orders["count_all"].to_pylist()) == set(range(1, 8))
    assert pc.all(pc.less(table["l_shipdate"], table["l_receiptdate"])).as_py()
    assert set(table["l_returnflag"].to_pylist()) == {"A", "N", "R"}
    assert table["l_discount"].type == pa.decimal128(15, 2)
    assert pc.max(table["l_discount"]).as_py() * 10 == 1


# --- h2o -------------------------------------------------------------------------------------------------------------


def test_h2o_group_by_table() -> None:
    table = whole(GroupByTable(100_000))
    counts = {name: pc.count_distinct(table[name]).as_py() for name in table.column_names}
    assert [counts[name] for name in ("id1", "id2", "id3", "id4", "id5", "id6")] == [100, 100, 1000, 100, 100, 1000]
    assert (counts["v1"], counts["v2"]) == (5, 15)
    assert table["id1"][0].as_py().startswith("id")
    assert len(table["id3"][0].as_py()) == 12


def test_h2o_window_table() -> None:
    table = whole(WindowTable(100_000))
    keys = table["id3"].to_numpy()
    assert len(np.unique(keys)) == 100_000
    assert keys.max() <= 110_000
    assert abs(np.corrcoef(keys, np.arange(100_000))[0, 1]) < 0.05
    assert pc.count_distinct(table["id2"]).as_py() == 110
    assert pc.max(table["v2"]).as_py() < 100


# --- writing ---------------------------------------------------------------------------------------------------------


def read(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(file) for file in sorted(folder.glob("*.parquet"))])


def test_local_files_hold_the_rows_and_say_what_they_are(tmp_path: Path) -> None:
    done: list[int] = []
    make_local(DATA_SETS["h2o"], 3000, tmp_path / "h2o", seed=4, on_progress=done.append)
    assert sum(done) == 6000
    assert read(tmp_path / "h2o" / "x").equals(whole(GroupByTable(3000, 4)))
    assert read(tmp_path / "h2o" / "large").equals(whole(WindowTable(3000, 4)))
    assert Note.read(tmp_path / "h2o") == Note("h2o", 3000, 4)
    assert is_ready(Note("h2o", 3000, 4), tmp_path / "h2o")


def test_decimals_are_stored_as_spark_stores_them_and_pages_have_an_index(tmp_path: Path) -> None:
    make_local(DATA_SETS["lineitem"], 600, tmp_path / "t")
    column = pq.ParquetFile(tmp_path / "t" / "part-00000.parquet").metadata.row_group(0).column(4)
    assert column.physical_type == "INT64"
    assert column.has_offset_index
    assert column.has_column_index


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    for attempt in (
        lambda: is_ready(Note("hits", 10, 0), tmp_path),
        lambda: make_local(DATA_SETS["hits"], 10, tmp_path),
        lambda: clear(tmp_path),
    ):
        with pytest.raises(DataSetError, match="not empty"):
            attempt()
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_another_data_set_is_named_and_can_be_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    make_local(DATA_SETS["hits"], 10, folder)
    with pytest.raises(DataSetError, match="hits with 10 rows"):
        is_ready(Note("hits", 11, 0), folder)
    clear(folder)
    assert not is_ready(Note("hits", 11, 0), folder)


def test_an_unfinished_folder_is_not_taken_for_a_data_set(tmp_path: Path) -> None:
    make_local(DATA_SETS["hits"], 10, tmp_path / "t")
    (tmp_path / "t" / NOTE_NAME).unlink()
    with pytest.raises(DataSetError, match="not empty"):
        is_ready(Note("hits", 10, 0), tmp_path / "t")


def test_unknown_data_set() -> None:
    with pytest.raises(DataSetError, match="There are: hits"):
        find_data_set("hist")


def test_a_failing_writer_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Hits, group: int) -> pa.RecordBatch:
        raise OSError("disk full")

    monkeypatch.setattr(Hits, "row_group", broken)
    with pytest.raises(OSError, match="disk full"):
        make_local(DATA_SETS["hits"], 10, tmp_path / "t")
    assert Note.read(tmp_path / "t") is None


@pytest.fixture(scope="module")
def micros(spark: Any) -> Iterator[Any]:
    key = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(key)
    yield spark
    assert spark.conf.get(key) == before


@pytest.mark.spark
@pytest.mark.parametrize("name", ["hits", "lineitem", "h2o"])
def test_spark_makes_the_same_rows_in_the_same_row_groups(micros: Any, tmp_path: Path, name: str) -> None:
    done: list[int] = []
    data_set = DATA_SETS[name]
    make_with_spark(micros, data_set, 2400, tmp_path / "spark", seed=2, on_progress=done.append)
    make_local(data_set, 2400, tmp_path / "local", seed=2)
    assert sum(done) == 2400 * len(data_set.tables)
    for table, folder in data_set.folders(tmp_path / "spark").items():
        local = data_set.folders(tmp_path / "local")[table]
        assert read(folder).cast(read(local).schema).equals(read(local))
        groups = [
            [
                pq.ParquetFile(file).metadata.row_group(group).num_rows
                for file in sorted(place.glob("*.parquet"))
                for group in range(pq.ParquetFile(file).metadata.num_row_groups)
            ]
            for place in (folder, local)
        ]
        if spark_version().limits_rows_of_row_groups:
            assert groups[0] == groups[1]
        else:  # one in each file, since they are small
            assert len(groups[0]) == len(list(folder.glob("*.parquet")))
            assert sum(groups[0]) == sum(groups[1])
    assert Note.read(tmp_path / "spark") == Note(name, 2400, 2)
