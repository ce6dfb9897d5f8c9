"""Headers of pages, read and checked: no number of one is used as a length, an offset or a count before it was here."""

from __future__ import annotations

from dataclasses import dataclass

from sundog.kernels.thrift_values import FALSE, I32, STRUCT, TRUE
from sundog.parquet.meta.thrift import Struct, ThriftError, read_struct

DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
DICTIONARY_ENCODINGS = (PLAIN_DICTIONARY, RLE_DICTIONARY)
_LARGEST = (1 << 31) - 1
_DETAILS = {DATA_PAGE: 5, DICTIONARY_PAGE: 7, DATA_PAGE_V2: 8}  # fields of the header


class UnknownPage(ValueError):
    """A kind of page that is of no use here, such as an index."""


@dataclass(frozen=True, slots=True)
class PageHeader:
    """What a page says of itself; every number is at least 0, and less than 2^31."""

    kind: int
    packed: int  # bytes behind the header
    unpacked: int  # bytes that they stand for
    values: int  # with NULLs, or entries of the dictionary
    encoding: int
    level_encoding: int  # of a page of the first version
    level_bytes: int  # of a page of the second version: of the definition levels that it begins with
    is_compressed: bool  # if the chunk has a codec
    is_flat: bool  # has as many rows as values, and no repetition levels, as far as it says


def read_page_header(data: bytes | memoryview, position: int = 0) -> tuple[PageHeader, int]:
    """The header at the position, and where its page's bytes begin. Raises ThriftError or UnknownPage."""
    fields, body = read_struct(data, position)
    kind = number(fields, 1)
    if kind not in _DETAILS:
        raise UnknownPage
    unpacked, packed = number(fields, 2), number(fields, 3)
    details = _struct(fields, _DETAILS[kind])
    values = number(details, 1)
    if kind != DATA_PAGE_V2:
        levels = number(details, 3) if kind == DATA_PAGE else RLE
        return PageHeader(kind, packed, unpacked, values, number(details, 2), levels, 0, True, True), body
    nulls, rows, encoding, level_bytes, repetition_bytes = (number(details, field) for field in (2, 3, 4, 5, 6))
    if nulls > values or level_bytes + repetition_bytes > min(packed, unpacked):
        raise ThriftError("a page has more NULLs than values, or more levels than bytes")
    is_flat = rows == values and repetition_bytes == 0
    return PageHeader(kind, packed, unpacked, values, encoding, RLE, level_bytes, _flag(details, 7), is_flat), body


def number(fields: Struct, field: int) -> int:
    """A count, a size or the number of a kind: a 32-bit integer that is not negative."""
    kind, value = fields.get(field, (0, None))
    if kind != I32 or not 0 <= value <= _LARGEST:
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
