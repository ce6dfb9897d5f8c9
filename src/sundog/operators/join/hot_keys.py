"""Hot keys: keys with so many rows on the probe side that the task which owns them would run long after the others.

    SELECT … FROM clicks JOIN users ON clicks.user = users.id        half of all clicks are of user 0

A row of the probe side needs the build rows of its key, but no other row of the probe side, unless build rows without a
partner are part of the result. So the probe rows of a hot key are spread over several partitions, and its build rows go
to each of them.

Keys are compared by their hashes alone, and both sides use the same hashes. Keys that share one are treated alike, so
the answer does not depend on which keys are in the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.arrow import from_arrow
from sundog.columns.key_layout import Hashes, KeyLayout
from sundog.columns.vectors import Ints
from sundog.expr.calls import NamedExpr
from sundog.expr.evaluate import evaluate
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.operators.join.key_index import rows_with_null


@dataclass(frozen=True)
class HotKeys:
    """The hashes of hot keys, ascending, and the number of partitions that each is spread over."""

    hashes: tuple[int, ...] = ()
    fanouts: tuple[int, ...] = ()

    @classmethod
    def of(cls, shares: Iterable[tuple[int, float]], partitions: int, min_factor: float) -> HotKeys:
        """`shares`: of all rows, by hash. A key is hot if it has over `min_factor` times the rows of an average
        partition. Each of its partitions then gets about as many of its rows as an average partition has rows.
        """
        hot = sorted((key, share * partitions) for key, share in shares if share * partitions > min_factor)
        fanouts = tuple(min(partitions, max(2, int(np.ceil(averages)))) for _, averages in hot)
        return cls(tuple(key for key, _ in hot), fanouts)

    def find(self, hashes: Hashes) -> Ints:
        """For each row the place of its key in the list; -1 for keys that are not hot."""
        known = np.array(self.hashes, np.uint64)
        places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
        found: Ints = np.where(known[places] == hashes, places, -1)
        return found

    def describe(self, verb: str) -> str:
        """`, 2 hot keys spread over up to 5 partitions`; empty if there are none."""
        if not self.hashes:
            return ""
        keys = "1 hot key" if len(self.hashes) == 1 else f"{len(self.hashes)} hot keys"
        return f", {keys} {verb} up to {max(self.fanouts)} partitions"


NO_HOT_KEYS = HotKeys()


def row_salts(batch: pa.RecordBatch, rows: npt.NDArray[np.int64], task: int) -> Hashes:
    """A number for each of these rows, which depends on its values and its task alone.

    A repeated task must send each row to the same partition as before, even if its rows come in another order: the next
    stage may have read some partitions of the first attempt. Rows that are equal in all columns are spread by their
    tasks.
    """
    plain = batch.select([field.name for field in batch.schema if not pa.types.is_nested(field.type)])
    columns = [from_arrow(column) for column in plain.take(pa.array(rows)).columns]
    hashes = KeyLayout.of([column.dtype for column in columns]).hashes(columns, len(rows))
    salts: Hashes = (hashes >> np.uint64(16)) + np.uint64(task & 0xFFFF)
    return salts


@dataclass(frozen=True)
class SampleHotKeys(Operator):
    """A row for each key that has more than `min_share` of the rows of a sample: its hash, as a signed number, and its
    share of all rows.

    Rows with a NULL in a key that `=` compares have no key; they count for the number of rows only.
    """

    keys: tuple[NamedExpr, ...]
    null_safe: tuple[bool, ...]
    min_share: float
    batch_rows: int  # first rows of each batch that are counted
    min_rows: int  # of a key in the sample, below which its share may be chance
    max_keys: int

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("key", pa.int64()), ("share", pa.float64())])

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        seen: list[tuple[Hashes, int]] = []
        rows = 0
        for batch in batches:
            step = -(-batch.num_rows // self.batch_rows) or 1
            sample = batch.take(pa.array(np.arange(0, batch.num_rows, step)))
            vectors = [from_arrow(evaluate(key.expr, sample)) for key in self.keys]
            hashes = KeyLayout.of([vector.dtype for vector in vectors]).hashes(vectors, sample.num_rows)
            missing = rows_with_null(vectors, self.null_safe)
            seen.append((hashes if missing is None else hashes[~missing], step))
            rows += batch.num_rows
        yield self._shares(seen, rows)

    def _shares(self, seen: list[tuple[Hashes, int]], rows: int) -> pa.RecordBatch:
        hashes = np.concatenate([np.zeros(0, np.uint64), *(each for each, _ in seen)])
        weights = np.concatenate([np.zeros(0), *(np.full(len(each), float(step)) for each, step in seen)])
        keys, places, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        shares = np.bincount(places.reshape(-1), weights, len(keys)) / max(rows, 1)
        hot = np.flatnonzero((shares > self.min_share) & (counts >= self.min_rows))
        hot = hot[np.argsort(-shares[hot], kind="stable")][: self.max_keys]
        return pa.RecordBatch.from_arrays([keys[hot].view(np.int64), shares[hot]], schema=self.schema)

    name = "SampleHotKeys"

    @property
    def details(self) -> str:
        return f"[{', '.join(key.name for key in self.keys)}]"
