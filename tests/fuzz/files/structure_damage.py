"""Damage that knows the format: a file is taken apart, one thing in it is made wrong, and it is put together again.

What is put together is sound but for that thing: offsets and sizes follow, pages are compressed again. So the damage is
not found by the first check that looks at lengths, but reaches the code that it is meant for. There are no checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sundog.kernels.pages.thrift_values import BINARY, BYTE, DOUBLE, FALSE, I16, I32, I64, LIST, SET, STRUCT, TRUE
from sundog.parquet.meta.thrift import Struct, read_struct, write_struct

Random = np.random.Generator

_DICTIONARY_PAGE, _DATA_PAGE_V2 = 2, 3
_DETAILS = {0: 5, 2: 7, 3: 8}
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    8,
    255,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    -(1 << 31),
    1 << 32,
    (1 << 62),
    (1 << 63) - 1,
    -(1 << 63),
)
_INTEGERS = (BYTE, I16, I32, I64)


@dataclass
class Page:
    """A page: its header, and its bytes without compression (levels of the second version apart, as they are
    stored)."""

    header: Struct
    levels: bytes
    body: bytes
    is_compressed: bool
    wrong_sizes: dict[int, int] = field(default_factory=dict)  # fields of the header that are not to be put right

    @property
    def kind(self) -> int:
        kind: int = self.header[1][1]
        return kind

    @property
    def details(self) -> Struct:
        details: Struct = self.header[_DETAILS[self.kind]][1]
        return details


@dataclass
class Chunk:
    """A column chunk, and the struct of the footer that speaks of it."""

    metadata: Struct
    pages: list[Page]

    @property
    def codec(self) -> str | None:
        return _CODECS.get(self.metadata[4][1])


@dataclass
class Parts:
    """A file taken apart."""

    footer: Struct
    chunks: list[Chunk]


def take_apart(content: bytes) -> Parts:
    length = int.from_bytes(content[-8:-4], "little")
    footer, _ = read_struct(content[-8 - length : -8])
    groups = footer[4][1][1] if 4 in footer else []
    columns = [column for group in groups for column in group[1][1][1]]
    return Parts(footer, [_chunk(content, column[3][1]) for column in columns])


def _chunk(content: bytes, metadata: Struct) -> Chunk:
    chunk = Chunk(metadata, [])
    at = metadata[9][1]
    if 11 in metadata and metadata[11][1]:
        at = metadata[11][1]
    end = at + metadata[7][1]
    codec = chunk.codec
    while at < end and metadata[5][1]:
        header, body = read_struct(content, at)
        at = body + header[3][1]
        details = header[_DETAILS[header[1][1]]][1]
        is_second = header[1][1] == _DATA_PAGE_V2
        size = details[5][1] + details[6][1] if is_second else 0
        compressed = codec is not None and (not is_second or 7 not in details or details[7][1]) and at > body + size
        values = content[body + size : at]
        if compressed:
            values = bytes(pa.Codec(codec).decompress(values, header[2][1] - size))
        chunk.pages.append(Page(header, content[body : body + size], values, compressed))
    return chunk


def put_together(parts: Parts) -> bytes:
    """The file, with the sizes and offsets of what is in it now."""
    out = bytearray(b"PAR1")
    for chunk in parts.chunks:
        start, unpacked = len(out), 0
        data_page = dictionary = None
        for page in chunk.pages:
            at = len(out)
            if page.kind == _DICTIONARY_PAGE and dictionary is None:
                dictionary = at
            elif data_page is None:
                data_page = at
            header, body = stored(page, chunk.codec)
            out += header + body
            unpacked += len(header) + len(page.levels) + len(page.body)
        if chunk.pages:
            chunk.metadata[6], chunk.metadata[7] = (I64, unpacked), (I64, len(out) - start)
            chunk.metadata[9] = (I64, start if data_page is None else data_page)
            if 11 in chunk.metadata and dictionary is not None:
                chunk.metadata[11] = (I64, dictionary)
    return _with_footer(bytes(out), parts.footer)


def stored(page: Page, codec: str | None) -> tuple[bytes, bytes]:
    """Header and bytes of a page, as they are in a file."""
    body = page.body
    if page.is_compressed and codec is not None:
        body = pa.Codec(codec).compress(page.body, asbytes=True)
    sizes = {2: len(page.levels) + len(page.body), 3: len(page.levels) + len(body)} | page.wrong_sizes
    return write_struct(page.header | {number: (I32, size) for number, size in sizes.items()}), page.levels + body


def _with_footer(data: bytes, footer: Struct) -> bytes:
    raw = write_struct(footer)
    return data + raw + len(raw).to_bytes(4, "little") + b"PAR1"


def damaged(content: bytes, random: Random) -> bytes:
    """The file with one to three things wrong."""
    parts = take_apart(content)
    for _ in range(int(random.choice([1, 1, 1, 2, 3]))):
        kinds: list[Callable[[Parts, Random], None]] = [
            _footer_value,
            _page_header,
            _page_bytes,
            _levels,
            _counts,
            _order,
        ]
        kind = kinds[int(random.choice(len(kinds), p=[0.25, 0.2, 0.25, 0.1, 0.12, 0.08]))]
        if kind is _footer_value:
            continue
        if any(chunk.pages for chunk in parts.chunks):
            kind(parts, random)
    if random.random() < 0.75:
        return put_together(parts)
    put_together(parts)  # the footer says now what is so
    data = put_together(parts)
    length = int.from_bytes(data[-8:-4], "little")
    footer = deepcopy(parts.footer)
    for _ in range(int(random.integers(1, 4))):
        _change_struct(footer, random)
    return _with_footer(data[: -8 - length], footer)


def _footer_value(parts: Parts, random: Random) -> None:
    """Changed at the end, when everything else is in place."""


def _page(parts: Parts, random: Random) -> tuple[Chunk, Page]:
    chunks = [chunk for chunk in parts.chunks if chunk.pages]
    chunk = chunks[int(random.integers(len(chunks)))]
    return chunk, chunk.pages[int(random.integers(len(chunk.pages)))]


def _page_header(parts: Parts, random: Random) -> None:
    """A number of a header is another, or a field is missing or of another type."""
    _, page = _page(parts, random)
    if random.random() < 0.4:
        size = int(random.choice([2, 3]))
        page.wrong_sizes[size] = _other_number(page.header[size][1], random)
    else:
        _change_struct(page.details, random, deep=False)


def _counts(parts: Parts, random: Random) -> None:
    """Counts of several pages whose sum is right in 32 or 64 bits, or only in whole numbers."""
    chunk, _ = _page(parts, random)
    pages = [page for page in chunk.pages if page.kind != _DICTIONARY_PAGE]
    if len(pages) < 2:
        return
    amount = int(random.choice([1, 7, 64, 1 << 20, 1 << 31, 1 << 32, 1 << 61, 1 << 62, 1 << 63]))
    chosen = random.permutation(len(pages))[: int(random.integers(2, 5))]
    for at, number in enumerate(chosen):
        details = pages[number].details
        change = amount if at % 2 == 0 else -amount
        if random.random() < 0.2:
            change = amount
        for count in (1, 3) if pages[number].kind == _DATA_PAGE_V2 else (1,):
            kind, value = details.get(count, (I32, 0))
            details[count] = (I32, value + change if kind == I32 else change)


def _page_bytes(parts: Parts, random: Random) -> None:
    """Bytes of the values: mostly the first, which say how the others are to be read."""
    _, page = _page(parts, random)
    page.body = _other_bytes(page.body, random)
    if random.random() < 0.3:
        page.levels = _other_bytes(page.levels, random)


def _levels(parts: Parts, random: Random) -> None:
    """Definition levels of one's own: runs that are too long, too short, or of levels that do not exist."""
    _, page = _page(parts, random)
    levels = b"".join(_run(random) for _ in range(int(random.integers(0, 4))))
    if page.kind == _DATA_PAGE_V2:
        page.levels = levels
        page.details[5] = (I32, len(levels))
    else:
        old = int.from_bytes(page.body[:4], "little")
        length = len(levels) if random.random() < 0.8 else int(random.integers(0, 1 << 32))
        page.body = length.to_bytes(4, "little") + levels + page.body[4 + min(old, len(page.body)) :]


def _run(random: Random) -> bytes:
    count = int(random.choice([0, 1, 8, 63, 64, 65, 200, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40]))
    if random.random() < 0.5:
        return _varint(count << 1) + bytes([int(random.choice([0, 1, 1, 2, 3, 255]))])
    return _varint(((count + 7) // 8) << 1 | 1) + bytes(random.integers(0, 256, min(count // 8, 40), np.uint8))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _order(parts: Parts, random: Random) -> None:
    """Pages that are missing, twice there, in another order, or of another column."""
    chunk, page = _page(parts, random)
    at = chunk.pages.index(page)
    kind = int(random.integers(4))
    if kind == 0:
        del chunk.pages[at]
    elif kind == 1:
        chunk.pages.insert(at, deepcopy(page))
    elif kind == 2:
        chunk.pages.insert(int(random.integers(len(chunk.pages))), chunk.pages.pop(at))
    else:
        _, other = _page(parts, random)
        chunk.pages[at] = deepcopy(other)


def _other_number(number: int, random: Random) -> int:
    kind = int(random.integers(5))
    if kind == 0:
        return number + int(random.integers(-3, 4))
    if kind == 1:
        return -number
    if kind == 2:
        return number + (1 << int(random.integers(0, 64)))
    if kind == 3:
        return number * int(random.choice([2, 3, 10, 1000]))
    return int(random.choice(np.array(_NUMBERS, object)))


def _other_bytes(data: bytes, random: Random) -> bytes:
    raw = bytearray(data)
    kind = random.random()
    if kind < 0.15:
        return bytes(raw[: int(random.integers(0, len(raw) + 1))])
    if kind < 0.3:
        at = int(random.integers(0, len(raw) + 1))
        return bytes(raw[:at] + random.bytes(int(random.integers(1, 20))) + raw[at:])
    for _ in range(int(random.integers(1, 4))):
        if raw:
            reach = len(raw) if random.random() < 0.4 else min(16, len(raw))
            raw[int(random.integers(reach))] = int(
                random.choice([0, 1, 2, 3, 32, 33, 127, 128, 255, random.integers(256)])
            )
    return bytes(raw)


def _places(struct: Struct, deep: bool) -> Iterator[tuple[Struct, int]]:
    for number, (kind, value) in struct.items():
        yield struct, number
        if deep and kind == STRUCT:
            yield from _places(value, deep)
        elif deep and kind == LIST and value[0] == STRUCT:
            for item in value[1]:
                yield from _places(item, deep)


def _change_struct(struct: Struct, random: Random, deep: bool = True) -> None:
    places = list(_places(struct, deep))
    if not places:
        return
    owner, number = places[int(random.integers(len(places)))]
    kind, value = owner[number]
    if random.random() < 0.1:
        del owner[number]
    elif random.random() < 0.07:
        other = int(random.choice([I32, I64, BINARY, STRUCT, TRUE]))
        owner[number] = (other, {I32: 5, I64: 5, BINARY: b"abc", STRUCT: {}, TRUE: True}[other])
    else:
        owner[number] = (kind, _other_value(kind, value, random))


def _other_value(kind: int, value: Any, random: Random) -> Any:
    if kind == BYTE:
        return int(random.integers(256))
    if kind in _INTEGERS:
        return _other_number(value, random)
    if kind in (TRUE, FALSE):
        return not value
    if kind == BINARY:
        return _other_bytes(value, random)
    if kind == DOUBLE:
        return random.bytes(8)
    if kind in (LIST, SET):
        return value[0], _other_items(value[0], value[1], random)
    return {}


def _other_items(kind: int, items: list[Any], random: Random) -> list[Any]:
    items = list(items)
    if not items:
        return items
    at, how = int(random.integers(len(items))), int(random.integers(4))
    if how == 0:
        del items[at]
    elif how == 1:
        items.insert(at, deepcopy(items[at]))
    elif how == 2:
        items[at], items[0] = items[0], items[at]
    elif kind != STRUCT:
        items[at] = _other_value(kind, items[at], random)
    return items
