"""Page headers, read and checked, and the one loop over the pages of a column chunk.

    chunk:   [header][dictionary][header][page][header][page] ...

Parquet has no list of a chunk's pages: each has a header before it, with its length. Every number of a header is
checked here before it is used as a length, an offset or a count. Positions are counted from the first byte of the
chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from sundog.kernels.pages.thrift_values import FALSE, I32, STRUCT, TRUE
from sundog.parquet.meta.thrift import Struct, ThriftError, read_struct
from sundog.parquet.meta.thrift_fields import DataPageFields, DataPageV2Fields, DictionaryPageFields, PageHeaderFields

DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
DICTIONARY_ENCODINGS = (PLAIN_DICTIONARY, RLE_DICTIONARY)
MAX_PAGES = 1 << 20  # of a chunk
_MAX_COUNT = (1 << 31) - 1
_DETAILS = {
    DATA_PAGE: PageHeaderFields.DATA_PAGE,
    DICTIONARY_PAGE: PageHeaderFields.DICTIONARY_PAGE,
    DATA_PAGE_V2: PageHeaderFields.DATA_PAGE_V2,
}
_HEADER_BYTES = 512  # read at once from a file; a header with long statistics is read again with more bytes
_MAX_HEADER_BYTES = 1 << 20


class UnknownPage(ValueError):
    """A kind of page that is not used here, such as an index; or pages that cannot belong to one chunk."""


class PageHeader(NamedTuple):
    """The contents of a page header; every number is at least 0, and less than 2^31."""

    kind: int
    packed: int  # bytes after the header
    unpacked: int  # the same after decompression
    values: int  # with NULLs, or entries of the dictionary
    encoding: int
    level_encoding: int  # of a page of the first version
    level_bytes: int  # of a page of the second version: of the definition levels that it begins with
    is_compressed: bool  # if the chunk has a codec
    is_flat: bool  # by its header: as many rows as values, and no repetition levels


class PlacedPage(NamedTuple):
    """A page and where it is in its chunk: header from `start`, bytes from `body`, all up to `end`."""

    header: PageHeader
    start: int
    body: int
    end: int


def pages_in_memory(chunk: memoryview) -> Iterator[PlacedPage]:
    """The pages of a chunk that has been read. Raises ThriftError or UnknownPage."""
    return _walk(lambda position: read_page_header(chunk, position), len(chunk))


def pages_in_file(source: pa.NativeFile, chunk_start: int, chunk_bytes: int) -> Iterator[PlacedPage]:
    """The same for a chunk of which only the headers are read, one by one. Raises ThriftError or UnknownPage."""

    def read_header(position: int) -> tuple[PageHeader, int]:
        size = _HEADER_BYTES
        while True:
            try:
                header, length = read_page_header(source.read_at(size, chunk_start + position))
            except ThriftError:
                size *= 8
                if size > _MAX_HEADER_BYTES:
                    raise
            else:
                return header, position + length

    return _walk(read_header, chunk_bytes)


def _walk(read_header: Callable[[int], tuple[PageHeader, int]], chunk_bytes: int) -> Iterator[PlacedPage]:
    """Page after page, up to the end of the chunk. A dictionary may only be the first, and no page may pass the end."""
    position = count = 0
    while position < chunk_bytes:
        header, body = read_header(position)
        end = body + header.packed
        if end > chunk_bytes or count == MAX_PAGES or (header.kind == DICTIONARY_PAGE and count > 0):
            raise UnknownPage
        yield PlacedPage(header, position, body, end)
        position = end
        count += 1


def read_page_header(data: bytes | memoryview, position: int = 0) -> tuple[PageHeader, int]:
    """The header at the position, and the position of its page's bytes. Raises ThriftError or UnknownPage."""
    fields, body = read_struct(data, position)
    kind = _number(fields, PageHeaderFields.KIND)
    if kind not in _DETAILS:
        raise UnknownPage
    unpacked = _number(fields, PageHeaderFields.UNCOMPRESSED_BYTES)
    packed = _number(fields, PageHeaderFields.COMPRESSED_BYTES)
    details = _struct(fields, _DETAILS[kind])
    if kind == DATA_PAGE:
        values, encoding = _number(details, DataPageFields.NUM_VALUES), _number(details, DataPageFields.ENCODING)
        levels = _number(details, DataPageFields.DEFINITION_LEVEL_ENCODING)
        return PageHeader(kind, packed, unpacked, values, encoding, levels, 0, True, True), body
    if kind == DICTIONARY_PAGE:
        values = _number(details, DictionaryPageFields.NUM_VALUES)
        encoding = _number(details, DictionaryPageFields.ENCODING)
        return PageHeader(kind, packed, unpacked, values, encoding, RLE, 0, True, True), body
    values, nulls = _number(details, DataPageV2Fields.NUM_VALUES), _number(details, DataPageV2Fields.NUM_NULLS)
    rows, encoding = _number(details, DataPageV2Fields.NUM_ROWS), _number(details, DataPageV2Fields.ENCODING)
    level_bytes = _number(details, DataPageV2Fields.DEFINITION_LEVEL_BYTES)
    repetition_bytes = _number(details, DataPageV2Fields.REPETITION_LEVEL_BYTES)
    if nulls > values or level_bytes + repetition_bytes > min(packed, unpacked):
        raise ThriftError("a page has more NULLs than values, or more levels than bytes")
    is_compressed = _flag(details, DataPageV2Fields.IS_COMPRESSED)
    is_flat = rows == values and repetition_bytes == 0
    return PageHeader(kind, packed, unpacked, values, encoding, RLE, level_bytes, is_compressed, is_flat), body


def _number(fields: Struct, field: int) -> int:
    """A count, a size or the number of a kind: a 32-bit integer that is not negative."""
    kind, value = fields.get(field, (0, None))
    if kind != I32 or not 0 <= value <= _MAX_COUNT:
        raise ThriftError(f"field {field} of a page header is no count")
    result: int = value
    return result


def _flag(fields: Struct, field: int) -> bool:
    kind, value = fields.get(field, (TRUE, True))
    if kind not in (TRUE, FALSE):
        raise ThriftError(f"field {field} of a page header is neither true nor false")
    return bool(value)


def _struct(fields: Struct, field: int) -> Struct:
    kind, value = fields.get(field, (0, None))
    if kind != STRUCT:
        raise ThriftError(f"field {field} of a page header is missing")
    result: Struct = value
    return result
