"""The column chunks of a footer, each number checked against what contains it (`file_metadata.py` has the table)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sundog.kernels.pages.thrift_values import BINARY, I32, I64, LIST, PARENT, SIZE, STRUCT, VALUE
from sundog.parquet.meta.struct_table import NONE, Broken, Encrypted, Ints, Structs, demand, items_of, strings
from sundog.parquet.meta.thrift import read_struct
from sundog.parquet.meta.thrift_fields import ChunkFields, ChunkMetadataFields, SchemaFields, StatisticsFields

MAGIC, ENCRYPTED_MAGIC = b"PAR1", b"PARE"
CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_KNOWN_ENCODINGS = 0b11_1111_1101  # a bit for each; 1 was never used
_BYTES_OF_TYPE = (1, 4, 8, 12, 4, 8, -1, 0)  # -1: any; 0: of the schema
FIXED_LEN_BYTE_ARRAY = 7
BLOOM_FILTER, COLUMN_INDEX, OFFSET_INDEX = range(3)  # structures that a chunk may have beside its pages
_CHUNK_METADATA = {
    ChunkMetadataFields.TYPE: I32,
    ChunkMetadataFields.ENCODINGS: LIST,
    ChunkMetadataFields.PATH: LIST,
    ChunkMetadataFields.CODEC: I32,
    ChunkMetadataFields.NUM_VALUES: I64,
    ChunkMetadataFields.UNCOMPRESSED_BYTES: I64,
    ChunkMetadataFields.COMPRESSED_BYTES: I64,
    ChunkMetadataFields.DATA_PAGE_OFFSET: I64,
    ChunkMetadataFields.DICTIONARY_PAGE_OFFSET: I64,
    ChunkMetadataFields.STATISTICS: STRUCT,
    ChunkMetadataFields.BLOOM_FILTER_OFFSET: I64,
    ChunkMetadataFields.BLOOM_FILTER_BYTES: I32,
}
_STATISTICS = {
    StatisticsFields.MAX: BINARY,
    StatisticsFields.MIN: BINARY,
    StatisticsFields.NULL_COUNT: I64,
    StatisticsFields.MAX_VALUE: BINARY,
    StatisticsFields.MIN_VALUE: BINARY,
}


@dataclass(frozen=True, eq=False)
class SchemaLeaf:
    """A primitive column of the schema. `element` is its entry as stored."""

    path: tuple[bytes, ...]
    physical_type: int
    is_flat: bool  # neither in a group nor repeated
    is_nullable: bool
    element: bytes


class ChunkTable:
    """The column chunks of all row groups, row group after row group."""

    def __init__(
        self,
        table: Ints,
        chunks: Structs,
        leaves: tuple[SchemaLeaf, ...],
        row_counts: Ints,
        data: bytes,
        footer_start: int | Ints,
        is_order_defined: npt.NDArray[np.bool_],
    ) -> None:
        if chunks.has(ChunkFields.CRYPTO_METADATA).any() or chunks.has(ChunkFields.ENCRYPTED_METADATA).any():
            raise Encrypted("some of its columns are encrypted")
        if (chunks.sizes(ChunkFields.FILE_PATH, 0) > 0).any():
            raise Broken("a column is in another file")
        self._table, self._data = table, data
        metadata = chunks.containers(ChunkFields.METADATA)
        fields = self._fields = Structs(table, metadata, _CHUNK_METADATA)
        types = np.tile(np.array([leaf.physical_type for leaf in leaves], np.int64), len(row_counts))
        demand("a column has not the type of the schema", fields.numbers(ChunkMetadataFields.TYPE) == types)
        self.codecs = fields.numbers(ChunkMetadataFields.CODEC)
        demand("a codec does not exist", (self.codecs >= 0) & (self.codecs < len(CODECS)))
        self.encodings = self._encoding_bits()
        self._check_paths(leaves, len(row_counts))
        self._check_ranges(leaves, row_counts, footer_start)
        self._check_statistics(leaves, np.tile(is_order_defined, len(row_counts)))
        self.extras = self._extras(chunks, footer_start)

    def _extras(self, chunks: Structs, footer_start: int | Ints) -> Ints | None:
        """Offset and bytes of each chunk's `BLOOM_FILTER`, `COLUMN_INDEX` and `OFFSET_INDEX`; None if there are none.

        All are optional: one that is outside of the file gets 0 bytes here. For a Bloom filter without a length, which
        is optional, the bytes up to the footer are given as a negative number.
        """
        fields = self._fields
        places = [
            (fields, ChunkMetadataFields.BLOOM_FILTER_OFFSET, ChunkMetadataFields.BLOOM_FILTER_BYTES),
            (chunks, ChunkFields.COLUMN_INDEX_OFFSET, ChunkFields.COLUMN_INDEX_BYTES),
            (chunks, ChunkFields.OFFSET_INDEX_OFFSET, ChunkFields.OFFSET_INDEX_BYTES),
        ]
        if not any(structs.has(offset).any() for structs, offset, _ in places):
            return None
        extras = np.zeros((self._fields.count, len(places), 2), np.int64)
        for kind, (structs, offset, size) in enumerate(places):
            starts, sizes = structs.numbers(offset, 0), structs.numbers(size, NONE)
            inside = (starts >= len(MAGIC)) & (starts < footer_start)
            left = footer_start - np.where(inside, starts, 0)
            is_open = inside & (sizes == NONE) & (kind == BLOOM_FILTER)
            inside &= (sizes > 0) & (sizes <= left)
            extras[:, kind, 0] = np.where(inside | is_open, starts, 0)
            extras[:, kind, 1] = np.where(inside, sizes, np.where(is_open, -left, 0))
        return extras

    def _encoding_bits(self) -> Ints:
        lists, slots = self._fields.some(ChunkMetadataFields.ENCODINGS)
        if len(lists) != self._fields.count:
            raise Broken("a column has no encodings")
        slot_of = np.full(len(self._table) + 1, NONE, np.int64)
        slot_of[lists] = slots
        items = items_of(self._table, lists, I32)
        values = self._table[items, VALUE]
        known = (values >= 0) & (values < 64)
        bit = np.left_shift(1, np.where(known, values, 63))
        demand("an encoding does not exist", bit & _KNOWN_ENCODINGS != 0)
        bits = np.zeros(self._fields.count, np.int64)
        np.bitwise_or.at(bits, slot_of[self._table[items, PARENT]], bit)
        return bits

    def _check_paths(self, leaves: tuple[SchemaLeaf, ...], groups: int) -> None:
        items = items_of(self._table, self._fields.containers(ChunkMetadataFields.PATH), BINARY)
        parts = strings(self._data, self._table[items, VALUE], self._table[items, SIZE])
        if parts != [part for leaf in leaves for part in leaf.path] * groups:
            raise Broken("the columns of a row group are not those of the schema")

    def _check_ranges(self, leaves: tuple[SchemaLeaf, ...], row_counts: Ints, footer_start: int | Ints) -> None:
        fields = self._fields
        self.values = fields.numbers(ChunkMetadataFields.NUM_VALUES)
        self.uncompressed = fields.numbers(ChunkMetadataFields.UNCOMPRESSED_BYTES)
        self.compressed = fields.numbers(ChunkMetadataFields.COMPRESSED_BYTES)
        data_pages = fields.numbers(ChunkMetadataFields.DATA_PAGE_OFFSET)
        dictionaries = fields.numbers(ChunkMetadataFields.DICTIONARY_PAGE_OFFSET, 0)
        flat = np.tile(np.array([leaf.is_flat for leaf in leaves], np.bool_), len(row_counts))
        rows = np.repeat(row_counts, len(leaves))
        demand("a column has not the rows of its row group", np.where(flat, self.values == rows, self.values >= 0))
        demand("the size of a column is negative", (self.uncompressed >= 0) & (self.compressed >= 0))
        demand("an offset is negative", (data_pages >= 0) & (dictionaries >= 0))
        first = (dictionaries > 0) & (dictionaries < data_pages)
        self.starts = np.where(first, dictionaries, data_pages)
        nothing = self.values == 0  # then offsets may have any value: they are not read
        for table in (self.starts, self.compressed, self.uncompressed):
            table[nothing] = 0
        inside = (self.starts >= len(MAGIC)) & (self.starts <= footer_start) & (self.compressed > 0)
        inside &= self.compressed <= footer_start - self.starts  # a sum might overflow a word
        demand("a column is outside of the file", inside | nothing)

    def _check_statistics(self, leaves: tuple[SchemaLeaf, ...], is_order_defined: npt.NDArray[np.bool_]) -> None:
        found, slots = self._fields.some(ChunkMetadataFields.STATISTICS)
        statistics = Structs(self._table, found, _STATISTICS)
        self.null_counts = np.full(self._fields.count, NONE, np.int64)
        self.null_counts[slots] = null_counts = statistics.numbers(StatisticsFields.NULL_COUNT, NONE)
        known = statistics.has(StatisticsFields.NULL_COUNT)
        demand("more NULLs than rows", ~known | ((null_counts >= 0) & (null_counts <= self.values[slots])))
        widths = np.resize(np.array([_bytes_of_bound(leaf) for leaf in leaves], np.int64), self._fields.count)[slots]
        self.bounds = np.full((self._fields.count, 4), NONE, np.int64)
        for place, old, new in (
            (0, StatisticsFields.MIN, StatisticsFields.MIN_VALUE),
            (2, StatisticsFields.MAX, StatisticsFields.MAX_VALUE),
        ):
            for field, used in ((old, ~is_order_defined[slots]), (new, is_order_defined[slots])):
                sizes = statistics.sizes(field, NONE)
                sizes = np.where((sizes == 0) & (widths > 0), NONE, sizes)  # an empty value is no number
                demand("a bound is not as wide as its type", (sizes == NONE) | (sizes == widths) | (widths < 0))
                self.bounds[slots[used], place] = statistics.numbers(field, 0)[used]
                self.bounds[slots[used], place + 1] = sizes[used]
        self.bounds[(self.bounds[:, 1] == NONE) | (self.bounds[:, 3] == NONE)] = NONE


def _bytes_of_bound(leaf: SchemaLeaf) -> int:
    if leaf.physical_type != FIXED_LEN_BYTE_ARRAY:
        return _BYTES_OF_TYPE[leaf.physical_type]
    length: int = read_struct(leaf.element)[0][SchemaFields.TYPE_LENGTH][1]
    return length
