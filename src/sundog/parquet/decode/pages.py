"""A few rows of a column chunk, decoded from the pages that hold them and from no others.

Late materialisation wants 100 rows of a row group of a million. Arrow decodes column chunks whole: it has no way to be
told to skip a page. But it reads a Parquet file from any buffer, and a column chunk is nothing but an optional
dictionary page followed by data pages, each with a header that says how long it is and how many rows it has. So the
headers are walked (11 µs each; a page is about 20,000 rows), the wanted pages are copied behind each other, and a footer
of a few dozen bytes makes them a file of one column and one row group, which Arrow then decodes as it always does:

    chunk in the file:   [dict][page 0][page 1][page 2][page 3][page 4]        rows wanted: all in pages 1 and 4
    what Arrow is given: PAR1 [dict][page 1][page 4] footer PAR1

No value is decoded by sundog itself. Local files only: headers are read one by one, which costs nothing on a disk and a
round trip each on an object store. The bytes that must still be decoded are the wanted pages and, if they refer to it,
the chunk's dictionary; making and opening the small file costs 0.2-0.3 ms. `late.py` has the times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sundog.kernels.thrift_values import BINARY, I32, I64, LIST, STRUCT
from sundog.parquet.decode.page_headers import (
    DICTIONARY_ENCODINGS,
    DICTIONARY_PAGE,
    PageHeader,
    UnknownPage,
    read_page_header,
)
from sundog.parquet.meta.file_metadata import CODECS
from sundog.parquet.meta.footer import Footer
from sundog.parquet.meta.thrift import Struct, ThriftError, write_struct

_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD")
_HEADER_BYTES = 512
_LARGEST_HEADER = 1 << 20


@dataclass(frozen=True)
class PageMap:
    """Where the pages of a column chunk are. Page i has rows first_rows[i] up to first_rows[i + 1]."""

    dictionary: tuple[int, int] | None  # offset and length, header included
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    first_rows: npt.NDArray[np.int64]
    uses_dictionary: npt.NDArray[np.bool_]  # a writer may give up on its dictionary in the middle of a chunk

    def dictionary_for(self, pages: npt.NDArray[np.int64]) -> tuple[int, int] | None:
        """The dictionary page, if one of these pages refers to it."""
        return self.dictionary if bool(self.uses_dictionary[pages].any()) else None

    def pages_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The pages that hold the (ascending) rows."""
        return np.unique(np.searchsorted(self.first_rows, rows, side="right") - 1)

    def rows_of(self, pages: npt.NDArray[np.int64]) -> int:
        return int(np.diff(self.first_rows)[pages].sum())

    def moved(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where the (ascending) rows are if their pages are all there is."""
        kept = np.zeros(len(self.lengths), np.int64)
        chosen = self.pages_of(rows)
        kept[chosen] = np.diff(self.first_rows)[chosen]
        first = np.cumsum(kept) - kept
        page = np.searchsorted(self.first_rows, rows, side="right") - 1
        found: npt.NDArray[np.int64] = rows - self.first_rows[page] + first[page]
        return found

    def bytes_of(self, pages: npt.NDArray[np.int64]) -> int:
        """What must be read and decoded for these pages."""
        dictionary = self.dictionary_for(pages)
        return int(self.lengths[pages].sum()) + (dictionary[1] if dictionary else 0)


class PageReader:
    """Rows by page for one open local file. Not shared between threads."""

    def __init__(self, source: pa.NativeFile, footer: Footer) -> None:
        self._source = source
        self._footer = footer

    def page_map(self, row_group: int, leaf: int) -> PageMap | None:
        """None where pages cannot be read one by one: an unusual codec, or headers that make no sense."""
        known: dict[tuple[type, int, int], PageMap | None] = self._footer.derived
        key = (PageMap, row_group, leaf)
        if key not in known:
            known[key] = self._walk(row_group, leaf)
        return known[key]

    def _walk(self, row_group: int, leaf: int) -> PageMap | None:
        chunk = self._footer.chunk(row_group, leaf)
        if chunk.codec not in _CODECS:
            return None
        offset, end = chunk.start, chunk.start + chunk.compressed
        dictionary: tuple[int, int] | None = None
        offsets: list[int] = []
        lengths: list[int] = []
        first_rows = [0]
        uses_dictionary: list[bool] = []
        rows = int(self._footer.row_counts[row_group])
        while first_rows[-1] < rows:
            header, length = self._header(offset)
            if header is None or offset + length > end or not header.is_flat:
                return None
            if header.kind != DICTIONARY_PAGE:
                offsets.append(offset)
                lengths.append(length)
                first_rows.append(first_rows[-1] + header.values)
                uses_dictionary.append(header.encoding in DICTIONARY_ENCODINGS)
            elif dictionary is None and not offsets:
                dictionary = (offset, length)
            else:
                return None
            offset += length
        if first_rows[-1] != rows:
            return None
        return PageMap(
            dictionary, np.array(offsets), np.array(lengths), np.array(first_rows), np.array(uses_dictionary)
        )

    def _header(self, offset: int) -> tuple[PageHeader | None, int]:
        """A page header and the length of the whole page. A header with long statistics is read again, larger."""
        size = _HEADER_BYTES
        while size <= _LARGEST_HEADER:
            try:
                header, length = read_page_header(self._source.read_at(size, offset))
            except ThriftError:
                size *= 8
            except UnknownPage:
                break
            else:
                return header, length + header.packed
        return None, 0

    def decode(
        self, row_group: int, leaf: int, pages: PageMap, rows: npt.NDArray[np.int64], as_dictionary: bool = False
    ) -> pa.Table:
        """The pages of the (ascending) rows, as Arrow decodes them. `as_dictionary` spares it copying strings."""
        chosen = pages.pages_of(rows)
        data = self._file_of(row_group, leaf, pages, chosen)
        file = pq.ParquetFile(
            pa.BufferReader(data),
            read_dictionary=[0] if as_dictionary and bool(pages.uses_dictionary[chosen].all()) else None,
            coerce_int96_timestamp_unit="us",
            pre_buffer=False,
        )
        return file.reader.read_row_group(0, use_threads=False)

    def _file_of(self, row_group: int, leaf: int, pages: PageMap, chosen: npt.NDArray[np.int64]) -> bytes:
        chunk = self._footer.chunk(row_group, leaf)
        parts = [b"PAR1"]
        dictionary = pages.dictionary_for(chosen)
        if dictionary is not None:
            parts.append(self._source.read_at(dictionary[1], dictionary[0]))
        first_data = sum(map(len, parts))
        for run in np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1):  # neighbours in one read
            first, last = run[0], run[-1]
            length = int(pages.offsets[last] + pages.lengths[last] - pages.offsets[first])
            parts.append(self._source.read_at(length, int(pages.offsets[first])))
        rows = pages.rows_of(chosen)
        size = sum(map(len, parts)) - 4
        element = self._footer.values.element(leaf)
        metadata: Struct = {
            1: (I32, self._footer.values.leaves[leaf].physical_type),
            2: (LIST, (I32, [0])),
            3: (LIST, (BINARY, [element[4][1]])),
            4: (I32, CODECS.index(chunk.codec)),
            5: (I64, rows),
            6: (I64, size),
            7: (I64, size),
            9: (I64, first_data),
        }
        if dictionary is not None:
            metadata[11] = (I64, 4)
        column: Struct = {2: (I64, 4), 3: (STRUCT, metadata)}
        group: Struct = {1: (LIST, (STRUCT, [column])), 2: (I64, size), 3: (I64, rows)}
        root: Struct = {4: (BINARY, b"schema"), 5: (I32, 1)}
        footer = write_struct(
            {
                1: (I32, 2),
                2: (LIST, (STRUCT, [root, element])),
                3: (I64, rows),
                4: (LIST, (STRUCT, [group])),
            }
        )
        return b"".join([*parts, footer, len(footer).to_bytes(4, "little"), b"PAR1"])
