from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sundog.metrics import Metrics
from sundog.parquet.decode.reader import FileReader, OpenFiles
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.footer import read_footer
from sundog.parquet.problems import FileProblem, ProblemKind
from tests.parquet.files import cut, relation, write_file

TABLE = pa.table({"x": list(range(10)), "s": [f"s{i}" for i in range(10)], "y": [float(i) for i in range(10)]})


@pytest.fixture
def files(tmp_path):
    path = write_file(tmp_path / "a.parquet", cut(TABLE, 4))
    return relation([path], TABLE.schema, [("p", pa.int32()), ("q", pa.string())], [(7, None)])


def opened(files, metrics=None):
    reader = FileReader.open(files, files.files[0], metrics or Metrics())
    assert reader is not None
    return reader


def test_columns_come_in_the_order_asked_for_with_partition_values(files):
    with opened(files) as reader:
        y, p, x, q = reader.read([1, 2], ["y", "p", "x", "q"])
    assert x.to_pylist() == [4, 5, 6, 7, 8, 9]
    assert y.to_pylist() == [4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    assert p.equals(pa.array([7] * 6, pa.int32()))
    assert q.equals(pa.nulls(6, pa.string()))


def test_only_partition_columns_read_no_bytes(files):
    metrics = Metrics()
    with opened(files, metrics) as reader:
        assert reader.read([0], ["p"])[0].to_pylist() == [7] * 4
        assert reader.read([0], []) == []
    assert metrics.get("bytes_scanned") == 0


def test_bytes_are_those_of_the_columns_read(files):
    metrics = Metrics()
    with opened(files, metrics) as reader:
        reader.read([0, 1], ["x"])
        sizes = [reader.layout.footer.chunk_size(group, 0) for group in (0, 1)]
    assert metrics.get("bytes_scanned") == sum(size[0] for size in sizes)
    assert metrics.get("bytes_decoded") == sum(size[1] for size in sizes)


@pytest.mark.parametrize("piece_bytes", [1, 60, 10**9])
def test_pieces_hold_the_same_rows_however_small(files, piece_bytes):
    with opened(files) as reader:
        pieces = list(reader.pieces(0, ["s", "p", "x"], piece_bytes))
    assert (len(pieces) == 1) == (piece_bytes == 10**9)
    assert [row for piece in pieces for row in piece[2].to_pylist()] == [0, 1, 2, 3]
    assert [row for piece in pieces for row in piece[0].to_pylist()] == ["s0", "s1", "s2", "s3"]
    assert sum(len(piece[1]) for piece in pieces) == 4


def test_stream_decodes_as_asked(files):
    with opened(files) as reader:
        batches = reader.stream(0, ["x"], 3)
        assert next(batches)[0].to_pylist() == [0, 1, 2]
        assert next(batches)[0].to_pylist() == [3]
        assert next(batches, None) is None
        assert [len(batch[0]) for batch in reader.stream(0, ["p"], 3)] == [3, 1]


def test_a_file_replaced_after_planning_is_noticed(files):
    layout = FileLayout.of(files, files.files[0], read_footer(files.files[0], ()))
    pq.write_table(TABLE.slice(0, 3), files.files[0].path)
    with pytest.raises(FileProblem) as problem:
        FileReader(layout, files, Metrics())
    assert problem.value.kind is ProblemKind.CHANGED


def test_a_damaged_page_is_a_file_problem(tmp_path):
    path = write_file(tmp_path / "a.parquet", [TABLE], compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    start = pq.read_metadata(path).row_group(0).column(1).data_page_offset
    content[start + 20 : start + 60] = b"\xff" * 40
    path.write_bytes(bytes(content))
    files = relation([path], TABLE.schema)
    with opened(files) as reader:
        assert reader.read([0], ["y"])[0].to_pylist() == TABLE["y"].to_pylist()
        with pytest.raises(FileProblem) as problem:
            reader.read([0], ["s"])
        assert problem.value.kind is ProblemKind.CORRUPT
        with pytest.raises(FileProblem):
            list(reader.stream(0, ["s"], 3))


def test_open_files_closes_the_least_recently_used(tmp_path):
    paths = [write_file(tmp_path / f"{i}.parquet", [TABLE]) for i in range(3)]
    files = relation(paths, TABLE.schema)
    made = []

    def opener(number):
        made.append(number)
        return FileReader.open(files, files.files[number], Metrics())

    with OpenFiles(opener, limit=2) as readers:
        first = readers.get(0)
        readers.get(1)
        assert readers.get(0) is first
        readers.get(2)  # closes 1
        assert readers.get(0) is first
        readers.get(1)
    assert made == [0, 1, 2, 1]
    assert first.source.closed
