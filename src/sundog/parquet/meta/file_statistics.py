"""Min, max and NULL counts of the column chunks of one file, as far as its writer can be trusted.

| in the footer | taken |
|---|---|
| the column has an order: `column_orders` says that of its type | `min_value`, `max_value` |
| no order is given | the deprecated `min`, `max`, which compare as signed: only for types that do |
| a type without an order: INT96, INTERVAL, an unknown type | nothing |
| parquet-mr before 1.10, parquet-cpp before 1.3: an unsigned order | only if min = max: they compared as signed |
| parquet-mr before 1.8: bytes | nothing (PARQUET-251) |
| only one of min and max, or no bytes of a number | no bounds |

These are the rules of Arrow's and Spark's own readers. `statistics.py` derives bounds of the query's column.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sundog.parquet.meta.file_metadata import FileMetadata


@dataclass(frozen=True)
class LeafColumn:
    """One primitive column of the file's schema, in Parquet's terms."""

    index: int
    name: str
    physical_type: str
    logical_type: str
    bit_width: int  # of an INT annotation, else 0
    signed: bool
    time_unit: str  # of a TIMESTAMP annotation, else ""
    adjusted_to_utc: bool
    precision: int
    scale: int


@dataclass(frozen=True)
class RawStatistics:
    """A column's statistics as stored: one slot per row group, None if missing."""

    lows: tuple[Any, ...]
    highs: tuple[Any, ...]
    null_counts: tuple[int | None, ...]


class _ValueOrder(Enum):
    """How values of a type are compared."""

    SIGNED = "as numbers"
    UNSIGNED = "as bytes without a sign"
    UNKNOWN = "not defined by the format"


_ORDER_OF_ANNOTATION = {
    "STRING": _ValueOrder.UNSIGNED,
    "ENUM": _ValueOrder.UNSIGNED,
    "JSON": _ValueOrder.UNSIGNED,
    "BSON": _ValueOrder.UNSIGNED,
    "UUID": _ValueOrder.UNSIGNED,
    "DECIMAL": _ValueOrder.SIGNED,
    "DATE": _ValueOrder.SIGNED,
    "TIME": _ValueOrder.SIGNED,
    "TIMESTAMP": _ValueOrder.SIGNED,
}
_NUMBERS = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d", "BOOLEAN": "<B"}
_WRITER = re.compile(r"(parquet-mr|parquet-cpp)(?![\w-])(?: version (\d+)\.(\d+)(?:\.(\d+))?(?![\d.]))?", re.IGNORECASE)


def trusted_statistics(values: FileMetadata, leaf: LeafColumn) -> RawStatistics:
    """One slot per row group."""
    return _trusted(values, leaf, values.bounds_of(leaf.index), values.null_counts[:, leaf.index].tolist())


def trusted_page_statistics(
    values: FileMetadata, leaf: LeafColumn, bounds: list[tuple[bytes, bytes] | None], null_counts: list[int]
) -> RawStatistics:
    """One slot per page of a chunk, from min, max and NULLs (-1: unknown) of its column index. They are in the order of
    the type if the file says that there is one. Bounds of another width than the type's are ignored."""
    layout = _NUMBERS.get(leaf.physical_type)
    if not values.is_order_defined[leaf.index]:
        bounds = [None] * len(bounds)
    elif layout is not None:
        width = struct.calcsize(layout)
        bounds = [pair if pair is not None and len(pair[0]) == len(pair[1]) == width else None for pair in bounds]
    return _trusted(values, leaf, bounds, null_counts)


def _trusted(
    values: FileMetadata, leaf: LeafColumn, bounds: list[tuple[bytes, bytes] | None], counts: list[int]
) -> RawStatistics:
    order = _order(leaf)
    nothing = (None,) * len(bounds)
    if order is _ValueOrder.UNKNOWN:
        return RawStatistics(nothing, nothing, nothing)
    if order is _ValueOrder.UNSIGNED and not values.is_order_defined[leaf.index]:
        bounds = [None] * len(bounds)
    distrust = _Distrust.of(values.created_by, leaf, order)
    null_counts = [None if count < 0 else count for count in counts]
    if distrust is _Distrust.ALL:
        return RawStatistics(nothing, nothing, nothing)
    if distrust is _Distrust.UNEQUAL_BOUNDS:
        bounds = [pair if pair is not None and pair[0] == pair[1] else None for pair in bounds]
    lows = tuple(None if pair is None else _value(pair[0], leaf.physical_type) for pair in bounds)
    highs = tuple(None if pair is None else _value(pair[1], leaf.physical_type) for pair in bounds)
    return RawStatistics(lows, highs, tuple(null_counts))


def _order(leaf: LeafColumn) -> _ValueOrder:
    if leaf.logical_type == "NONE":
        if leaf.physical_type == "INT96":
            return _ValueOrder.UNKNOWN
        return _ValueOrder.UNSIGNED if "BYTE_ARRAY" in leaf.physical_type else _ValueOrder.SIGNED
    if leaf.logical_type == "INT":
        return _ValueOrder.SIGNED if leaf.signed else _ValueOrder.UNSIGNED
    return _ORDER_OF_ANNOTATION.get(leaf.logical_type, _ValueOrder.UNKNOWN)


class _Distrust(Enum):
    """Known errors of a writer."""

    NOTHING = "nothing"
    UNEQUAL_BOUNDS = "it compared unsigned values as signed ones"
    ALL = "it kept bytes that were overwritten later"

    @classmethod
    def of(cls, created_by: str, leaf: LeafColumn, order: _ValueOrder) -> _Distrust:
        found = _WRITER.match(created_by)
        if found is None:
            return cls.NOTHING
        # A version that cannot be read is treated as the first.
        name, version = found[1].lower(), (int(found[2] or 0), int(found[3] or 0), int(found[4] or 0))
        if name == "parquet-mr" and version < (1, 8, 0) and "BYTE_ARRAY" in leaf.physical_type:
            return cls.ALL
        first_right = (1, 10, 0) if name == "parquet-mr" else (1, 3, 0)
        return cls.UNEQUAL_BOUNDS if version < first_right and order is not _ValueOrder.SIGNED else cls.NOTHING


def _value(raw: bytes, physical_type: str) -> Any:
    layout = _NUMBERS.get(physical_type)
    if layout is None:
        return raw
    value = struct.unpack(layout, raw)[0]
    return bool(value & 1) if physical_type == "BOOLEAN" else value
