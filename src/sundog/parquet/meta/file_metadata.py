"""What a footer says, believed only where it adds up.

Every number of a file enters here (or, for pages, in `page_headers.py`) and is held against what it claims to be part of,
before it becomes a length, an offset or an index, and before Arrow's metadata objects are asked: their C++ exceptions are
not translated for Python, and end the process.

| number | must be |
|---|---|
| length of the footer | inside of the file |
| columns of a row group | as many as the schema has leaves |
| type, codec, encodings | one that exists; the type is the schema's, and the path of a flat column its name |
| rows of the row groups | not negative, less than 2^31 each, in sum the file's |
| values of a flat column chunk | the row group's rows |
| bytes of a column chunk | before the footer |
| NULLs | no more than the values |
| min, max | as long as the type is wide |

A file of which one of these is not true may still be read by Spark, or not: `Broken` becomes a `FileProblem`, and Spark
judges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sundog.kernels.thrift_values import (
    BINARY,
    BROKEN,
    I32,
    I64,
    KIND,
    LIST,
    PARENT,
    SIZE,
    STRUCT,
    VALUE,
    VALUE_FIELDS,
    gather_fields,
    read_values,
)
from sundog.parquet.meta.thrift import Struct, read_struct

Ints = npt.NDArray[np.int64]

MAGIC, ENCRYPTED_MAGIC = b"PAR1", b"PARE"
TAIL_BYTES = 8  # behind the footer: its length, and the magic bytes
PHYSICAL_TYPES = (
    "BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY",
)  # fmt: skip
CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
MOST_ROWS = (1 << 31) - 1  # of a row group
_KNOWN_ENCODINGS = 0b11_1111_1101  # a bit for each; 1 was never used
_BYTES_OF_TYPE = (1, 4, 8, 12, 4, 8, -1, 0)  # -1: any; 0: of the schema
_FIXED_LEN_BYTE_ARRAY = 7
_MOST_VALUES = 1 << 24  # of a footer: 640 MB of table, 440,000 column chunks as Arrow writes them
_NONE = -1
# The fields of parquet.thrift that are read, and their types.
_ROOT = {2: LIST, 3: I64, 4: LIST, 5: LIST, 6: BINARY, 7: LIST, 8: STRUCT, 9: BINARY}
_COLUMN_ORDER = {1: STRUCT}
_KEY_VALUE = {1: BINARY, 2: BINARY}
_ELEMENT = {1: I32, 2: I32, 3: I32, 4: BINARY, 5: I32}
_ROW_GROUP = {1: LIST, 2: I64, 3: I64}
_CHUNK = {1: BINARY, 3: STRUCT, 8: STRUCT, 9: BINARY}
_CHUNK_METADATA = {1: I32, 2: LIST, 3: LIST, 4: I32, 5: I64, 6: I64, 7: I64, 9: I64, 11: I64, 12: STRUCT}
_MAX, _MIN, _NULLS, _MAX_VALUE, _MIN_VALUE = 1, 2, 3, 5, 6
_STATISTICS = {_MAX: BINARY, _MIN: BINARY, _NULLS: I64, _MAX_VALUE: BINARY, _MIN_VALUE: BINARY}


class Broken(ValueError):
    """The footer does not add up."""


class Encrypted(Broken):
    """It cannot be read without a key."""


@dataclass(frozen=True, eq=False)
class SchemaLeaf:
    """A primitive column of the schema. `element` is its entry as stored."""

    path: tuple[bytes, ...]
    physical_type: int
    is_flat: bool  # neither in a group nor repeated
    is_nullable: bool
    element: bytes


@dataclass(frozen=True, eq=False)
class FileMetadata:
    """A footer that adds up. Tables have a row for each row group and a column for each leaf."""

    created_by: str
    key_values: dict[bytes, bytes]
    leaves: tuple[SchemaLeaf, ...]
    num_rows: int
    row_counts: Ints
    byte_counts: Ints
    codecs: Ints
    encodings: Ints  # a bit for each
    starts: Ints  # of the first page in the file
    compressed: Ints
    uncompressed: Ints
    null_counts: Ints  # -1 where there is none
    bounds: Ints  # of each chunk: position and size of min, and of max; the sizes are -1 unless there are both
    is_order_defined: npt.NDArray[np.bool_]  # of each leaf: bounds are in the order of its type
    data: bytes  # the footer, in which the bounds are

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        tables = (self.codecs, self.encodings, self.starts, self.compressed, self.uncompressed, self.null_counts)
        return sum(table.nbytes for table in tables) + self.bounds.nbytes + len(self.data) + 300 * len(self.leaves)

    def bounds_of(self, leaf: int) -> list[tuple[bytes, bytes] | None]:
        """Min and max of a column in each row group, as they are stored."""
        data = self.data
        return [
            None if low_size < 0 else (data[low : low + low_size], data[high : high + high_size])
            for low, low_size, high, high_size in self.bounds[:, leaf].tolist()
        ]

    def element(self, leaf: int) -> Struct:
        """The leaf's entry in the schema, as it is stored."""
        return read_struct(self.leaves[leaf].element)[0]


def footer_length(tail: bytes, file_size: int) -> int:
    """Bytes of the footer, by the last bytes of the file."""
    if tail[-4:] == ENCRYPTED_MAGIC:
        raise Encrypted("its footer is encrypted")
    if len(tail) < TAIL_BYTES or tail[-4:] != MAGIC:
        raise Broken("it does not end as a Parquet file does")
    length = int.from_bytes(tail[-8:-4], "little")
    if length + TAIL_BYTES + len(MAGIC) > file_size:
        raise Broken(f"a footer of {length} bytes is more than the file has")
    return length


def parse_footer(data: bytes, file_size: int) -> FileMetadata:
    """The footer's content. Raises Broken if anything in it does not add up."""
    table = _table(data)
    root = _Structs(table, np.zeros(1, np.int64), _ROOT)
    if root.has(8).any() or root.has(9).any():
        raise Encrypted("some of its columns are encrypted, or its footer is signed")
    leaves = _leaves(table, root, data)
    groups = _Structs(table, _items(table, root.containers(4), STRUCT), _ROW_GROUP)
    columns = groups.containers(1)
    if (table[columns, SIZE] != len(leaves)).any():
        raise Broken("a row group has not the columns of the schema")
    chunks = _Structs(table, _items(table, columns, STRUCT), _CHUNK)
    row_counts = groups.numbers(3)
    num_rows = int(root.numbers(3)[0])
    _demand("the rows of the row groups are not those of the file", (row_counts >= 0) & (row_counts <= MOST_ROWS))
    if sum(row_counts.tolist()) != num_rows:
        raise Broken("the rows of the row groups are not those of the file")
    byte_counts = groups.numbers(2)
    _demand("a row group has a negative size", byte_counts >= 0)
    shape = (len(row_counts), len(leaves))
    ordered = _order_is_defined(table, root, len(leaves))
    chunk_table = _Chunks(table, chunks, leaves, row_counts, data, file_size - TAIL_BYTES - len(data), ordered)
    return FileMetadata(
        created_by=_text(data, root, 6),
        key_values=_key_values(table, root, data),
        leaves=leaves,
        num_rows=num_rows,
        row_counts=row_counts,
        byte_counts=byte_counts,
        codecs=chunk_table.codecs.reshape(shape),
        encodings=chunk_table.encodings.reshape(shape),
        starts=chunk_table.starts.reshape(shape),
        compressed=chunk_table.compressed.reshape(shape),
        uncompressed=chunk_table.uncompressed.reshape(shape),
        null_counts=chunk_table.null_counts.reshape(shape),
        bounds=chunk_table.bounds.reshape(*shape, 4),
        is_order_defined=ordered,
        data=data,
    )


def _table(data: bytes) -> Ints:
    """The values of the footer: as a rule there is one for each three of its bytes."""
    raw = np.frombuffer(data, np.uint8)
    table = np.empty((min(len(data) // 2, _MOST_VALUES), VALUE_FIELDS), np.int64)
    count = int(read_values(raw, table))
    if count == BROKEN:
        raise Broken("its footer is no Thrift struct")
    if count > _MOST_VALUES:
        raise Broken(f"its footer has {count} values")
    if count > len(table):
        table = np.empty((count, VALUE_FIELDS), np.int64)
        read_values(raw, table)
    return table[:count]


def _demand(sentence: str, holds: npt.NDArray[np.bool_]) -> None:
    if not holds.all():
        raise Broken(sentence)


class _Structs:
    """Some fields of some structs of one kind: an array for each field, with a slot for each struct."""

    def __init__(self, table: Ints, structs: Ints, kinds: dict[int, int]) -> None:
        """`kinds` are the fields that are of interest; one that is of another kind makes the footer broken."""
        self._places = {field: place for place, field in enumerate(kinds)}
        self._fields = np.empty((len(kinds), len(structs), 3), np.int64)
        wanted = np.array(list(kinds), np.int64), np.array(list(kinds.values()), np.int64)
        if gather_fields(table, structs, *wanted, self._fields) == BROKEN:
            raise Broken("a field of its footer is of another type")

    @property
    def count(self) -> int:
        return int(self._fields.shape[1])

    def has(self, field: int) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self._fields[self._places[field], :, 0] != _NONE
        return found

    def numbers(self, field: int, default: int | None = None) -> Ints:
        """The values of a field, which must be there unless there is a default."""
        return self._column(field, 1, default)

    def sizes(self, field: int, default: int | None = None) -> Ints:
        """Bytes of strings, or items of lists."""
        return self._column(field, 2, default)

    def containers(self, field: int) -> Ints:
        """The numbers of the structs or lists in a field, which must be there."""
        return self._column(field, 0, None)

    def some(self, field: int) -> tuple[Ints, Ints]:
        """The numbers of the structs or lists that are there, and whose they are."""
        slots = np.flatnonzero(self.has(field))
        return self._fields[self._places[field], slots, 0], slots

    def _column(self, field: int, what: int, default: int | None) -> Ints:
        column = self._fields[self._places[field]]
        missing = column[:, 0] == _NONE
        if missing.any():
            if default is None:
                raise Broken(f"field {field} of a struct in its footer is missing")
            return np.where(missing, default, column[:, what])
        result: Ints = column[:, what].copy()
        return result


def _items(table: Ints, lists: Ints, kind: int) -> Ints:
    """The numbers of the items of all the lists, list after list."""
    is_list = np.zeros(len(table) + 1, np.bool_)
    is_list[lists] = True
    found = np.flatnonzero(is_list[table[:, PARENT]])
    if (table[found, KIND] != kind).any():
        raise Broken("the items of a list are of another type")
    return found


def _text(data: bytes, structs: _Structs, field: int) -> str:
    at, size = structs.numbers(field, 0), structs.sizes(field, 0)
    return data[int(at[0]) : int(at[0] + size[0])].decode("utf-8", "replace")


def _strings(data: bytes, at: Ints, sizes: Ints) -> list[bytes]:
    return [data[start : start + size] for start, size in zip(at.tolist(), sizes.tolist(), strict=True)]


def _key_values(table: Ints, root: _Structs, data: bytes) -> dict[bytes, bytes]:
    lists, _ = root.some(5)
    pairs = _Structs(table, _items(table, lists, STRUCT), _KEY_VALUE)
    keys = _strings(data, pairs.numbers(1), pairs.sizes(1))
    values = _strings(data, pairs.numbers(2, 0), pairs.sizes(2, 0))
    return dict(zip(keys, values, strict=True))


def _leaves(table: Ints, root: _Structs, data: bytes) -> tuple[SchemaLeaf, ...]:
    """The leaves of the schema, which is a tree, parents first."""
    numbers = _items(table, root.containers(2), STRUCT)
    elements = _Structs(table, numbers, _ELEMENT)
    names = _strings(data, elements.numbers(4), elements.sizes(4))
    types = elements.numbers(1, _NONE).tolist()
    lengths = elements.numbers(2, 0).tolist()
    repetitions = elements.numbers(3, 0).tolist()
    children = elements.numbers(5, 0).tolist()
    if not names or types[0] != _NONE or children[0] < 0:
        raise Broken("its schema has no root")
    starts, sizes = table[numbers, VALUE].tolist(), table[numbers, SIZE].tolist()
    leaves: list[SchemaLeaf] = []
    open_groups: list[tuple[bytes, int]] = [(b"", children[0])]  # name, children still to come
    for at in range(1, len(names)):
        while open_groups and open_groups[-1][1] == 0:
            open_groups.pop()
        if not open_groups or not 0 <= repetitions[at] <= 2 or children[at] < 0:
            raise Broken("its schema is no tree")
        group, left = open_groups.pop()
        open_groups.append((group, left - 1))
        _utf8(names[at])
        if children[at] > 0:
            if types[at] != _NONE:
                raise Broken("a group of its schema has a type")
            open_groups.append((names[at], children[at]))
            continue
        if not 0 <= types[at] < len(PHYSICAL_TYPES):
            raise Broken("a column has a type that does not exist")
        if types[at] == _FIXED_LEN_BYTE_ARRAY and lengths[at] <= 0:
            raise Broken("a column of fixed length has none")
        path = (*(name for name, _ in open_groups[1:]), names[at])
        is_flat = len(open_groups) == 1 and repetitions[at] != 2
        element = data[starts[at] : starts[at] + sizes[at]]
        leaves.append(SchemaLeaf(path, types[at], is_flat, repetitions[at] == 1, element))
    if any(left for _, left in open_groups):
        raise Broken("its schema is no tree")
    return tuple(leaves)


def _order_is_defined(table: Ints, root: _Structs, leaves: int) -> npt.NDArray[np.bool_]:
    """Of which leaves it is said that min and max are in the order of their type."""
    lists, _ = root.some(7)
    orders = _items(table, lists, STRUCT)
    if len(orders) not in (0, leaves):
        raise Broken("not each column has an order")
    return _Structs(table, orders, _COLUMN_ORDER).has(1) if len(orders) else np.zeros(leaves, np.bool_)


def _utf8(name: bytes) -> None:
    try:
        name.decode()
    except UnicodeDecodeError as problem:
        raise Broken("the name of a column is no UTF-8") from problem


class _Chunks:
    """The column chunks of all row groups, row group after row group."""

    def __init__(
        self,
        table: Ints,
        chunks: _Structs,
        leaves: tuple[SchemaLeaf, ...],
        row_counts: Ints,
        data: bytes,
        footer_start: int,
        is_order_defined: npt.NDArray[np.bool_],
    ) -> None:
        if chunks.has(8).any() or chunks.has(9).any():
            raise Encrypted("some of its columns are encrypted")
        if (chunks.sizes(1, 0) > 0).any():
            raise Broken("a column is in another file")
        self._table, self._data = table, data
        metadata = chunks.containers(3)
        fields = self._fields = _Structs(table, metadata, _CHUNK_METADATA)
        types = np.tile(np.array([leaf.physical_type for leaf in leaves], np.int64), len(row_counts))
        _demand("a column has not the type of the schema", fields.numbers(1) == types)
        self.codecs = fields.numbers(4)
        _demand("a codec does not exist", (self.codecs >= 0) & (self.codecs < len(CODECS)))
        self.encodings = self._encoding_bits()
        self._check_paths(leaves, len(row_counts))
        self._check_ranges(leaves, row_counts, footer_start)
        self._check_statistics(leaves, np.tile(is_order_defined, len(row_counts)))

    def _encoding_bits(self) -> Ints:
        lists, slots = self._fields.some(2)
        if len(lists) != self._fields.count:
            raise Broken("a column has no encodings")
        slot_of = np.full(len(self._table) + 1, _NONE, np.int64)
        slot_of[lists] = slots
        items = _items(self._table, lists, I32)
        values = self._table[items, VALUE]
        known = (values >= 0) & (values < 64)
        bit = np.left_shift(1, np.where(known, values, 63))
        _demand("an encoding does not exist", bit & _KNOWN_ENCODINGS != 0)
        bits = np.zeros(self._fields.count, np.int64)
        np.bitwise_or.at(bits, slot_of[self._table[items, PARENT]], bit)
        return bits

    def _check_paths(self, leaves: tuple[SchemaLeaf, ...], groups: int) -> None:
        items = _items(self._table, self._fields.containers(3), BINARY)
        parts = _strings(self._data, self._table[items, VALUE], self._table[items, SIZE])
        if parts != [part for leaf in leaves for part in leaf.path] * groups:
            raise Broken("the columns of a row group are not those of the schema")

    def _check_ranges(self, leaves: tuple[SchemaLeaf, ...], row_counts: Ints, footer_start: int) -> None:
        fields = self._fields
        self.values = fields.numbers(5)
        self.uncompressed, self.compressed = fields.numbers(6), fields.numbers(7)
        data_pages, dictionaries = fields.numbers(9), fields.numbers(11, 0)
        flat = np.tile(np.array([leaf.is_flat for leaf in leaves], np.bool_), len(row_counts))
        rows = np.repeat(row_counts, len(leaves))
        _demand("a column has not the rows of its row group", np.where(flat, self.values == rows, self.values >= 0))
        _demand("the size of a column is negative", (self.uncompressed >= 0) & (self.compressed >= 0))
        _demand("an offset is negative", (data_pages >= 0) & (dictionaries >= 0))
        first = (dictionaries > 0) & (dictionaries < data_pages)
        self.starts = np.where(first, dictionaries, data_pages)
        nothing = self.values == 0  # then the offsets may be anything: nobody reads there
        for table in (self.starts, self.compressed, self.uncompressed):
            table[nothing] = 0
        inside = (self.starts >= len(MAGIC)) & (self.starts <= footer_start) & (self.compressed > 0)
        inside &= self.compressed <= footer_start - self.starts  # no sum, which could be more than a word holds
        _demand("a column is outside of the file", inside | nothing)

    def _check_statistics(self, leaves: tuple[SchemaLeaf, ...], is_order_defined: npt.NDArray[np.bool_]) -> None:
        found, slots = self._fields.some(12)
        statistics = _Structs(self._table, found, _STATISTICS)
        self.null_counts = np.full(self._fields.count, _NONE, np.int64)
        self.null_counts[slots] = null_counts = statistics.numbers(_NULLS, _NONE)
        known = statistics.has(_NULLS)
        _demand("more NULLs than rows", ~known | ((null_counts >= 0) & (null_counts <= self.values[slots])))
        widths = np.resize(np.array([_bytes_of_bound(leaf) for leaf in leaves], np.int64), self._fields.count)[slots]
        self.bounds = np.full((self._fields.count, 4), _NONE, np.int64)
        for place, old, new in ((0, _MIN, _MIN_VALUE), (2, _MAX, _MAX_VALUE)):
            for field, used in ((old, ~is_order_defined[slots]), (new, is_order_defined[slots])):
                sizes = statistics.sizes(field, _NONE)
                sizes = np.where((sizes == 0) & (widths > 0), _NONE, sizes)  # no bytes of a number are no number
                _demand("a bound is not as wide as its type", (sizes == _NONE) | (sizes == widths) | (widths < 0))
                self.bounds[slots[used], place] = statistics.numbers(field, 0)[used]
                self.bounds[slots[used], place + 1] = sizes[used]
        self.bounds[(self.bounds[:, 1] == _NONE) | (self.bounds[:, 3] == _NONE)] = _NONE


def _bytes_of_bound(leaf: SchemaLeaf) -> int:
    if leaf.physical_type != _FIXED_LEN_BYTE_ARRAY:
        return _BYTES_OF_TYPE[leaf.physical_type]
    length: int = read_struct(leaf.element)[0][2][1]
    return length
