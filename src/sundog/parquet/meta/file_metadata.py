"""The metadata of a footer, checked for consistency before anything uses it.

Every number of a file enters here (or, for pages, in `page_headers.py`). It is compared with the structure that
contains it before it is used as a length, an offset or an index, and before Arrow's metadata objects are used. Their
C++ exceptions are not translated for Python, and end the process.

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
| Bloom filter, column index, offset index | before the footer, else it is ignored: they are optional |

If one of these does not hold, Spark may still read the file, or not: `Broken` becomes a `FileProblem`, and Spark runs
the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sundog.kernels.pages.thrift_values import BINARY, FIELD, I32, I64, LIST, PARENT, SIZE, STRUCT, VALUE
from sundog.parquet.meta.chunk_table import ENCRYPTED_MAGIC, FIXED_LEN_BYTE_ARRAY, MAGIC, ChunkTable, SchemaLeaf
from sundog.parquet.meta.struct_table import (
    NONE,
    Broken,
    Encrypted,
    Ints,
    Structs,
    demand,
    items_of,
    strings,
    table_of,
    text_of,
)
from sundog.parquet.meta.thrift import Struct, read_struct
from sundog.parquet.meta.thrift_fields import (
    ChunkFields,
    ColumnOrderFields,
    FileFields,
    KeyValueFields,
    RowGroupFields,
    SchemaFields,
)

TAIL_BYTES = 8  # after the footer: its length, and the magic bytes
PHYSICAL_TYPES = (
    "BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY",
)  # fmt: skip
_MOST_FRAMES = 8  # of a table: with more, its files are read one by one
MAX_ROWS = (1 << 31) - 1  # of a row group
# The fields that are read, and their types.
_FILE = {
    FileFields.SCHEMA: LIST,
    FileFields.NUM_ROWS: I64,
    FileFields.ROW_GROUPS: LIST,
    FileFields.KEY_VALUES: LIST,
    FileFields.CREATED_BY: BINARY,
    FileFields.COLUMN_ORDERS: LIST,
    FileFields.ENCRYPTION_ALGORITHM: STRUCT,
    FileFields.FOOTER_SIGNING_KEY: BINARY,
}
_COLUMN_ORDER = {ColumnOrderFields.TYPE_ORDER: STRUCT}
_KEY_VALUE = {KeyValueFields.KEY: BINARY, KeyValueFields.VALUE: BINARY}
_SCHEMA = {
    SchemaFields.TYPE: I32,
    SchemaFields.TYPE_LENGTH: I32,
    SchemaFields.REPETITION: I32,
    SchemaFields.NAME: BINARY,
    SchemaFields.NUM_CHILDREN: I32,
}
_ROW_GROUP = {RowGroupFields.COLUMNS: LIST, RowGroupFields.TOTAL_BYTES: I64, RowGroupFields.NUM_ROWS: I64}
_CHUNK = {
    ChunkFields.FILE_PATH: BINARY,
    ChunkFields.METADATA: STRUCT,
    ChunkFields.OFFSET_INDEX_OFFSET: I64,
    ChunkFields.OFFSET_INDEX_BYTES: I32,
    ChunkFields.COLUMN_INDEX_OFFSET: I64,
    ChunkFields.COLUMN_INDEX_BYTES: I32,
    ChunkFields.CRYPTO_METADATA: STRUCT,
    ChunkFields.ENCRYPTED_METADATA: BINARY,
}


@dataclass(frozen=True, eq=False)
class FileMetadata:
    """A consistent footer. Tables have a row for each row group and a column for each leaf."""

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
    null_counts: Ints  # -1 if unknown
    bounds: Ints  # of each chunk: position and size of min, and of max; sizes are -1 unless both exist
    is_order_defined: npt.NDArray[np.bool_]  # of each leaf: bounds are in the order of its type
    data: bytes  # the footer, in which the bounds are
    extras: Ints | None = None  # of each chunk: offset and bytes of its Bloom filter, column index and offset index

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        tables = (self.codecs, self.encodings, self.starts, self.compressed, self.uncompressed, self.null_counts)
        extras = 0 if self.extras is None else self.extras.nbytes
        own = sum(table.nbytes for table in tables) + self.bounds.nbytes + len(self.data)
        return own + extras + 300 * len(self.leaves)

    def bounds_of(self, leaf: int) -> list[tuple[bytes, bytes] | None]:
        """Min and max of a column in each row group, as they are stored."""
        data = self.data
        return [
            None if low_size < 0 else (data[low : low + low_size], data[high : high + high_size])
            for low, low_size, high, high_size in self.bounds[:, leaf].tolist()
        ]

    def extra(self, kind: int, row_group: int, leaf: int) -> tuple[int, int] | None:
        """Offset and bytes of a chunk's Bloom filter, column index or offset index, inside the file; None if it has
        none."""
        if self.extras is None or not self.extras[row_group, leaf, kind, 1]:
            return None
        offset, size = self.extras[row_group, leaf, kind].tolist()
        return offset, size

    def field_id(self, leaf: int) -> int | None:
        """The number by which a table format knows the column; None if the file has none for it."""
        found = self.element(leaf).get(SchemaFields.FIELD_ID)
        return None if found is None or found[0] != I32 else int(found[1])

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
    """The footer's content. Raises Broken if it is inconsistent."""
    return _parse(data, table_of(data), file_size - TAIL_BYTES - len(data))


def _parse(data: bytes, table: Ints, ends: int | Ints) -> FileMetadata:
    """`ends`: where the pages must end, one position for all row groups, or one for each."""
    root = Structs(table, np.zeros(1, np.int64), _FILE)
    if root.has(FileFields.ENCRYPTION_ALGORITHM).any() or root.has(FileFields.FOOTER_SIGNING_KEY).any():
        raise Encrypted("some of its columns are encrypted, or its footer is signed")
    leaves = _leaves(table, root, data)
    groups = Structs(table, items_of(table, root.containers(FileFields.ROW_GROUPS), STRUCT), _ROW_GROUP)
    columns = groups.containers(RowGroupFields.COLUMNS)
    if (table[columns, SIZE] != len(leaves)).any():
        raise Broken("a row group has not the columns of the schema")
    chunks = Structs(table, items_of(table, columns, STRUCT), _CHUNK)
    row_counts = groups.numbers(RowGroupFields.NUM_ROWS)
    num_rows = int(root.numbers(FileFields.NUM_ROWS)[0])
    demand("the rows of the row groups are not those of the file", (row_counts >= 0) & (row_counts <= MAX_ROWS))
    if sum(row_counts.tolist()) != num_rows:
        raise Broken("the rows of the row groups are not those of the file")
    byte_counts = groups.numbers(RowGroupFields.TOTAL_BYTES)
    demand("a row group has a negative size", byte_counts >= 0)
    shape = (len(row_counts), len(leaves))
    ordered = _order_is_defined(table, root, len(leaves))
    footer_start = ends if isinstance(ends, int) else np.repeat(ends, len(leaves))
    chunk_table = ChunkTable(table, chunks, leaves, row_counts, data, footer_start, ordered)
    return FileMetadata(
        created_by=text_of(data, root, FileFields.CREATED_BY),
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
        extras=None if chunk_table.extras is None else chunk_table.extras.reshape(*shape, 3, 2),
    )


def _key_values(table: Ints, root: Structs, data: bytes) -> dict[bytes, bytes]:
    lists, _ = root.some(FileFields.KEY_VALUES)
    pairs = Structs(table, items_of(table, lists, STRUCT), _KEY_VALUE)
    keys = strings(data, pairs.numbers(KeyValueFields.KEY), pairs.sizes(KeyValueFields.KEY))
    values = strings(data, pairs.numbers(KeyValueFields.VALUE, 0), pairs.sizes(KeyValueFields.VALUE, 0))
    return dict(zip(keys, values, strict=True))


def _leaves(table: Ints, root: Structs, data: bytes) -> tuple[SchemaLeaf, ...]:
    """The leaves of the schema, which is a tree, parents first."""
    numbers = items_of(table, root.containers(FileFields.SCHEMA), STRUCT)
    elements = Structs(table, numbers, _SCHEMA)
    names = strings(data, elements.numbers(SchemaFields.NAME), elements.sizes(SchemaFields.NAME))
    types = elements.numbers(SchemaFields.TYPE, NONE).tolist()
    lengths = elements.numbers(SchemaFields.TYPE_LENGTH, 0).tolist()
    repetitions = elements.numbers(SchemaFields.REPETITION, 0).tolist()
    children = elements.numbers(SchemaFields.NUM_CHILDREN, 0).tolist()
    if not names or types[0] != NONE or children[0] < 0:
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
            if types[at] != NONE:
                raise Broken("a group of its schema has a type")
            open_groups.append((names[at], children[at]))
            continue
        if not 0 <= types[at] < len(PHYSICAL_TYPES):
            raise Broken("a column has a type that does not exist")
        if types[at] == FIXED_LEN_BYTE_ARRAY and lengths[at] <= 0:
            raise Broken("a column of fixed length has none")
        path = (*(name for name, _ in open_groups[1:]), names[at])
        is_flat = len(open_groups) == 1 and repetitions[at] != 2
        element = data[starts[at] : starts[at] + sizes[at]]
        leaves.append(SchemaLeaf(path, types[at], is_flat, repetitions[at] == 1, element))
    if any(left for _, left in open_groups):
        raise Broken("its schema is no tree")
    return tuple(leaves)


def _order_is_defined(table: Ints, root: Structs, leaves: int) -> npt.NDArray[np.bool_]:
    """The leaves whose min and max are in the order of their type, by the footer's column orders."""
    lists, _ = root.some(FileFields.COLUMN_ORDERS)
    orders = items_of(table, lists, STRUCT)
    if len(orders) not in (0, leaves):
        raise Broken("not each column has an order")
    return (
        Structs(table, orders, _COLUMN_ORDER).has(ColumnOrderFields.TYPE_ORDER)
        if len(orders)
        else np.zeros(leaves, np.bool_)
    )


def _utf8(name: bytes) -> None:
    try:
        name.decode()
    except UnicodeDecodeError as problem:
        raise Broken("the name of a column is no UTF-8") from problem


_ROWS_HEADER, _GROUPS_HEADER = b"\x16", b"\x19"  # fields 3 (a long) and 4 (a list), each after its predecessor


@dataclass(frozen=True)
class FooterFrame:
    """The parts of a footer that files of a table share: schema, writer, key-values and orders, without row groups.

        head (version, schema) | rows | row groups | tail (key-values, writer, orders)

    So the row groups of many files are checked and resolved like those of one file. For small footers most of the time
    goes into a hundred calls for a few numbers each; these are made once.
    """

    head: bytes
    tail: bytes

    @classmethod
    def of(cls, values: FileMetadata) -> FooterFrame | None:
        """None for a footer of another form."""
        data, table = values.data, table_of(values.data)
        lists, groups = _row_groups(table)
        if not len(groups):
            return None
        start, end = int(table[lists[0], VALUE]), int(table[groups[-1], VALUE] + table[groups[-1], SIZE])
        rows = _rows_field(values.num_rows)
        if data[start - len(rows) : start] != rows:
            return None
        return cls(data[: start - len(rows)], data[end:])

    def row_groups(self, data: bytes) -> tuple[int, int, bytes] | None:
        """Rows, number of row groups, and these as stored; None if the footer has another frame."""
        at, end = len(self.head), len(data) - len(self.tail)
        if end - at < 4 or not data.startswith(self.head) or not data.endswith(self.tail):
            return None
        if data[at : at + 1] != _ROWS_HEADER:
            return None
        rows, at = _read_varint(data, at + 1, end)
        if data[at : at + 1] != _GROUPS_HEADER or at + 2 >= end or data[at + 1] & 15 != STRUCT:
            return None
        count, at = data[at + 1] >> 4, at + 2
        if count == 15:
            count, at = _read_varint(data, at, end)
        # Zigzag: the lowest bit is the sign. Negative counts are left to the reader of single footers, which names the
        # error.
        is_negative = rows & 1
        return (rows >> 1, count, data[at:end]) if 0 < count < end - at and not is_negative else None

    def together(self, parts: Sequence[tuple[int, int, bytes]], ends: Sequence[int]) -> FileMetadata:
        """The row groups of several files, whose pages end at `ends`, as those of one file. Raises Broken if one of the
        footers is inconsistent."""
        counts = np.array([count for _, count, _ in parts], np.int64)
        groups = int(counts.sum())
        rows = _rows_field(sum(rows for rows, _, _ in parts))
        start = b"".join((self.head, rows, bytes([15 << 4 | STRUCT]), _varint(groups)))
        data = b"".join((start, *(stored for _, _, stored in parts), self.tail))
        table = table_of(data)
        first = np.cumsum(counts) - counts
        sizes = np.array([len(stored) for _, _, stored in parts], np.int64)
        _, numbers = _row_groups(table)
        if len(numbers) != groups or (table[numbers[first], VALUE] != len(start) + np.cumsum(sizes) - sizes).any():
            raise Broken("a footer has not as many row groups as it says")
        values = _parse(data, table, np.repeat(np.array(ends, np.int64), counts))
        if np.add.reduceat(values.row_counts, first).tolist() != [rows for rows, _, _ in parts]:
            raise Broken("the rows of the row groups are not those of the file")
        return values


def in_frame(data: bytes, size: int, frames: list[FooterFrame]) -> tuple[int, tuple[int, int, bytes]]:
    """The index of a footer's frame among the known ones, to which a new one is added, and its row groups."""
    for place, frame in enumerate(frames):
        row_groups = frame.row_groups(data)
        if row_groups is not None:
            return place, row_groups
    new = FooterFrame.of(parse_footer(data, size)) if len(frames) < _MOST_FRAMES else None
    row_groups = None if new is None else new.row_groups(data)
    if new is None or row_groups is None:
        raise Broken("its footer is not like the others")
    frames.append(new)
    return len(frames) - 1, row_groups


def _row_groups(table: Ints) -> tuple[Ints, Ints]:
    """The numbers of the list of row groups, and of these."""
    lists = np.flatnonzero((table[:, PARENT] == 0) & (table[:, FIELD] == FileFields.ROW_GROUPS))
    return lists, items_of(table, lists, STRUCT)


def _rows_field(rows: int) -> bytes:
    return b"".join((_ROWS_HEADER, _varint(rows << 1), _GROUPS_HEADER))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def _read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number, which ends before `end`, and the position after it."""
    number = place = 0
    while at < end and data[at] > 127 and place < 63:
        number |= (data[at] & 127) << place
        at, place = at + 1, place + 7
    return number | (data[at] << place if at < end else 0), at + 1
