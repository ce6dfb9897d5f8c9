"""Thrift's compact protocol, as far as Parquet's own structures need it: read one struct, write one struct.

For page headers and single elements of a schema. Footers, which are larger, are read by
`kernels/pages/thrift_values.py`. A struct is a dict from field number to `(type, value)`; nested structs are dicts
again, lists are `(type, items)`. Field numbers have names in `thrift_fields.py`. Whatever the bytes, nothing is read
outside of them, recursion ends at `_DEEPEST`, and numbers have at most 64 bits.
"""

from __future__ import annotations

from typing import Any

from sundog.kernels.pages.thrift_values import BINARY, BYTE, DOUBLE, FALSE, I16, I32, I64, LIST, SET, STRUCT, TRUE

_DEEPEST = 24  # nested structs and lists
_LONGEST_VARINT = 10

Struct = dict[int, tuple[int, Any]]


class ThriftError(ValueError):
    """The bytes end too early, or are not a struct of the compact protocol."""


def read_struct(data: bytes | memoryview, position: int = 0) -> tuple[Struct, int]:
    """A struct and the position after it."""
    try:
        return _read_struct(data, position, _DEEPEST)
    except IndexError as problem:
        raise ThriftError("the struct is not complete") from problem


def _read_struct(data: bytes | memoryview, position: int, depth: int) -> tuple[Struct, int]:
    if depth == 0:
        raise ThriftError("structs inside each other without end")
    fields: Struct = {}
    number = 0
    while True:
        header = data[position]
        position += 1
        if header == 0:
            return fields, position
        kind = header & 15
        if header >> 4:
            number += header >> 4
        else:
            number, position = _zigzag(data, position)
        value, position = _read_value(data, position, kind, depth)
        fields[number] = (kind, value)


def _read_value(data: bytes | memoryview, position: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (TRUE, FALSE):
        return kind == TRUE, position
    if kind == BYTE:
        return data[position], position + 1
    if kind in (I16, I32, I64):
        return _zigzag(data, position)
    if kind == DOUBLE:
        return _bytes(data, position, 8), position + 8
    if kind == BINARY:
        size, position = _varint(data, position)
        return _bytes(data, position, size), position + size
    if kind == STRUCT:
        return _read_struct(data, position, depth - 1)
    if kind in (LIST, SET):
        return _read_list(data, position, depth - 1)
    raise ThriftError(f"type {kind} is not used by Parquet")


def _read_list(data: bytes | memoryview, position: int, depth: int) -> tuple[tuple[int, list[Any]], int]:
    if depth == 0:
        raise ThriftError("lists inside each other without end")
    header = data[position]
    position += 1
    kind, size = header & 15, header >> 4
    if size == 15:
        size, position = _varint(data, position)
    items = []
    for _ in range(size):
        if kind in (TRUE, FALSE):  # as list items, booleans take one byte each
            item: Any = data[position] == TRUE
            position += 1
        else:
            item, position = _read_value(data, position, kind, depth)
        items.append(item)
    return (kind, items), position


def _bytes(data: bytes | memoryview, position: int, size: int) -> bytes:
    if position + size > len(data):
        raise IndexError
    return bytes(data[position : position + size])


def _varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    result = 0
    for place in range(_LONGEST_VARINT):
        byte = data[position]
        position += 1
        result |= (byte & 127) << 7 * place
        if byte < 128:
            if result >> 64:
                break
            return result, position
    raise ThriftError("a number of more than 64 bits")


def _zigzag(data: bytes | memoryview, position: int) -> tuple[int, int]:
    number, position = _varint(data, position)
    return (number >> 1) ^ -(number & 1), position


def integer_of(fields: Struct, number: int) -> int | None:
    """An integer of a struct; None if there is none."""
    kind, value = fields.get(number, (0, None))
    return value if kind in (I32, I64) else None


def struct_of(fields: Struct, number: int) -> Struct | None:
    kind, value = fields.get(number, (0, None))
    return value if kind == STRUCT else None


def list_of(fields: Struct, number: int, kinds: tuple[int, ...]) -> list[Any] | None:
    """The items of a list of one of these types; None if there is no such list. An empty list has any type."""
    kind, value = fields.get(number, (0, None))
    if kind != LIST or (value[1] and value[0] not in kinds):
        return None
    items: list[Any] = value[1]
    return items


STRUCTS, BINARIES, BOOLEANS = (STRUCT,), (BINARY,), (TRUE, FALSE)


def write_struct(fields: Struct) -> bytes:
    """The struct with its fields in ascending order."""
    out = bytearray()
    previous = 0
    for number in sorted(fields):
        kind, value = fields[number]
        if kind in (TRUE, FALSE):
            kind = TRUE if value else FALSE
        if 0 < number - previous < 16:
            out.append((number - previous) << 4 | kind)
        else:
            out.append(kind)
            _write_varint(out, _to_zigzag(number))
        _write_value(out, kind, value)
        previous = number
    out.append(0)
    return bytes(out)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind == BYTE:
        out.append(value)
    elif kind in (I16, I32, I64):
        _write_varint(out, _to_zigzag(value))
    elif kind == DOUBLE:
        out += value
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        out += write_struct(value)
    elif kind in (LIST, SET):
        _write_list(out, *value)


def _write_list(out: bytearray, kind: int, items: list[Any]) -> None:
    if len(items) < 15:
        out.append(len(items) << 4 | kind)
    else:
        out.append(0xF0 | kind)
        _write_varint(out, len(items))
    for item in items:
        if kind in (TRUE, FALSE):
            out.append(TRUE if item else FALSE)
        else:
            _write_value(out, kind, item)


def _to_zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _write_varint(out: bytearray, number: int) -> None:
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
