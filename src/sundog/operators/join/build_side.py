"""The build side of a hash join: its rows in one batch, and an index of them by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sundog.columns.arrow import from_arrow
from sundog.columns.key_sets import key_set
from sundog.expr.dynamic_filters.key_set import KeySet
from sundog.expr.evaluate import evaluate
from sundog.expr.nodes import Expr
from sundog.operators.costs import JoinCosts
from sundog.operators.join.key_index import KeyIndex
from sundog.support import Code, Declined

_MAX_ROWS = (1 << 31) - 1  # row numbers are int32


@dataclass(frozen=True, eq=False)
class BuildSide:
    """All rows of one side. Read-only: threads share it. `columns` are those that an operator above the join reads.

    `has_null_key`: some row has a NULL in a key, which matters to NOT IN only. `key_sets`: by the number of the key,
    the values of keys that filter the scan of the other side.
    """

    columns: pa.RecordBatch
    rows: int
    index: KeyIndex
    has_null_key: bool
    key_sets: Mapping[int, KeySet] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        batches: Sequence[pa.RecordBatch],
        schema: pa.Schema,
        keys: Sequence[Expr],
        null_safe: tuple[bool, ...],
        costs: JoinCosts,
        lists_rows: bool = True,
        sets_of: Sequence[int] = (),
    ) -> BuildSide:
        """The build side of these batches. `schema` is that of the batches, for the case that there are none.

        `lists_rows`: the join needs the rows of a key, not only whether there is one. `sets_of`: numbers of keys.
        """
        whole = one_batch(batches, schema)
        arrays = [evaluate(key, whole) for key in keys]
        vectors = [from_arrow(array) for array in arrays]
        index = KeyIndex.over(vectors, null_safe, whole.num_rows, costs, lists_rows)
        sets = {number: key_set(arrays[number], costs) for number in sets_of}
        return cls(whole, whole.num_rows, index, any(array.null_count for array in arrays), sets)

    @property
    def nbytes(self) -> int:
        return int(self.columns.nbytes) + self.index.nbytes

    def narrowed(self, names: Sequence[str]) -> BuildSide:
        """The same build side for the probe: columns that are only compared are in the index, key sets in the scans."""
        return BuildSide(self.columns.select(list(names)), self.rows, self.index, self.has_null_key)


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """All rows in one batch. Declines if they do not fit one: then Spark runs the join."""
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
