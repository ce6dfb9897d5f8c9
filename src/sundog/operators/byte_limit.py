"""The bytes that the rows of a stage may take where they are gathered.

How many rows a join puts out is known only when it runs: two sides of 300,000 rows make 90 billion pairs if all have
one key. So the receiver of a stage's output counts its bytes as they arrive, and stops the stage when they are too
many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock

import pyarrow as pa

from sundog.support import TooManyBytes


class ByteLimit:
    """Counts the bytes that the tasks of one process put out together. They must be within each of `limits` that is not
    None."""

    def __init__(self, *limits: int | None) -> None:
        self._max_bytes = min((limit for limit in limits if limit is not None), default=None)
        self._lock = Lock()
        self._bytes = 0
        self._dictionaries: set[int] = set()  # the addresses of those that were counted: batches share them

    def watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, as long as all are within the limit. Raises TooManyBytes."""
        for batch in batches:
            self.add(batch)
            yield batch

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch. Raises TooManyBytes."""
        if self._max_bytes is None:
            return
        with self._lock:
            self._bytes += sum(map(self._new_bytes, batch.columns))
            if self._bytes > self._max_bytes:
                raise TooManyBytes.than(self._max_bytes)

    def _new_bytes(self, column: pa.Array) -> int:
        if not pa.types.is_dictionary(column.type):
            return int(column.nbytes)
        address = next((buffer.address for buffer in reversed(column.dictionary.buffers()) if buffer is not None), 0)
        is_known = address in self._dictionaries
        self._dictionaries.add(address)
        return int(column.indices.nbytes) + (0 if is_known else int(column.dictionary.nbytes))
