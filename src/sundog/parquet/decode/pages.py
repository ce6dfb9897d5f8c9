"""A few rows of a column chunk, decoded from the pages that hold them and no others.

Late materialisation wants 100 rows of a row group of a million. Arrow decodes whole column chunks: it cannot skip a
page. But it reads a Parquet file from any buffer. A column chunk is only an optional dictionary page followed by data
pages, each with a header that has its length and number of rows. So the headers are read (11 µs each; a page is about
20,000 rows) and the wanted pages are copied one after the other. A footer of a few dozen bytes makes them a file of one
column and one row group, which Arrow then decodes as usual:

    chunk in the file:   [dict][page 0][page 1][page 2][page 3][page 4]        rows wanted: all in pages 1 and 4
    what Arrow is given: PAR1 [dict][page 1][page 4] footer PAR1

sundog decodes no value itself. Local files only: headers are read one by one, which costs nothing on a disk and a round
trip each on an object store. To be decoded are the wanted pages and, if they refer to it, the chunk's dictionary;
making and opening the small file costs 0.2-0.3 ms. `late.py` has the times.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sundog.kernels.pages.thrift_values import BINARY, I32, I64, LIST, STRUCT
from sundog.parquet.decode.page_headers import (
    DICTIONARY_ENCODINGS,
    DICTIONARY_PAGE,
    PLAIN,
    PlacedPage,
    UnknownPage,
    pages_in_file,
)
from sundog.parquet.decode.page_map import PageMap
from sundog.parquet.meta.chunk_table import CODECS, MAGIC
from sundog.parquet.meta.footer import Footer
from sundog.parquet.meta.thrift import Struct, ThriftError, write_struct
from sundog.parquet.meta.thrift_fields import ChunkFields, ChunkMetadataFields, FileFields, RowGroupFields, SchemaFields

_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD")


class PageReader:
    """Rows by page for one open local file. Not shared between threads."""

    def __init__(self, source: pa.NativeFile, footer: Footer) -> None:
        self._source = source
        self._footer = footer

    def page_map(self, row_group: int, leaf: int) -> PageMap | None:
        """None if pages cannot be read one by one: an unusual codec, or inconsistent headers."""
        known: dict[tuple[type, int, int], PageMap | None] = self._footer.derived
        key = (PageMap, row_group, leaf)
        if key not in known:
            known[key] = self._walk(row_group, leaf)
        return known[key]

    def _walk(self, row_group: int, leaf: int) -> PageMap | None:
        chunk = self._footer.chunk(row_group, leaf)
        if chunk.codec not in _CODECS:
            return None
        try:
            return self._map(pages_in_file(self._source, chunk.start, chunk.compressed), row_group, chunk.start)
        except (ThriftError, UnknownPage):
            return None

    def _map(self, pages: Iterator[PlacedPage], row_group: int, chunk_start: int) -> PageMap | None:
        """Reads no header behind the last row."""
        dictionary: tuple[int, int] | None = None
        offsets: list[int] = []
        lengths: list[int] = []
        first_rows = [0]
        uses_dictionary: list[bool] = []
        rows = int(self._footer.row_counts[row_group])
        while first_rows[-1] < rows:
            page = next(pages, None)
            if page is None or not page.header.is_flat:
                return None
            if page.header.kind == DICTIONARY_PAGE:
                dictionary = (chunk_start + page.start, page.end - page.start)
                continue
            offsets.append(chunk_start + page.start)
            lengths.append(page.end - page.start)
            first_rows.append(first_rows[-1] + page.header.values)
            uses_dictionary.append(page.header.encoding in DICTIONARY_ENCODINGS)
        if first_rows[-1] != rows:
            return None
        return PageMap(
            dictionary, np.array(offsets), np.array(lengths), np.array(first_rows), np.array(uses_dictionary)
        )

    def decode(
        self, row_group: int, leaf: int, pages: PageMap, rows: npt.NDArray[np.int64], as_dictionary: bool = False
    ) -> pa.Table:
        """The pages of the (ascending) rows, decoded by Arrow. `as_dictionary` avoids copying strings."""
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
        parts = [MAGIC]
        dictionary = pages.dictionary_for(chosen)
        if dictionary is not None:
            parts.append(self._source.read_at(dictionary[1], dictionary[0]))
        first_data = sum(map(len, parts))
        for run in np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1):  # neighbours in one read
            first, last = run[0], run[-1]
            length = int(pages.offsets[last] + pages.lengths[last] - pages.offsets[first])
            parts.append(self._source.read_at(length, int(pages.offsets[first])))
        rows = pages.rows_of(chosen)
        size = sum(map(len, parts)) - len(MAGIC)
        element = self._footer.values.element(leaf)
        metadata: Struct = {
            ChunkMetadataFields.TYPE: (I32, self._footer.values.leaves[leaf].physical_type),
            ChunkMetadataFields.ENCODINGS: (LIST, (I32, [PLAIN])),
            ChunkMetadataFields.PATH: (LIST, (BINARY, [element[SchemaFields.NAME][1]])),
            ChunkMetadataFields.CODEC: (I32, CODECS.index(chunk.codec)),
            ChunkMetadataFields.NUM_VALUES: (I64, rows),
            ChunkMetadataFields.UNCOMPRESSED_BYTES: (I64, size),
            ChunkMetadataFields.COMPRESSED_BYTES: (I64, size),
            ChunkMetadataFields.DATA_PAGE_OFFSET: (I64, first_data),
        }
        if dictionary is not None:
            metadata[ChunkMetadataFields.DICTIONARY_PAGE_OFFSET] = (I64, len(MAGIC))
        column: Struct = {ChunkFields.FILE_OFFSET: (I64, len(MAGIC)), ChunkFields.METADATA: (STRUCT, metadata)}
        group: Struct = {
            RowGroupFields.COLUMNS: (LIST, (STRUCT, [column])),
            RowGroupFields.TOTAL_BYTES: (I64, size),
            RowGroupFields.NUM_ROWS: (I64, rows),
        }
        root: Struct = {SchemaFields.NAME: (BINARY, b"schema"), SchemaFields.NUM_CHILDREN: (I32, 1)}
        footer = write_struct(
            {
                FileFields.VERSION: (I32, 2),
                FileFields.SCHEMA: (LIST, (STRUCT, [root, element])),
                FileFields.NUM_ROWS: (I64, rows),
                FileFields.ROW_GROUPS: (LIST, (STRUCT, [group])),
            }
        )
        return b"".join([*parts, footer, len(footer).to_bytes(4, "little"), MAGIC])
