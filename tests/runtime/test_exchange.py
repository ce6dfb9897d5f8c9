"""Blocks: numbers come out as they went in, however narrow they travelled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sundog.operators.context import MemoryBudget, ScratchFolder, TaskContext
from sundog.runtime.exchange import STAGE_SOURCES, BlockOrder, coalesce, decode_block, encode_block, in_block_order
from tests.oracle.batches import record_batches

TYPES = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float64(),
    pa.float32(),
    pa.string(),
    pa.date32(),
    pa.bool_(),
]


def bits(array: pa.Array) -> list[object]:
    """NaN and -0.0 told apart by their bits."""
    if pa.types.is_floating(array.type):
        return [None if value is None else np.float64(value).tobytes() for value in array.to_pylist()]
    return array.to_pylist()


@given(record_batches(pa.schema([(f"c{number}", dtype) for number, dtype in enumerate(TYPES)])), st.integers(1, 3))
def test_a_block_holds_what_was_put_in(batch: pa.RecordBatch, copies: int) -> None:
    batches = [batch] * copies
    decoded = pa.Table.from_batches(decode_block(encode_block(batches)), batch.schema)
    expected = pa.Table.from_batches(batches)
    assert decoded.schema == expected.schema
    for ours, theirs in zip(decoded.columns, expected.columns, strict=True):
        assert bits(ours.combine_chunks()) == bits(theirs.combine_chunks())


@pytest.mark.parametrize(
    ("values", "dtype", "travels_as"),
    [
        ([1, None, 127], pa.int64(), pa.int8()),
        ([1, 128], pa.int64(), pa.int16()),
        ([-(1 << 15), 0], pa.int32(), pa.int16()),
        ([1 << 31], pa.int64(), pa.int64()),
        ([None, None], pa.int64(), pa.int8()),
        ([1920.0, 0.0, -7.0], pa.float64(), pa.int16()),
        ([1.0, -0.0], pa.float64(), pa.float64()),
        ([1.0, math.nan], pa.float64(), pa.float64()),
        ([1.0, math.inf], pa.float64(), pa.float64()),
        ([1.5, 2.0], pa.float64(), pa.float64()),
        ([1.0, None], pa.float64(), pa.float64()),
        ([1e300, 1.0], pa.float64(), pa.float64()),
        ([1.0] * 100 + [0.5], pa.float64(), pa.float64()),
    ],
)
def test_numbers_travel_as_narrow_as_they_are(
    values: list[object], dtype: pa.DataType, travels_as: pa.DataType
) -> None:
    block = encode_block([pa.record_batch([pa.array(values, dtype)], names=["n"])])
    assert pa.ipc.open_stream(block).schema.field("n").type == travels_as
    (decoded,) = decode_block(block)
    assert decoded.schema.field("n").type == dtype
    assert bits(decoded.column(0)) == bits(pa.array(values, dtype))


def test_small_batches_of_one_target_make_one_block() -> None:
    batch = pa.record_batch([pa.array(range(100))], names=["n"])
    parts = [(number % 2, batch) for number in range(8)]
    found = sizes(coalesce(iter(parts), 2 * batch.nbytes, MemoryBudget()))
    assert found == [(0, 200), (1, 200), (0, 200), (1, 200)]


def test_blocks_are_smaller_where_all_targets_together_would_exceed_a_quarter_of_the_memory() -> None:
    batch = pa.record_batch([pa.array(range(100))], names=["n"])
    parts = [(number % 4, batch) for number in range(8)]
    memory = MemoryBudget(4 * 3 * batch.nbytes)
    found = sizes(coalesce(iter(parts), 100 * batch.nbytes, memory))
    assert found == [(0, 100), (1, 100), (2, 100), (3, 100)] * 2


def sizes(blocks: Iterator[tuple[int, list[pa.RecordBatch]]]) -> list[tuple[int, int]]:
    return [(target, sum(each.num_rows for each in held)) for target, held in blocks]


@given(
    blocks=st.lists(
        st.tuples(st.sampled_from([0, 1, STAGE_SOURCES, STAGE_SOURCES + 3]), st.binary(min_size=1, max_size=9))
    ),
    limit=st.sampled_from([0, 40, 1 << 20]),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_blocks_of_the_probe_side_wait_for_those_of_the_build_side(
    blocks: list[tuple[int, bytes]], limit: int, tmp_path: Path
) -> None:
    """In memory, in a file, or the first here and the others there."""
    context = TaskContext(memory=MemoryBudget(limit), scratch_folder=ScratchFolder(str(tmp_path)))
    sent = [(source, pa.py_buffer(data)) for source, data in blocks]
    found = [block.to_pybytes() for block in in_block_order(sent, BlockOrder.BUILD_FIRST, context)]
    build, probe = (
        [data for source, data in blocks if (source < STAGE_SOURCES) is is_build] for is_build in (True, False)
    )
    assert found == build + probe
    waiting = sum(map(len, probe))
    assert context.metrics.get("spilled_bytes") + context.memory.peak >= waiting
    assert (context.metrics.get("spill_count") > 0) == (context.memory.peak < waiting)
    assert context.memory.peak <= limit // 4
    assert context.memory.used == 0
    context.close()
    assert not list(tmp_path.iterdir())


def test_blocks_in_the_order_of_their_tasks() -> None:
    sent = [(source, pa.py_buffer(bytes([source]))) for source in (3, 1, 2)]
    for order, expected in ((BlockOrder.ANY, [3, 1, 2]), (BlockOrder.BY_SOURCE, [1, 2, 3])):
        assert [block.to_pybytes()[0] for block in in_block_order(sent, order, TaskContext())] == expected
