"""Partitioned joins whose build side exceeds a task's memory: the answer is the same, and no file is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sundog.expr.calls import JoinKind
from sundog.expr.nodes import Column, Compare, CompareOp
from sundog.operators.context import MemoryBudget, ScratchFolder, TaskContext
from sundog.operators.join.hash_join import HashJoin, JoinSpec
from sundog.operators.join.partition import PartitionedJoin
from tests.operators.join.reference import reference_join, sorted_rows
from tests.operators.join.test_hash_join import LONG, sides, spec_of

KINDS = [kind for kind in JoinKind if kind is not JoinKind.NULL_AWARE_ANTI]
CONDITION = Compare(CompareOp.LT, Column("lv", LONG), Column("rv", LONG))


def context_of(limit: int, root: Path) -> TaskContext:
    return TaskContext(memory=MemoryBudget(limit), scratch_folder=ScratchFolder(str(root)))


def cut(batch: pa.RecordBatch, rows: int) -> list[pa.RecordBatch]:
    return [batch.slice(first, rows) for first in range(0, batch.num_rows, rows)]


def run(join: JoinSpec, left: list[pa.RecordBatch], right: list[pa.RecordBatch], context: TaskContext) -> Any:
    schema = right[0].schema if right else pa.schema([])
    found = list(PartitionedJoin(join, schema).run(iter([*right, *left]), context))
    assert context.memory.used == 0
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
@given(
    drawn=sides(),
    has_condition=st.booleans(),
    limit=st.sampled_from([0, 200, 600, 2000]),
    batch_rows=st.integers(1, 5),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_joins_in_little_memory_as_pairs_in_plain_python(
    kind: JoinKind, drawn: Any, has_condition: bool, limit: int, batch_rows: int, tmp_path: Path
) -> None:
    left, right, _, null_safe = drawn
    condition = CONDITION if has_condition else None
    join = spec_of(left, right, kind, null_safe, condition)
    context = context_of(limit, tmp_path)
    # Without a batch of the build side its schema is needed all the same.
    found = run(join, cut(left, batch_rows), cut(right, batch_rows) or [right], context)
    keys = [[f"{side}k{at}" for at in range(len(null_safe))] for side in "lr"]
    assert sorted_rows(found, join.output.names) == reference_join(left, right, kind, *keys, null_safe, condition)
    assert (context.metrics.get("spill_count") > 0) or limit > 0 or not right.num_rows
    context.close()
    assert not list(tmp_path.iterdir())


def table(keys: Any, side: str, text: bool) -> pa.RecordBatch:
    """Its keys as numbers or as strings that are not stored inline."""
    column = pa.array([f"a key with some length {key}" for key in keys]) if text else pa.array(keys, LONG)
    return pa.record_batch({f"{side}k0": column, f"{side}v": pa.array(np.arange(len(keys)))})


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "strings"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
def test_a_hot_key_among_many_is_joined_in_pieces(kind: JoinKind, text: bool, tmp_path: Path) -> None:
    """A third of the build side is one key, of which every probe row has another opinion: the condition decides."""
    random = np.random.default_rng(3)
    build_keys = np.where(random.random(900) < 0.3, 7, random.integers(0, 600, 900))
    probe_keys = np.where(random.random(90) < 0.1, 7, random.integers(0, 1200, 90))
    left, right = table(probe_keys, "l", text), table(build_keys, "r", text)
    condition = Compare(CompareOp.GT, Column("lv", LONG), Column("rv", LONG))  # partners of rv 0 to 90 only
    join = spec_of(left, right, kind, [False], condition)
    context = context_of(9000, tmp_path)
    found = run(join, cut(left, 20), cut(right, 30), context)
    assert sorted_rows(found, join.output.names) == reference_join(
        left, right, kind, ["lk0"], ["rk0"], [False], condition
    )
    assert context.metrics.get("spill_count") > 2 * 16  # two levels of two sides at least
    assert context.metrics.get("spilled_bytes") > right.nbytes
    assert context.metrics.get("join_build_rows") == right.num_rows
    assert context.metrics.get("join_probe_rows") == left.num_rows
    context.close()
    assert not list(tmp_path.iterdir())


def test_what_fits_is_not_spilled(tmp_path: Path) -> None:
    left, right = table(range(1000), "l", False), table(range(500), "r", False)
    context = context_of(1 << 20, tmp_path)
    found = run(spec_of(left, right, JoinKind.INNER, [False], None), cut(left, 100), cut(right, 100), context)
    assert sum(batch.num_rows for batch in found) == 500
    assert context.metrics.get("spill_count") == 0
    assert 0 < context.memory.peak <= 1 << 20
    assert not list(tmp_path.iterdir())


def test_memory_stays_near_its_budget(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    left, right = (table(random.permutation(200_000), side, False) for side in "lr")
    context = context_of(1 << 20, tmp_path)
    found = run(spec_of(left, right, JoinKind.INNER, [False], None), cut(left, 4096), cut(right, 4096), context)
    joined = pa.Table.from_batches(found)
    assert joined.num_rows == 200_000
    assert joined.column("lk0").equals(joined.column("rk0"))
    assert context.memory.peak <= 2 << 20  # what a batch is more than the rest of the budget


def test_strings_as_dictionaries_are_spilled_as_strings(tmp_path: Path) -> None:
    """Each batch has a dictionary of its own."""
    left, right = table([1, 2, 3] * 20, "l", True), table([3, 4, 5, 1] * 20, "r", True)

    def coded(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([batch.column(0).dictionary_encode(), batch.column(1)], batch.schema.names)

    join = spec_of(left, right, JoinKind.LEFT, [False], None)
    for limit in (500, 1 << 20):
        context = context_of(limit, tmp_path)
        batches = [*(coded(batch) for batch in cut(right, 7)), *(coded(batch) for batch in cut(left, 7))]
        found = list(PartitionedJoin(join, right.schema).run(iter(batches), context))
        assert sorted_rows(found, join.output.names) == reference_join(
            left, right, JoinKind.LEFT, ["lk0"], ["rk0"], [False]
        )
        context.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("at", ["build", "probe", "above"])
def test_no_file_is_left_after_an_error(at: str, tmp_path: Path) -> None:
    left, right = table(range(1000), "l", False), table(range(1000), "r", False)

    def failing(batches: list[pa.RecordBatch], fails: bool) -> Iterator[pa.RecordBatch]:
        yield from batches
        if fails:
            raise OSError("no space left on device")

    def input_rows() -> Iterator[pa.RecordBatch]:
        yield from failing(cut(right, 50), at == "build")
        yield from failing(cut(left, 50), at == "probe")

    context = context_of(4000, tmp_path)
    operator = PartitionedJoin(spec_of(left, right, JoinKind.INNER, [False], None), right.schema)
    rows = operator.run(input_rows(), context)
    if at == "above":
        next(rows)
        assert list(tmp_path.iterdir())
        rows.close()  # type: ignore[attr-defined]
    else:
        with pytest.raises(OSError, match="no space"):
            list(rows)
        assert list(tmp_path.iterdir())
    assert context.memory.used == 0
    context.close()
    assert not list(tmp_path.iterdir())


def test_a_broadcast_build_side_is_counted_by_the_tasks_that_share_it() -> None:
    left, right = table(range(100), "l", False), table(range(5000), "r", False)
    join = spec_of(left, right, JoinKind.INNER, [False], None)
    build = join.build_side([right], right.schema)
    for sharers in (1, 4):
        context = TaskContext(memory=MemoryBudget(1 << 30, sharers))
        rows = HashJoin(join, build).run(iter([left]), context)
        next(rows)
        assert context.memory.used == -(-build.nbytes // sharers)
        assert list(rows) == []
        assert context.memory.used == 0
        assert context.memory.peak == -(-build.nbytes // sharers)
