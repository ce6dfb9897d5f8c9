"""Bloom filters in files: they rule out row groups without any of the few values that a query compares a column with.

    WHERE user_id = 4711            WHERE phrase IN ('a', 'b')            fact JOIN dim ON fact.d = dim.id  (few keys)

Bounds rule out little if values lie anywhere in 0..2^63. A writer may add a split-block Bloom filter to a column chunk
(Spark: `parquet.bloom.filter.enabled#user_id=true`). It has many blocks of eight words; each value of the chunk belongs
to one block, and has set one bit in each of its words. If one of these bits is missing, the row group does not hold the
value, and none of its columns is read.

Block and bits follow from XXH64 of the value in Parquet's plain encoding. So only types are used whose plain bytes are
certain: whole numbers, dates, instants, decimals stored as integers, strings. Floats are not, as some values (0.0, NaN)
have several forms. If a filter is damaged, of another kind, or missing, the row group is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.nodes import And, Column, Compare, CompareOp, Expr, In, Literal, operands_of
from sundog.expr.raising import can_raise
from sundog.expr.ranks import Rank, ranks_of_values
from sundog.parquet.meta.chunk_table import BLOOM_FILTER
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.file_schema import ColumnSource, Reading
from sundog.parquet.meta.file_statistics import LeafColumn
from sundog.parquet.meta.thrift import Struct, ThriftError, integer_of, read_struct, struct_of
from sundog.parquet.meta.thrift_fields import BloomFilterFields
from sundog.parquet.prune.xxhash import xxhash64
from sundog.parquet.reading import PartitionColumn
from sundog.types import is_text

Hashes = npt.NDArray[np.uint64]

MAX_FILTER_BYTES = 128 << 20  # the limit of parquet-mr's writer
_BLOCK_BYTES = 32
_FIRST_READ = 64 << 10  # the header, and the whole of most filters
_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)


@dataclass(frozen=True)
class Wanted:
    """Values of a column, as ranks; a row must have one of them."""

    column: str
    ranks: tuple[Rank, ...]


def wanted_values(predicate: Expr | None, filters: Sequence[KeyFilter], most: int) -> tuple[Wanted, ...]:
    """The columns that a WHERE, or the keys of a join, compare with at most `most` values. A WHERE that may raise must
    be evaluated for its rows, so it does not count."""
    found: list[Wanted] = []
    if predicate is not None and not can_raise(predicate):
        for part in operands_of(And, predicate):
            match part:
                case Compare(CompareOp.EQ, Column() as column, Literal() as literal) if literal.dtype == column.dtype:
                    found.append(_wanted(column, (literal.value,)))
                case Compare(CompareOp.EQ, Literal() as literal, Column() as column) if literal.dtype == column.dtype:
                    found.append(_wanted(column, (literal.value,)))
                case In(Column() as column, values):
                    found.append(_wanted(column, values))
    for each in filters:
        listed = None if each.keys is None else each.keys.listed(most)
        if listed:
            found.append(Wanted(each.column, tuple(listed)))
    return tuple(each for each in found if 0 < len(each.ranks) <= most)


def _wanted(column: Column, values: tuple[object, ...]) -> Wanted:
    if not _is_certain(column.dtype):
        return Wanted(column.name, ())
    ranks = ranks_of_values([value for value in values if value is not None], column.dtype)
    return Wanted(column.name, tuple(rank for rank in ranks if rank is not None))


def _is_certain(dtype: pa.DataType) -> bool:
    """Whether equal values have equal bytes."""
    types = pa.types
    is_number = types.is_integer(dtype) or types.is_date32(dtype) or types.is_timestamp(dtype)
    return is_number or is_text(dtype) or types.is_decimal(dtype)


class BloomFilterPruner:
    """Tests the Bloom filters of one row group after another, for one task. Not shared between threads."""

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self._wanted = wanted
        self._hashes: dict[tuple[int, str], _WantedHashes] = {}

    def should_skip(self, source: pa.NativeFile, layout: FileLayout, row_group: int) -> bool:
        """True only if no row of the row group can have one of the values of some column."""
        return any(self._is_absent(number, source, layout, row_group) for number in range(len(self._wanted)))

    def _is_absent(self, number: int, source: pa.NativeFile, layout: FileLayout, row_group: int) -> bool:
        column = layout.by_name.get(self._wanted[number].column)
        if column is None or isinstance(column, PartitionColumn) or column.leaf < 0:
            return False
        place = layout.footer.values.extra(BLOOM_FILTER, row_group, column.leaf)
        if place is None:
            return False
        stored = stored_type(layout.footer.leaf(column.leaf), column)
        if stored is None:
            return False
        if (number, stored) not in self._hashes:
            self._hashes[number, stored] = _WantedHashes.of(self._wanted[number].ranks, stored)
        probe = self._hashes[number, stored]
        words = read_words(source, *place)
        return words is not None and not probe.may_be_in(words)


def stored_type(leaf: LeafColumn, column: ColumnSource) -> str | None:
    """The physical type, if the plain bytes of a query value are certain; else None."""
    if column.reading is Reading.DECIMAL:
        is_plain = leaf.logical_type == "DECIMAL" and leaf.scale == column.dtype.scale
    else:
        is_plain = column.reading is Reading.AS_IS and _is_certain(column.dtype)
    if not is_plain or column.may_be_refused:
        return None
    kinds = ("BYTE_ARRAY",) if is_text(column.dtype) else ("INT32", "INT64")
    return leaf.physical_type if leaf.physical_type in kinds else None


@dataclass(frozen=True, eq=False)
class _WantedHashes:
    """The hashes of some values, and the bits that each sets in its block."""

    hashes: Hashes
    bits: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, ranks: Sequence[Rank], stored: str) -> _WantedHashes:
        plain = (_plain_bytes(rank, stored) for rank in ranks)
        hashes = np.array([xxhash64(each) for each in plain if each is not None], np.uint64)
        keys = hashes.astype(np.uint32)[:, None]
        return cls(hashes, np.uint32(1) << ((keys * _SALTS) >> np.uint32(27)))

    def may_be_in(self, words: npt.NDArray[np.uint32]) -> bool:
        """Whether a value may be in a filter of these words, eight in a block."""
        blocks = words.reshape(-1, 8)
        at = ((self.hashes >> np.uint64(32)) * np.uint64(len(blocks))) >> np.uint64(32)
        return bool(((blocks[at.astype(np.int64)] & self.bits) == self.bits).all(axis=1).any())


def _plain_bytes(rank: Rank, stored: str) -> bytes | None:
    """A value in Parquet's plain encoding, without the length of a string; None if the type cannot hold it."""
    if isinstance(rank, bytes):
        return rank
    width = 4 if stored == "INT32" else 8
    return rank.to_bytes(width, "little", signed=True) if -(1 << 8 * width - 1) <= rank < 1 << 8 * width - 1 else None


def read_words(source: pa.NativeFile, offset: int, size: int) -> npt.NDArray[np.uint32] | None:
    """The words of the filter in these bytes of a file; None if it is inconsistent or of another kind.

    `offset` and `size` are known to be inside of the file. A negative size is the most that it may take.
    """
    try:
        head = source.read_at(min(abs(size), _FIRST_READ), offset)
        header, start = read_struct(head)
    except (ThriftError, OSError):  # reading the row group will raise the same OSError
        return None
    length = integer_of(header, BloomFilterFields.NUM_BYTES) or 0
    if not _BLOCK_BYTES <= length <= min(MAX_FILTER_BYTES, abs(size) - start) or length % _BLOCK_BYTES:
        return None
    if size > 0 and start + length != size:
        return None
    parts = (BloomFilterFields.ALGORITHM, BloomFilterFields.HASH, BloomFilterFields.COMPRESSION)
    if not all(_is_first_of_union(header, part) for part in parts):
        return None
    data = head[start : start + length]
    if len(data) < length:
        data = source.read_at(length, offset + start)
    return np.frombuffer(data, "<u4") if len(data) == length else None


def _is_first_of_union(header: Struct, field: int) -> bool:
    """Whether it is the first alternative: split blocks, XXH64, uncompressed. There are no others so far."""
    union = struct_of(header, field)
    return union is not None and list(union) == [1]
