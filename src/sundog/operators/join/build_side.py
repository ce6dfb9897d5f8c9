"""The build side of a hash join: its rows in one batch, and an index of them by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sundog.columns.arrow import from_arrow
from sundog.columns.key_sets import KeySetCosts, key_set
from sundog.expr.dynamic_filters.key_set import KeySet
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Expr
from sundog.operators.costs import JoinCosts
from sundog.operators.join.key_index import KeyIndex
from sundog.support import Code, Declined

_MAX_ROWS = (1 << 31) - 1  # the number of a row is an int32


@dataclass(frozen=True, eq=False)
class BuildSide:
    """All rows of one side. Read-only: threads share it. `columns` are those that someone above the join reads.

    `has_null_key`: some row has a NULL in a key, which matters to NOT IN only.
    """

    columns: pa.RecordBatch
    rows: int
    index: KeyIndex
    has_null_key: bool

    @classmethod
    def of(
        cls,
        batches: Sequence[pa.RecordBatch],
        schema: pa.Schema,
        keys: Sequence[Expr],
        null_safe: tuple[bool, ...],
        costs: JoinCosts,
    ) -> BuildSide:
        """`schema` is that of the batches, where there are none."""
        whole = one_batch(batches, schema)
        arrays = [evaluate(key, whole) for key in keys]
        index = KeyIndex.over([from_arrow(array) for array in arrays], null_safe, whole.num_rows, costs)
        return cls(whole, whole.num_rows, index, any(array.null_count for array in arrays))

    @property
    def nbytes(self) -> int:
        return int(self.columns.nbytes) + self.index.nbytes

    def key_set(self, key: Expr, costs: KeySetCosts) -> KeySet:
        """The values of a key, for the scan of the other side."""
        return key_set(evaluate(key, self.columns), costs)

    def narrowed(self, names: Sequence[str]) -> BuildSide:
        """With fewer columns: those that were only compared are in the index."""
        return BuildSide(self.columns.select(list(names)), self.rows, self.index, self.has_null_key)


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """All rows in one batch. Declines where they do not fit one: then the join belongs to Spark."""
    rows = sum(batch.num_rows for batch in batches)
    if rows > _MAX_ROWS:
        raise Declined.because(Code.TOO_LARGE, f"{rows} rows on one side of a join", "Join")
    if not schema.names:
        return pa.record_batch([pa.nulls(rows)], names=["rows"]).select([])
    try:
        table = pa.Table.from_batches(batches, schema).combine_chunks()
    except pa.ArrowInvalid as problem:  # more than 2 GiB of strings in a column
        raise Declined.because(
            Code.TOO_LARGE, f"one side of a join does not fit one batch: {problem}", "Join"
        ) from None
    found = table.to_batches()
    if len(found) > 1:
        raise Declined.because(Code.TOO_LARGE, "strings of one side of a join exceed one array", "Join")
    return found[0] if found else pa.RecordBatch.from_pylist([], schema)
