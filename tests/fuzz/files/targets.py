"""What a coverage-guided fuzzer calls: one function for each kind of bytes that a file holds.

The first byte of an input chooses the target. Each raises for whatever must not happen, and returns for bytes that are
refused as they should be. Kernels run compiled, or as Python over checked memory (`checked_memory.py`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sundog.kernels.pages.parquet_values import BROKEN, rows_with_values, unpack_codes
from sundog.kernels.pages.snappy import SLACK, unpack_snappy
from sundog.parquet.decode import number_pages, text_pages
from sundog.parquet.decode.chunk_pages import StoredChunk, Unusual, decompressed
from sundog.parquet.decode.page_headers import UnknownPage, read_page_header
from sundog.parquet.meta.chunk_table import MAGIC
from sundog.parquet.meta.file_metadata import parse_footer
from sundog.parquet.meta.footer import Footer, _check_agreement
from sundog.parquet.meta.struct_table import Broken
from sundog.parquet.meta.thrift import ThriftError, read_struct, write_struct
from tests.fuzz.files.checked_memory import MEMORY

_LARGE = 1 << 40
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD")
_STORED = ((pa.int32(), pa.int32()), (pa.int64(), pa.int64()), (pa.int32(), pa.int8()), (pa.int32(), pa.int64()))
_MAX_ROWS = 1024


def footer(data: bytes) -> None:
    """All that is asked of a footer, by us and of Arrow."""
    try:
        values = parse_footer(data, _LARGE)
        metadata = pq.read_metadata(pa.BufferReader(MAGIC + data + len(data).to_bytes(4, "little") + MAGIC))
        _check_agreement(metadata, values)
    except (Broken, pa.ArrowException, OSError):
        return
    found = Footer("", (_LARGE,), metadata, values)
    for indexes in found.flat_columns().values():
        for leaf in indexes:
            found.leaf(leaf)
            found.raw_statistics(leaf)
            values.element(leaf)
            for group in range(found.num_row_groups):
                chunk = found.chunk(group, leaf)
                if not 0 <= chunk.start <= chunk.start + chunk.compressed <= _LARGE:
                    raise AssertionError(f"a column chunk at {chunk.start}")


def page_header(data: bytes) -> None:
    """A page header; and a struct that can be read can be written, and read again."""
    try:
        struct, end = read_struct(data)
    except ThriftError:
        return
    if end > len(data) or read_struct(write_struct(struct))[0] != struct:
        raise AssertionError("a struct is not what it was")
    try:
        header, body = read_page_header(data)
    except (ThriftError, UnknownPage):
        return
    if body != end or not min(header.packed, header.unpacked, header.values, header.level_bytes) >= 0:
        raise AssertionError(f"{header} is taken for a header")


def snappy(data: bytes) -> None:
    """A block: what is accepted must be what Arrow makes of it."""
    size, block = int.from_bytes(data[:2], "little") & 0xFFF, data[2:]
    source = MEMORY.allow(pa.py_buffer(block or b"\0"))
    out = MEMORY.allow(pa.py_buffer(bytearray(size + SLACK)))
    outcome = unpack_snappy(source.address, source.address + len(block), out.address, size)
    if outcome != BROKEN and bytes(out)[:size] != bytes(pa.Codec("snappy").decompress(block, size)):
        raise AssertionError("two decompressors, two answers")


def levels(data: bytes) -> None:
    rows, block = int.from_bytes(data[:2], "little") % _MAX_ROWS, data[2:]
    source = MEMORY.allow(pa.py_buffer(block or b"\0"))
    valid = np.full(rows, 7, np.uint8)
    missing = rows_with_values(source.address, source.address + len(block), valid)
    if missing != BROKEN and (missing != np.count_nonzero(valid == 0) or (valid > 1).any()):
        raise AssertionError(f"{missing} of {rows} rows are missing")


def codes(data: bytes) -> None:
    count, entries, block = int.from_bytes(data[:2], "little") % _MAX_ROWS, data[2] if len(data) > 2 else 0, data[3:]
    source = MEMORY.allow(pa.py_buffer(block or b"\0"))
    found = np.full(count, 7, np.uint32)
    outcome = unpack_codes(source.address, source.address + len(block), entries, found)
    if outcome != BROKEN and count and found.max() >= entries:
        raise AssertionError("a code beyond the dictionary")


def number_chunk(data: bytes) -> None:
    """The pages of a column chunk of numbers, its dictionary among them."""
    if len(data) < 4:
        return
    (stored, wanted), pages = _STORED[data[0] >> 3 & 3], data[3:]
    try:
        chunk = _chunk(data)
        source = pa.BufferReader(MEMORY.allow(pa.py_buffer(pages)))
        read = chunk.read(source)
        dtype = number_pages._type_to_read(stored, wanted, chunk.is_coded)
        unpacked = decompressed(chunk, read)
        column = number_pages._StoredColumn("n", dtype, None, stored.bit_width // 8, [chunk], [read], [unpacked])
        array = number_pages._decoded(source, [column], None).get("n")
        rows = _some_rows(chunk)
        chosen = number_pages._decoded(source, [column], rows).get("n")
    except (Unusual, pa.ArrowException, OSError):
        return
    for each in (array, chosen):
        if each is not None:
            each.validate(full=True)
    if array is not None and (chosen is None or not chosen.equals(array.take(pa.array(rows)))):
        raise AssertionError("chosen rows differ from all rows")


def _some_rows(chunk: StoredChunk) -> npt.NDArray[np.int64]:
    """Every third row of the first half, so that there are pages without any."""
    return np.arange(0, chunk.rows // 2, 3)


def text_chunk(data: bytes) -> None:
    """The pages of a column chunk of strings."""
    if len(data) < 4:
        return
    try:
        chunk = _chunk(data)
        source = pa.BufferReader(MEMORY.allow(pa.py_buffer(data[3:])))
        rows = _some_rows(chunk)
        as_dictionary, as_views = (
            text_pages._chosen(source, chunk, pa.binary_view(), rows, as_dictionary) for as_dictionary in (True, False)
        )
        array = text_pages._decoded(source, chunk, pa.binary_view())
    except (Unusual, pa.ArrowException, OSError):
        return
    for each in (as_dictionary, as_views, array):
        each.validate(full=True)
    texts = array.to_pylist()
    if any(each.to_pylist() != [texts[row] for row in rows] for each in (as_dictionary, as_views)):
        raise AssertionError("chosen rows differ from all rows")


def _chunk(data: bytes) -> StoredChunk:
    chunk = StoredChunk.__new__(StoredChunk)
    chunk.start, chunk.size = 0, len(data) - 3
    chunk.codec = _CODECS[data[0] & 3]
    chunk.rows = int.from_bytes(data[1:3], "little") % _MAX_ROWS
    chunk._most = 1 << 20
    chunk._nullable = bool(data[0] & 4)
    chunk._pages = None
    return chunk


TARGETS: tuple[Callable[[bytes], None], ...] = (footer, page_header, snappy, levels, codes, number_chunk, text_chunk)


def run(data: bytes) -> None:
    """One input."""
    MEMORY.clear()
    if data:
        TARGETS[data[0] % len(TARGETS)](data[1:])
