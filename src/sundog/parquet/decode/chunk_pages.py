"""The pages of a column chunk as a table, for sundog's own decoders.

    chunk:   [dictionary][page of codes][page of codes][plain page] ...

`text_pages.py` and `number_pages.py` decode them; `pages.py`, which reads only a few rows, leaves decoding to Arrow.
Arrow also decodes, or refuses, all other chunks: nested columns, encodings and codecs that neither Spark nor Arrow
writes by default, and inconsistent pages. Nothing is read outside of the chunk's bytes.

Headers are read once (`page_headers.py`) and cached by chunk, up to some 16 MB (`_KNOWN_CHUNKS`). They are not part of
the footer, which would keep them as long as it is cached.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.kernels.pages.open_pages import (
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
from sundog.kernels.pages.snappy import SLACK
from sundog.parquet.decode.page_headers import (
    DATA_PAGE_V2,
    DICTIONARY_ENCODINGS,
    DICTIONARY_PAGE,
    PLAIN,
    PLAIN_DICTIONARY,
    RLE,
    PageHeader,
    UnknownPage,
    pages_in_memory,
)
from sundog.parquet.meta.footer import Footer
from sundog.parquet.meta.thrift import ThriftError

CODECS_OF_KERNELS = ("UNCOMPRESSED", "SNAPPY")
_CODECS = (*CODECS_OF_KERNELS, "GZIP", "ZSTD")
_BIT_PACKED = 4
_ENCODINGS = sum(1 << each for each in (PLAIN, *DICTIONARY_ENCODINGS, RLE, _BIT_PACKED))  # of values, and of levels
# Limits of compression, in bytes for each compressed byte: in Snappy three bytes repeat 64, in Deflate two bits repeat
# 258. Zstandard has no limit.
_MAX_PER_BYTE = {"SNAPPY": 22, "GZIP": 1032}
_NO_DICTIONARY = [0, 0, 0, 0, AS_STORED, 0, 0]
_KNOWN_CHUNKS = 1 << 14  # of about 1 kB each

Table = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class Unusual(Exception):
    """A chunk that is left to Arrow's decoder."""


def bits_of(valid: Bytes) -> pa.Buffer:
    """A bit for each byte."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


class StoredChunk:
    """The place of a chunk, and its pages: known only after it was read, since Parquet has no list of them."""

    def __init__(self, footer: Footer, row_group: int, leaf: int) -> None:
        column = footer.values.leaves[leaf]
        chunk = footer.chunk(row_group, leaf)
        if not column.is_flat:
            raise Unusual
        if chunk.codec not in _CODECS or chunk.encodings & ~_ENCODINGS:
            raise Unusual  # before a byte is read: Arrow would read it again
        self.start, self.size = chunk.start, chunk.compressed
        self.codec = chunk.codec
        self.rows = int(footer.row_counts[row_group])
        self._most = chunk.uncompressed
        self._nullable = column.is_nullable
        self._pages: Table | None = None

    def is_readable_by_kernels(self, source: pa.NativeFile) -> bool:
        """Whether a kernel can read and decompress it by itself."""
        return self._pages is not None and self.codec in CODECS_OF_KERNELS and isinstance(source, pa.OSFile)

    @cached_property
    def is_all_compressed(self) -> bool:
        """Whether every page must be decompressed, so that none is used where it was read."""
        return bool(((self.pages[:, UNPACKED_AT] != AS_STORED) | (self.pages[:, ROWS] == 0)).all())

    @property
    def pages(self) -> Table:
        """The table for `kernels/pages/open_pages.py`. All pages are inside the chunk, and have its rows in total."""
        assert self._pages is not None
        return self._pages

    @cached_property
    def is_coded(self) -> bool:
        """Whether every row is the number of a dictionary entry."""
        return bool(self.pages[0, ROWS]) and bool(self.pages[1:, CODED].all())

    @cached_property
    def buffer_sizes(self) -> tuple[int, int, int]:
        """Bytes of the largest page as it is stored, of the largest one decompressed, and of the entries as wide
        numbers."""
        stored = self.pages[:, PACKED] + np.maximum(self.pages[:, LEVELS], 0)
        return int(stored.max()), int(self.pages[:, UNPACKED].max()), 8 * int(self.pages[0, ROWS])

    @cached_property
    def unpacked_size(self) -> int:
        return int(self.pages[:, UNPACKED].sum())

    def read(self, source: pa.NativeFile) -> pa.Buffer:
        """The bytes of the chunk; its pages are known afterwards. Raises Unusual if Arrow has to read it."""
        source.seek(self.start)
        data = source.read_buffer(self.size)
        if data.size != self.size:
            raise Unusual
        if self._pages is None:
            self._learn(data)
        return data

    def _learn(self, data: pa.Buffer) -> None:
        try:
            self._pages = self._find(memoryview(data).cast("B"))
        except (ThriftError, UnknownPage) as problem:
            raise Unusual from problem

    def _find(self, data: memoryview) -> Table:
        """All pages. Sums are Python integers, which do not wrap around: kernels rely on them."""
        found = [_NO_DICTIONARY]
        to = rows = 0
        for header, _, body, _ in pages_in_memory(data):
            page = self._page(header, body)
            if page[UNPACKED_AT] != AS_STORED:
                page[UNPACKED_AT] = to
                to += page[UNPACKED]
            if header.kind == DICTIONARY_PAGE:
                found[0] = page
            else:
                found.append(page)
                rows += page[ROWS]
        if rows != self.rows or to > self._most:
            raise Unusual
        return np.array(found, np.int64)

    def _page(self, header: PageHeader, body: int) -> list[int]:
        """A row of the table; UNPACKED_AT only tells whether the page is compressed."""
        is_dictionary, is_second = header.kind == DICTIONARY_PAGE, header.kind == DATA_PAGE_V2
        size = header.level_bytes
        packed, unpacked = header.packed - size, header.unpacked - size
        compressed = self.codec != "UNCOMPRESSED" and header.is_compressed and not (is_second and packed == 0)
        coded = not is_dictionary and header.encoding in DICTIONARY_ENCODINGS
        plain = (PLAIN, PLAIN_DICTIONARY) if is_dictionary else (PLAIN,)
        if not header.is_flat or not (coded or header.encoding in plain):
            raise Unusual
        if unpacked != packed if not compressed else unpacked > _MAX_PER_BYTE.get(self.codec, unpacked) * packed:
            raise Unusual
        levels = 0
        if self._nullable and not is_dictionary:
            levels = size if is_second else LEVELS_INSIDE
            if header.level_encoding != RLE or (is_second and header.values and not size):
                raise Unusual
        elif size:
            raise Unusual  # levels in a column that has none
        return [
            header.values,
            coded,
            body + size,
            packed,
            0 if compressed else AS_STORED,
            unpacked if compressed else 0,
            levels,
        ]


@lru_cache(_KNOWN_CHUNKS)
def stored_chunk(footer: Footer, row_group: int, leaf: int) -> StoredChunk:
    return StoredChunk(footer, row_group, leaf)


def decompressed(chunk: StoredChunk, data: pa.Buffer) -> pa.Buffer | None:
    """The decompressed pages, for `open_pages`; None if kernels can decompress them."""
    if chunk.codec in CODECS_OF_KERNELS:
        return None
    unpacked = pa.allocate_buffer(chunk.unpacked_size + SLACK)
    target, codec = memoryview(unpacked).cast("B"), pa.Codec(chunk.codec.lower())
    for page in chunk.pages[chunk.pages[:, UNPACKED_AT] != AS_STORED].tolist():
        packed = data.slice(page[PACKED_AT], page[PACKED])
        to = target[page[UNPACKED_AT] : page[UNPACKED_AT] + page[UNPACKED]]
        if chunk.codec == "GZIP":
            _write_gzip(packed, to)
        else:  # Zstandard raises OSError unless the data fill the buffer exactly
            to[:] = memoryview(codec.decompress(packed, len(to))).cast("B")
    return unpacked


def _write_gzip(packed: pa.Buffer, to: memoryview) -> None:
    """Decompress as a stream, since the codec does not report missing bytes. For Zstandard that would take a tenth
    longer."""
    with pa.CompressedInputStream(pa.BufferReader(packed), "gzip") as stream:
        if stream.readinto(to) != len(to) or stream.read(1):
            raise Unusual


def descriptor_of(source: pa.NativeFile) -> int:
    """The file descriptor, for kernels that read the file, if it is a local one."""
    return int(source.fileno()) if isinstance(source, pa.OSFile) else -1
