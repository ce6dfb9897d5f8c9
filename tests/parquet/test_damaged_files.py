"""Files with a wrong number: each is refused where it is read, before anything is allocated, read or written by it.
Every file here is valid but for one field (`tests/fuzz/files/structure_damage.py`). If a file is read nevertheless, the
rows must be those that Arrow reads; the harness checks both.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sundog.kernels.pages.thrift_values import BINARY, I32, I64, LIST, STRUCT
from sundog.metrics import Metrics
from sundog.parquet.decode import page_headers
from sundog.parquet.decode.chunk_pages import StoredChunk, Unusual
from sundog.parquet.decode.late import RowPicker
from sundog.parquet.decode.number_pages import read_numbers
from sundog.parquet.decode.reader import FileReader
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.file_metadata import parse_footer
from sundog.parquet.meta.file_schema import resolve_columns
from sundog.parquet.meta.struct_table import Broken
from sundog.parquet.meta.thrift import Struct, read_struct, write_struct
from sundog.parquet.problems import FileProblem, ProblemKind
from sundog.parquet.reading import ReadOptions
from sundog.plan.costs import DRIVER
from tests.fuzz.files.children import run_tries
from tests.fuzz.files.harness import columns_of, exercise
from tests.fuzz.files.seeds import seed_files
from tests.fuzz.files.structure_damage import Parts, put_together, take_apart
from tests.parquet.files import footer_of, relation, write_file

NAMES = ["numbers-none-v1", "numbers-snappy-v2", "texts-snappy-v1", "texts-none-v2-plain", "numbers-zstd-v1"]


def survives(tmp_path, content: bytes, name: str) -> str:
    """What the reader made of the file, in a child that may die of it and may not take much memory for it."""
    path, outcome = tmp_path / "damaged.parquet", tmp_path / "outcome"
    columns = columns_of(pq.read_schema(pa.BufferReader(seed_files()[name])))
    path.write_bytes(seed_files()[name])
    assert exercise(path, columns) == "read"  # and compiles what the child needs
    path.write_bytes(content)
    grown = tmp_path / "grown"

    def attempt(number: int) -> None:
        before = most_memory()
        outcome.write_text(exercise(path, columns))
        grown.write_text(str(most_memory() - before))

    death = run_tries(attempt, 0, 1)
    assert death is None, death.how
    assert int(grown.read_text()) < 256 << 20, "bytes taken for a small file"
    return outcome.read_text()


def most_memory() -> int:
    """The most bytes that this process ever held. What `getrusage` says a child has from the one that started it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmHWM")


def with_counts(parts: Parts, counts: list[int]) -> bytes:
    """The counts of the first data pages of each chunk, changed by so much."""
    for chunk in parts.chunks:
        pages = [page for page in chunk.pages if page.kind != 2]
        for page, change in zip(pages, counts, strict=False):
            for field in (1, 3) if page.kind == 3 else (1,):
                page.details[field] = (I32, page.details[field][1] + change)
    return put_together(parts)


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("changes", [[1 << 62, 1 << 62, 1 << 62, 1 << 62], [1 << 63, 1 << 63], [1 << 31, 1 << 31]])
def test_page_counts_that_wrap_to_the_right_sum_write_nowhere(tmp_path, name, changes):
    """Arrow cuts them to 32 bits, and then they are right: what it reads is read, and nothing is decoded here."""
    assert survives(tmp_path, with_counts(take_apart(seed_files()[name]), changes), name) == "read"


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("changes", [[1 << 30, -(1 << 30)], [-1000, 1000], [8, -8]])
def test_page_counts_of_the_right_sum_that_are_wrong_one_by_one_are_refused(tmp_path, name, changes):
    assert survives(tmp_path, with_counts(take_apart(seed_files()[name]), changes), name) == "partly"


def change_footer(content: bytes, change: Callable[[Struct], object]) -> bytes:
    length = int.from_bytes(content[-8:-4], "little")
    footer, _ = read_struct(content[-8 - length : -8])
    change(footer)
    raw = write_struct(footer)
    return content[: -8 - length] + raw + len(raw).to_bytes(4, "little") + b"PAR1"


def group(footer: Struct) -> Struct:
    found: Struct = footer[4][1][1][0]
    return found


def column(footer: Struct) -> Struct:
    found: Struct = group(footer)[1][1][1][0]
    return found


def metadata(footer: Struct) -> Struct:
    found: Struct = column(footer)[3][1]
    return found


def statistics(footer: Struct) -> Struct:
    found: Struct = metadata(footer)[12][1]
    return found


LIES: dict[str, Callable[[Struct], object]] = {
    "a codec that does not exist": lambda f: metadata(f).update({4: (I32, 99)}),
    "a negative codec": lambda f: metadata(f).update({4: (I32, -1)}),
    "an encoding that does not exist": lambda f: metadata(f).update({2: (LIST, (I32, [0, 77]))}),
    "an encoding that wraps a shift": lambda f: metadata(f).update({2: (LIST, (I32, [64]))}),
    "another type than the schema's": lambda f: metadata(f).update({1: (I32, 2)}),
    "a type that does not exist": lambda f: metadata(f).update({1: (I32, 8)}),
    "a column less": lambda f: group(f)[1][1][1].pop(),
    "a column more": lambda f: group(f)[1][1][1].append(column(f)),
    "columns in another order": lambda f: group(f)[1][1][1].reverse(),
    "a path that is another column's": lambda f: metadata(f).update({3: (LIST, (BINARY, [b"other"]))}),
    "no metadata of a column": lambda f: column(f).pop(3),
    "a column in another file": lambda f: column(f).update({1: (BINARY, b"/etc/passwd")}),
    "more rows than the file": lambda f: group(f).update({3: (I64, 10**6)}),
    "negative rows": lambda f: (group(f).update({3: (I64, -200)}), f.update({3: (I64, -100)})),
    "rows whose sum wraps": lambda f: (
        group(f).update({3: (I64, (1 << 63) - 1)}),
        f.update({3: (I64, -(1 << 63) + 99)}),
    ),
    "values that are not the rows": lambda f: metadata(f).update({5: (I64, 201)}),
    "a size beyond the file": lambda f: metadata(f).update({7: (I64, 1 << 40)}),
    "a size that wraps": lambda f: metadata(f).update({7: (I64, (1 << 63) - 1)}),
    "a negative size": lambda f: metadata(f).update({7: (I64, -1)}),
    "a negative size when decompressed": lambda f: metadata(f).update({6: (I64, -1)}),
    "an offset beyond the file": lambda f: metadata(f).update({9: (I64, 1 << 40), 11: (I64, 0)}),
    "a negative offset": lambda f: metadata(f).update({9: (I64, -4)}),
    "an offset in the magic bytes": lambda f: metadata(f).update({11: (I64, 1)}),
    "more NULLs than rows": lambda f: statistics(f).update({3: (I64, 201)}),
    "negative NULLs": lambda f: statistics(f).update({3: (I64, -1)}),
    "a bound that is too short": lambda f: statistics(f).update({5: (BINARY, b"\1")}),
    "a bound that is too long": lambda f: statistics(f).update({6: (BINARY, b"123456789")}),
    "a schema that is no tree": lambda f: f[2][1][1][0].update({5: (I32, 40)}),
    "a schema without an end": lambda f: f[2][1][1][0].update({5: (I32, 1)}),
    "a name that is no UTF-8": lambda f: f[2][1][1][1].update({4: (BINARY, b"\xff")}),
    "no root": lambda f: f.update({2: (LIST, (STRUCT, []))}),
    "a field of another type": lambda f: group(f).update({3: (BINARY, b"200")}),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_footer_that_does_not_add_up_is_a_problem_of_the_file(tmp_path, lie):
    content = change_footer(seed_files()["numbers-none-v1"], LIES[lie])
    assert survives(tmp_path, content, "numbers-none-v1") == "FileProblem"


def test_a_footer_cannot_be_longer_than_the_file_nor_nested_without_end(tmp_path):
    for content in (
        b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1",
        b"PAR1" + b"\0" * 20 + (21).to_bytes(4, "little") + b"PAR1",
        b"PAR1" + b"\x1c" * 5000 + (5000).to_bytes(4, "little") + b"PAR1",
        b"PAR1" + b"\x19\xfc\xff\xff\xff\xff\x07" + (7).to_bytes(4, "little") + b"PAR1",
        b"PAR1" + b"\x16" + b"\xff" * 40 + (41).to_bytes(4, "little") + b"PAR1",
    ):
        assert survives(tmp_path, content, "numbers-none-v1") == "FileProblem"


def test_damaged_histograms_of_levels_do_not_end_the_process(tmp_path):
    """Arrow looks at them when a column chunk is asked for, and throws through Python."""

    def shorten(footer: Struct) -> None:
        for chunk in group(footer)[1][1][1]:
            sizes = chunk[3][1][16][1]
            assert sizes[3][1][1]
            sizes[3] = (LIST, (I64, [1, 2, 3]))

    content = change_footer(seed_files()["numbers-none-v1"], shorten)
    assert survives(tmp_path, content, "numbers-none-v1") in ("read", "partly", "unreadable")


def test_bounds_of_no_bytes_are_no_bounds(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(change_footer(seed_files()["numbers-none-v1"], lambda f: statistics(f).update({6: (BINARY, b"")})))
    found = footer_of(path).raw_statistics(0)
    assert found.lows[0] is found.highs[0] is None
    assert found.lows[1] is not None


def test_a_billion_values_in_a_footer_are_not_made_a_table():
    with pytest.raises(Broken, match="values"):
        parse_footer(b"\x19\xf1" + b"\x80\x80\x80\x10" + b"\1" * (1 << 25) + b"\0", 1 << 40)


def bomb(name: str, unpacked: int) -> bytes:
    """Pages that say to be far larger than their bytes can be."""
    parts = take_apart(seed_files()[name])
    for chunk in parts.chunks:
        for page in chunk.pages:
            page.wrong_sizes[2] = unpacked
    content = put_together(parts)

    def admit(footer: Struct) -> None:
        for each in footer[4][1][1]:
            for chunk in each[1][1][1]:
                chunk[3][1][6] = (I64, unpacked * 4)

    return change_footer(content, admit)


@pytest.mark.parametrize("name", ["numbers-snappy-v1", "texts-snappy-v1", "texts-snappy-v2", "texts-gzip-v1"])
def test_a_page_that_claims_two_gigabytes_takes_no_memory(tmp_path, name):
    assert survives(tmp_path, bomb(name, (1 << 31) - 1), name) in ("FileProblem", "partly", "unreadable")


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd"])
@pytest.mark.parametrize("change", [-1, 1, 100])
def test_pages_that_decompress_to_another_size_are_not_filled_up_with_anything(tmp_path, codec, change):
    """Nobody would notice in numbers: the bytes that are missing would be what was in memory before."""
    name = f"numbers-{codec}-v1"
    parts = take_apart(seed_files()[name])
    for chunk in parts.chunks:
        for page in chunk.pages:
            page.wrong_sizes[2] = len(page.body) + change

    def admit(footer: Struct) -> None:
        for each in footer[4][1][1]:
            for chunk in each[1][1][1]:
                chunk[3][1][6] = (I64, chunk[3][1][6][1] + 100_000)

    path = tmp_path / "a.parquet"
    path.write_bytes(change_footer(put_together(parts), admit))
    footer = footer_of(path)
    columns = columns_of(pq.read_schema(pa.BufferReader(seed_files()[name])))
    sources = [source for source in resolve_columns(footer, columns, ReadOptions()) if source.leaf >= 0]
    with pa.OSFile(str(path)) as file:
        assert read_numbers(file, footer, [0], sources) == {}
    assert survives(tmp_path, path.read_bytes(), name) == "partly"


def test_a_run_of_many_nulls_is_read_in_parts(tmp_path):
    """A hundred million NULLs are a few bytes in a file, and 800 MB in memory."""
    table = pa.table({"n": pa.nulls(50_000, pa.int64())})
    path = write_file(tmp_path / "a.parquet", [table], use_dictionary=False)
    described = relation([path], table.schema)
    footer = footer_of(path)
    layout = FileLayout.of(described, described.files[0], footer)
    assert layout.column_bytes(["n"], 0)[1] < 5000
    assert layout.memory_bytes(["n"], 0) == 400_000
    with FileReader(layout, described, Metrics()) as reader:
        parts = [part[0] for part in reader.pieces(0, ["n"], 100_000)]
    assert max(map(len, parts)) == 12_500
    assert sum(map(len, parts)) == 50_000


def test_fewer_rows_than_the_footer_says_are_a_problem_of_the_file(tmp_path):
    """Arrow gives what it finds. An LZ4 page is its to decode."""
    parts = take_apart(seed_files()["numbers-lz4-v1"])
    for chunk in parts.chunks:
        chunk.pages = [page for page in chunk.pages if page.kind == 2] + [p for p in chunk.pages if p.kind != 2][:1]
    outcome = survives(tmp_path, put_together(parts), "numbers-lz4-v1")
    assert outcome == "partly"  # the column that no file holds is NULL


def test_levels_that_do_not_exist_are_left_to_arrow(tmp_path):
    parts = take_apart(seed_files()["numbers-none-v2"])
    for chunk in parts.chunks:
        for page in (page for page in chunk.pages if page.kind == 3):
            page.levels = bytes([128, 1, 3])  # a run of 64 rows at level 3
            page.details[5] = (I32, len(page.levels))
    assert survives(tmp_path, put_together(parts), "numbers-none-v2") in ("partly", "unreadable")


@pytest.mark.parametrize("decoder", ["own", "arrow"])
def test_one_switch_decides_who_decodes(tmp_path, monkeypatch, decoder):
    """With `arrow`, no page header is read here and no kernel sees a page."""
    table = pa.table({"n": pa.array([1, None, 3] * 30_000, pa.int64()), "s": ["a", "b", None] * 30_000})
    path = write_file(tmp_path / "a.parquet", [table], max_rows_per_page=1000)
    asked = []

    def refuse(*arguments: object) -> None:
        asked.append(arguments)
        raise Unusual

    monkeypatch.setattr(StoredChunk, "__init__", refuse)
    original = page_headers.read_page_header
    monkeypatch.setattr(page_headers, "read_page_header", lambda *given: asked.append(given) or original(*given))
    described = relation([path], table.schema, decoder=decoder)
    layout = FileLayout.of(described, described.files[0], footer_of(path))
    with FileReader(layout, described, Metrics(), frozenset({"s"})) as reader:
        reader.read([0], ["n", "s"])
        picked = RowPicker(reader, DRIVER).take(0, ["n"], np.array([5, 6]))[0]
    assert picked.to_pylist() == [3, 1]
    assert bool(asked) == (decoder == "own")


def test_a_problem_names_the_file(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(change_footer(seed_files()["numbers-none-v1"], LIES["a negative size"]))
    with pytest.raises(FileProblem, match="the size of a column is negative") as problem:
        footer_of(path)
    assert (problem.value.kind, problem.value.path) == (ProblemKind.CORRUPT, str(path))
