"""A string column of a row group, decoded without copying a string.

Arrow copies every string out of its page, one by one; a dictionary it copies out row by row as well, or builds anew where a
writer gave up on it in the middle. Here the pages are decompressed and nothing more: a row is a *view* into the page that holds its bytes, as in Arrow's string_view,
or the number of a dictionary entry.

    chunk:   [dictionary][page of codes][page of codes][plain page][plain page]
    result:  views into the dictionary ────────────────┘            └── views into the pages
             or, if all pages are codes, a dictionary array

3 million URLs of 53 bytes: 0.38 s with Arrow, 0.31 s here, of which 0.23 s to decompress; 3 million phrases in dictionaries:
0.16 and 0.09 s; 6 million short strings, half of them in a dictionary: 0.28 and 0.17 s.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.kernels.parquet_values import COUNT, VALUES, VALUES_END, codes_of_pages, views_of_pages, views_of_plain
from sundog.parquet.chunk_pages import ChunkPages, Unusual, check, read_pages
from sundog.parquet.footer import Footer

_BYTES_OF_A_LENGTH = 4
_LARGEST_BLOCK = (1 << 31) - 1  # bytes that a view can point into

Views = npt.NDArray[np.int64]


def read_text(source: pa.NativeFile, footer: Footer, row_group: int, leaf: int, dtype: pa.DataType) -> pa.Array | None:
    """A column of strings as string_view or as a dictionary of such; None where Arrow has to read it."""
    if footer.leaf(leaf).physical_type != "BYTE_ARRAY":
        return None
    view = pa.string_view() if pa.types.is_string(dtype) else pa.binary_view()
    try:
        chunk = read_pages(source, footer, row_group, leaf)
        if max(block.size for block in chunk.blocks) > _LARGEST_BLOCK:
            return None
        return _dictionary(chunk, view) if chunk.is_coded else _views(chunk, view)
    except (Unusual, pa.ArrowException, OSError):
        return None


def _dictionary(chunk: ChunkPages, view: pa.DataType) -> pa.Array:
    entries = _entries(chunk)
    buffer = pa.allocate_buffer(4 * chunk.rows)
    check(codes_of_pages(chunk.pages, chunk.valid, len(entries), np.frombuffer(buffer, np.uint32)))
    codes = pa.Array.from_buffers(pa.int32(), chunk.rows, [chunk.validity(), buffer])
    values = pa.Array.from_buffers(view, len(entries), [None, pa.py_buffer(entries), *chunk.blocks])
    return pa.DictionaryArray.from_arrays(codes, values)


def _views(chunk: ChunkPages, view: pa.DataType) -> pa.Array:
    buffer = pa.allocate_buffer(16 * chunk.rows)
    views = np.frombuffer(buffer, np.int64).reshape(chunk.rows, 2)
    check(views_of_pages(chunk.pages, chunk.valid, _entries(chunk), views))
    return pa.Array.from_buffers(view, chunk.rows, [chunk.validity(), buffer, *chunk.blocks])


def _entries(chunk: ChunkPages) -> Views:
    """The dictionary's strings."""
    count, size = int(chunk.dictionary[COUNT]), int(chunk.dictionary[VALUES_END] - chunk.dictionary[VALUES])
    if count * _BYTES_OF_A_LENGTH > size:
        raise Unusual
    entries = np.empty((count, 2), np.int64)
    check(views_of_plain(chunk.dictionary, np.empty(0, np.uint8), entries))
    return entries
