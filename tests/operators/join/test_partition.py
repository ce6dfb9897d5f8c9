"""Two sides exchanged by the hash of their keys: every kind of join, cut into any number of partitions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.expr.calls import JoinKind
from sundog.expr.nodes import Column, Compare, CompareOp
from sundog.operators.context import TaskContext
from sundog.operators.join.partition import JoinPartition, PartitionedJoin
from tests.operators.join.reference import reference_join, sorted_rows
from tests.operators.join.test_hash_join import LONG, sides, spec_of

KINDS = [kind for kind in JoinKind if kind is not JoinKind.NULL_AWARE_ANTI]  # a NULL anywhere decides for all rows


def exchanged(batch: pa.RecordBatch, keys: tuple[Any, ...], partitions: int) -> list[list[pa.RecordBatch]]:
    found: list[list[pa.RecordBatch]] = [[] for _ in range(partitions)]
    for half in (batch.slice(0, batch.num_rows // 2), batch.slice(batch.num_rows // 2)):
        for target, piece in JoinPartition(batch.schema, keys, partitions).split(iter([half]), TaskContext()):
            found[target].append(piece)
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
@given(drawn=sides(), has_condition=st.booleans(), partitions=st.integers(1, 5))
@settings(max_examples=80)
def test_partitions_together_are_the_join(kind: JoinKind, drawn: Any, has_condition: bool, partitions: int) -> None:
    left, right, _, null_safe = drawn
    condition = Compare(CompareOp.LT, Column("lv", LONG), Column("rv", LONG)) if has_condition else None
    join = spec_of(left, right, kind, null_safe, condition)
    operator = PartitionedJoin(join, right.schema)
    lefts = exchanged(left, join.probe_keys, partitions)
    rights = exchanged(right, join.build_keys, partitions)
    found = [
        batch
        for probe, build in zip(lefts, rights, strict=True)
        for batch in operator.run(iter([*build, *probe]), TaskContext())
    ]
    keys = [[f"{side}k{at}" for at in range(len(null_safe))] for side in "lr"]
    assert sorted_rows(found, join.output.names) == reference_join(left, right, kind, *keys, null_safe, condition)
