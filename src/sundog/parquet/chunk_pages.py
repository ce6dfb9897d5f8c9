"""The pages of a column chunk, for who decodes them himself.

    chunk:   [dictionary][page of codes][page of codes][plain page] ...

`text_pages.py` and `number_pages.py` do; `pages.py`, which only wants a few rows, leaves decoding to Arrow. What is not
taken here is left to Arrow as well, which decodes or refuses it as always: other encodings and codecs than the ones that
Spark and Arrow write, nested columns, and any page that does not add up. Nothing is read outside of the chunk's bytes.

Parquet keeps no list of a chunk's pages: each has a header before it, which says how long it is. Headers are read once and
then known; not with the footer, which keeps what it knows as long as it lives, but for as many chunks as take 16 MB or so.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.kernels.open_pages import (
    AS_STORED,
    CODED,
    LEVELS,
    LEVELS_INSIDE,
    PACKED,
    PACKED_AT,
    ROWS,
    UNPACKED,
    UNPACKED_AT,
)
from sundog.kernels.snappy import SLACK
from sundog.parquet.footer import Footer
from sundog.parquet.pages import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_ENCODINGS, DICTIONARY_PAGE, chunk_start
from sundog.parquet.thrift import Struct, ThriftError, read_struct

_CODECS_OF_KERNELS = ("UNCOMPRESSED", "SNAPPY")
_CODECS = (*_CODECS_OF_KERNELS, "GZIP", "ZSTD")
_ENCODINGS = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}  # of values, and of levels
_PLAIN, _PLAIN_DICTIONARY, _RLE = 0, 2, 3
_NO_DICTIONARY = [0, 0, 0, 0, AS_STORED, 0, 0]
_KNOWN_CHUNKS = 1 << 14  # of about 1 kB each

Table = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class Unusual(Exception):
    """Something that Arrow should read."""


def bits_of(valid: Bytes) -> pa.Buffer:
    """A bit for each byte."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


class StoredChunk:
    """Where a chunk is, and its pages in it: once it has been read, since Parquet keeps no list of them."""

    def __init__(self, footer: Footer, row_group: int, leaf: int) -> None:
        column = footer.metadata.schema.column(leaf)
        chunk = footer.metadata.row_group(row_group).column(leaf)
        if column.max_repetition_level > 0 or column.max_definition_level > 1:
            raise Unusual
        if chunk.compression not in _CODECS or not _ENCODINGS.issuperset(chunk.encodings):
            raise Unusual  # before a byte is read, which Arrow would read again
        self.start, self.size = chunk_start(chunk), chunk.total_compressed_size
        self.codec: str = chunk.compression
        self.rows = int(footer.row_counts[row_group])
        self._most = chunk.total_uncompressed_size
        self._nullable = column.max_definition_level > 0
        self._pages: Table | None = None

    def is_readable_by_kernels(self, source: pa.NativeFile) -> bool:
        """Whether a kernel can read and decompress it by itself."""
        return self._pages is not None and self.codec in _CODECS_OF_KERNELS and isinstance(source, pa.OSFile)

    @cached_property
    def is_all_compressed(self) -> bool:
        """Whether nothing has to stay where it was read."""
        return bool(((self.pages[:, UNPACKED_AT] != AS_STORED) | (self.pages[:, ROWS] == 0)).all())

    @property
    def pages(self) -> Table:
        """As `kernels/open_pages.py` wants them. All of them are inside of the chunk, and have its rows."""
        assert self._pages is not None
        return self._pages

    @cached_property
    def is_coded(self) -> bool:
        """Whether every row is the number of a dictionary entry."""
        return bool(self.pages[0, ROWS]) and bool(self.pages[1:, CODED].all())

    @cached_property
    def rooms(self) -> tuple[int, int, int]:
        """Bytes of the largest page as it is stored, of the largest one decompressed, and of the entries as wide numbers."""
        stored = self.pages[:, PACKED] + np.maximum(self.pages[:, LEVELS], 0)
        return int(stored.max()), int(self.pages[:, UNPACKED].max()), 8 * int(self.pages[0, ROWS])

    @cached_property
    def unpacked_size(self) -> int:
        return int(self.pages[:, UNPACKED].sum())

    def read(self, source: pa.NativeFile) -> pa.Buffer:
        """The bytes of the chunk; its pages are known from then on. Raises Unusual where Arrow has to read it."""
        source.seek(self.start)
        data = source.read_buffer(self.size)
        if data.size != self.size:
            raise Unusual
        if self._pages is None:
            self._learn(data)
        return data

    def _learn(self, data: pa.Buffer) -> None:
        try:
            pages = self._find(memoryview(data).cast("B"))
        except (ThriftError, LookupError, TypeError, OverflowError) as problem:
            raise Unusual from problem  # no page header, or one of a new kind
        if pages[1:, ROWS].sum() != self.rows or pages[:, UNPACKED].sum() > self._most:
            raise Unusual
        self._pages = pages

    def _find(self, data: memoryview) -> Table:
        found = [_NO_DICTIONARY]
        at = to = 0
        while at < len(data):
            header, body = read_struct(data, at)
            page = self._page(header, body)
            at = body + header[3][1]
            if at > len(data) or min(page[ROWS], page[PACKED], page[UNPACKED]) < 0:
                raise Unusual
            if page[UNPACKED_AT] != AS_STORED:
                page[UNPACKED_AT] = to
                to += page[UNPACKED]
            if header[1][1] == DICTIONARY_PAGE and len(found) == 1 and found[0] is _NO_DICTIONARY:
                found[0] = page
            else:
                found.append(page)
        return np.array(found, np.int64)

    def _page(self, header: Struct, body: int) -> list[int]:
        """A row of the table; UNPACKED_AT only tells whether the page is compressed."""
        kind, unpacked, packed = (header[number][1] for number in (1, 2, 3))
        compressed = self.codec != "UNCOMPRESSED"
        levels = 0
        if kind == DATA_PAGE_V2:
            details: Struct = header[8][1]
            rows, encoding, size, repetitions = (details[number][1] for number in (1, 4, 5, 6))
            compressed = compressed and (7 not in details or details[7][1]) and packed > size
            body, packed, unpacked = body + size, packed - size, unpacked - size
            levels = size if self._nullable else 0
            if repetitions or size < 0 or (self._nullable and rows and not size):
                raise Unusual
        elif kind in (DATA_PAGE, DICTIONARY_PAGE):
            details = header[5 if kind == DATA_PAGE else 7][1]
            rows, encoding = details[1][1], details[2][1]
            if self._nullable and kind == DATA_PAGE:
                levels = LEVELS_INSIDE
                if details[3][1] != _RLE:
                    raise Unusual
        else:
            raise Unusual
        coded = kind != DICTIONARY_PAGE and encoding in DICTIONARY_ENCODINGS
        if not coded and encoding != _PLAIN and not (kind == DICTIONARY_PAGE and encoding == _PLAIN_DICTIONARY):
            raise Unusual
        return [rows, coded, body, packed, 0 if compressed else AS_STORED, unpacked if compressed else 0, levels]


@lru_cache(_KNOWN_CHUNKS)
def stored_chunk(footer: Footer, row_group: int, leaf: int) -> StoredChunk:
    return StoredChunk(footer, row_group, leaf)


def decompressed(chunk: StoredChunk, data: pa.Buffer) -> pa.Buffer | None:
    """The pages, where `open_pages` expects them; None if kernels can decompress them."""
    if chunk.codec in _CODECS_OF_KERNELS:
        return None
    unpacked = pa.allocate_buffer(chunk.unpacked_size + SLACK)
    decompress, room = pa.Codec(chunk.codec.lower()).decompress, memoryview(unpacked).cast("B")
    for page in chunk.pages[chunk.pages[:, UNPACKED_AT] != AS_STORED].tolist():
        bytes_of_page = decompress(data.slice(page[PACKED_AT], page[PACKED]), page[UNPACKED])
        room[page[UNPACKED_AT] : page[UNPACKED_AT] + page[UNPACKED]] = memoryview(bytes_of_page).cast("B")
    return unpacked


def descriptor_of(source: pa.NativeFile) -> int:
    """For kernels that read the file, if it is a local one."""
    return int(source.fileno()) if isinstance(source, pa.OSFile) else -1
