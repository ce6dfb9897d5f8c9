"""Blocks of an exchange: numbers are decoded unchanged, whatever width they were narrowed to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sundog.columns.deltas import steps_of, values_of_steps
from sundog.operators.context import MemoryBudget, ScratchFolder, TaskContext
from sundog.plan.costs import EXECUTORS, Costs
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
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.decimal128(38, 4),
    pa.decimal128(9, 2),
    pa.duration("us"),
]
SECOND = 1_000_000


def bits(array: pa.Array) -> list[object]:
    """NaN and -0.0 told apart by their bits."""
    if pa.types.is_floating(array.type):
        return [None if value is None else np.float64(value).tobytes() for value in array.to_pylist()]
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64()).to_pylist()
    return array.to_pylist()


@given(record_batches(pa.schema([(f"c{number}", dtype) for number, dtype in enumerate(TYPES)])), st.integers(1, 3))
def test_a_block_holds_what_was_put_in(batch: pa.RecordBatch, copies: int) -> None:
    batches = [batch] * copies
    decoded = pa.Table.from_batches(decode_block(encode_block(batches, EXECUTORS)), batch.schema)
    expected = pa.Table.from_batches(batches)
    assert decoded.schema == expected.schema
    for ours, theirs in zip(decoded.columns, expected.columns, strict=True):
        assert bits(ours.combine_chunks()) == bits(theirs.combine_chunks())


@pytest.mark.parametrize(
    ("values", "dtype", "travels_as"),
    [
        ([1, None, 127], pa.int64(), pa.int8()),
        ([1, 128], pa.int64(), pa.uint8()),
        ([-1, 128, 254], pa.int64(), pa.uint8()),
        ([0, 128, 256], pa.int64(), pa.int16()),
        ([-(1 << 15), 0], pa.int32(), pa.int16()),
        ([1 << 31], pa.int64(), pa.uint8()),
        ([1 << 31, 0], pa.int64(), pa.uint32()),
        ([1 << 32, 0], pa.int64(), pa.int64()),
        ([-(1 << 63), (1 << 63) - 1], pa.int64(), pa.int64()),
        ([-(1 << 63), None, 255 - (1 << 63)], pa.int64(), pa.uint8()),
        ([(1 << 63) - 1, (1 << 63) - 256], pa.int64(), pa.uint8()),
        ([70_000, 65_536], pa.int32(), pa.uint16()),
        ([0, 255 * SECOND], pa.timestamp("us"), pa.int32()),
        ([-7 * SECOND, 60_000 * SECOND, None], pa.timestamp("us"), pa.uint16()),
        ([1, 60_000 * SECOND], pa.timestamp("us"), pa.timestamp("us")),
        ([500_000, 60_000 * SECOND], pa.timestamp("us", "UTC"), pa.int32()),
        ([-(1 << 63), (1 << 63) - 1], pa.timestamp("us"), pa.timestamp("us")),
        ([20_000, 20_001], pa.date32(), pa.uint8()),
        ([1 << 40, None, (1 << 40) + 3], pa.duration("us"), pa.uint8()),
        ([Decimal("1.25"), None, Decimal("-0.01")], pa.decimal128(38, 2), pa.int8()),
        ([Decimal(1 << 62), Decimal((1 << 62) + 300)], pa.decimal128(20, 0), pa.uint16()),
        ([Decimal(1 << 62), Decimal(-(1 << 62))], pa.decimal128(20, 0), pa.int64()),
        ([Decimal(1 << 63)], pa.decimal128(20, 0), pa.decimal128(20, 0)),
        ([Decimal(-(1 << 63)), Decimal(-(1 << 63) + 9)], pa.decimal128(38, 0), pa.uint8()),
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
    block = encode_block([pa.record_batch([pa.array(values, dtype)], names=["n"])], EXECUTORS)
    assert pa.ipc.open_stream(block).schema.field("n").type == travels_as
    (decoded,) = decode_block(block)
    assert decoded.schema.field("n").type == dtype
    assert bits(decoded.column(0)) == bits(pa.array(values, dtype))


@pytest.mark.parametrize(
    ("values", "dtype", "travels_as"),
    [
        (range(1 << 36, (1 << 36) + 1000, 5), pa.int64(), pa.uint8()),
        ([*range(0, 1000, 3), 1257], pa.int64(), pa.uint8()),
        ([*range(0, 1000, 3), 1258], pa.int64(), pa.int16()),  # a step of 259 beside steps of 3
        (range(1 << 40, 0, -(1 << 33)), pa.int64(), pa.uint8()),
        (range(63), pa.int64(), pa.int8()),
        (range(0, 640, 10), pa.int64(), pa.uint8()),
        (range(0, 630, 10), pa.int64(), pa.int16()),  # too few to be worth it
        ([*range(0, 10_000, 100), None], pa.int64(), pa.int16()),
        ([(1 << 63) - 1, -(1 << 63)] * 50, pa.int64(), pa.uint8()),  # a step of 1 and one of -1
        ([(1 << 63) - 1 - 200 * n for n in range(100)], pa.int64(), pa.uint8()),
        ([-(1 << 63) + (1 << 58) * (n % 32) for n in range(32)] * 3, pa.int64(), pa.int64()),
        (range(70_000, 80_000, 90), pa.int32(), pa.uint8()),
        ([n * 3600 * SECOND for n in range(100)], pa.timestamp("us"), pa.uint8()),
        (range(20_000, 21_000, 2), pa.date32(), pa.uint8()),
        ([float(n * 1000) for n in range(100)], pa.float64(), pa.uint8()),
        ([Decimal(n * 1000) for n in range(100)], pa.decimal128(38, 0), pa.uint8()),
    ],
)
@pytest.mark.parametrize("cuts", [1, 7])
def test_values_that_grow_by_little_travel_as_steps(
    values: Sequence[object], dtype: pa.DataType, travels_as: pa.DataType, cuts: int
) -> None:
    array = pa.array(list(values), dtype)
    size = -(-len(array) // cuts)
    parts = [pa.record_batch([array.slice(start, size)], names=["n"]) for start in range(0, len(array), size)]
    block = encode_block(parts, EXECUTORS)
    assert pa.ipc.open_stream(block).schema.field("n").type == travels_as
    (decoded,) = decode_block(block)
    assert decoded.schema.field("n").type == dtype
    assert bits(decoded.column(0)) == bits(array)


@given(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-(1 << 64), 1 << 64),
    st.lists(st.integers(0, 300), min_size=64, max_size=90),
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
)
def test_steps_wrap_around_and_go_on_from_chunk_to_chunk(
    first: int, least: int, more: list[int], sizes: list[int]
) -> None:
    grown = first + np.cumsum(np.array([least + each for each in more], object))
    whole = pa.array([(int(value) + (1 << 63)) % (1 << 64) - (1 << 63) for value in grown], pa.int64())
    steps = steps_of([whole], 64)
    if steps is None:
        assert max(more[1:]) - min(more[1:]) > 255 or abs(least) > 1 << 62
        return
    starts = [0, *np.minimum(np.cumsum(sizes), len(whole)), len(whole)]
    chunks = [steps.column.slice(start, stop - start) for start, stop in pairwise(starts)]
    back = values_of_steps(chunks, steps.metadata)
    assert pa.concat_arrays(back).equals(whole)


def strings(rows: int, distinct: int, dtype: pa.DataType, null_every: int = 0) -> pa.Array:
    numbers = np.random.default_rng(rows).integers(0, distinct, rows).tolist()
    values = [f"value number {number}" for number in numbers]
    return pa.array([None if null_every and n % null_every == 0 else v for n, v in enumerate(values)]).cast(dtype)


@pytest.mark.parametrize("dtype", [pa.string(), pa.binary()])
@pytest.mark.parametrize(
    ("rows", "distinct", "width"),
    [
        (20_000, 1, 1),
        (20_000, 100, 1),
        (40_000, 3000, 2),
        (40_000, 10**9, None),  # nothing repeats
        (16_000, 10, None),  # few rows
    ],
)
def test_strings_that_repeat_travel_as_numbers(rows: int, distinct: int, width: int | None, dtype: pa.DataType) -> None:
    for null_every in (0, 7, 1):
        column = strings(rows, distinct, dtype, null_every)
        batches = pa.table({"s": column, "n": range(rows)}).to_batches(max_chunksize=rows // 3 + 1)
        block = encode_block(batches, EXECUTORS)
        found = pa.Table.from_batches(decode_block(block))
        assert found.schema == batches[0].schema
        assert found.column("s").combine_chunks().equals(column)
        if null_every == 1:
            continue
        if width is None:
            assert block.size > column.nbytes
        else:
            assert block.size < rows * (width + 2) + 30 * distinct, "and a byte for the number of the row"


def test_strings_whose_sample_repeats_and_whose_rest_does_not_travel_as_they_are() -> None:
    rows = 1024 * 32
    column = pa.array(["same" if n % 32 == 0 else f"{n:040d}" for n in range(rows)])
    block = encode_block([pa.record_batch({"s": column})], EXECUTORS)
    assert block.size > column.nbytes
    assert decode_block(block)[0].column(0).equals(column)


def test_ids_of_slices_hold_only_the_values_of_the_slice() -> None:
    column = strings(60_000, 50, pa.string())
    batch = pa.record_batch({"s": column})
    block = encode_block([batch.slice(30_001, 20_000)], EXECUTORS)
    assert block.size < 25_000
    assert decode_block(block)[0].column(0).equals(column.slice(30_001, 20_000))


def is_coded(column: pa.Array, costs: Costs) -> bool:
    """Whether the strings are sent as numbers of a dictionary; they must be the same afterwards."""
    block = encode_block([pa.record_batch({"s": column})], costs)
    assert decode_block(block)[0].column(0).equals(column)
    return pa.types.is_dictionary(pa.ipc.open_stream(block).schema.field("s").type)


@pytest.mark.parametrize(
    ("distinct", "name", "sends_numbers", "sends_strings"),
    [
        (100, "min_coded_rows", 20_000, 20_001),
        (500, "coded_sample_strings", 1024, 400),  # 440 of 1,053 strings are different, 280 of 400
        (100, "max_coded_sample_share", 0.11, 0.09),
        (100, "max_coded_bytes_share", 0.2, 0.05),
    ],
)
def test_costs_say_which_strings_travel_as_numbers(
    distinct: int, name: str, sends_numbers: float, sends_strings: float
) -> None:
    column = strings(20_000, distinct, pa.string())
    costs = replace(EXECUTORS, max_coded_sample_share=0.5)
    assert is_coded(column, replace(costs, **{name: sends_numbers}))
    assert not is_coded(column, replace(costs, **{name: sends_strings}))


@pytest.mark.parametrize("rows", [1, 5])
def test_a_sample_of_more_strings_than_there_are_has_them_all(rows: int) -> None:
    column = pa.array(["a string that repeats"] * rows, pa.string())
    assert is_coded(column, replace(EXECUTORS, min_coded_rows=1)) == (rows > 1)


@pytest.mark.parametrize(("sample", "travels_as"), [(63, pa.uint8()), (64, pa.int16())])
def test_a_column_of_fewer_values_than_the_sample_is_not_sent_as_steps(sample: int, travels_as: pa.DataType) -> None:
    column = pa.array(range(0, 630, 10), pa.int64())
    block = encode_block([pa.record_batch({"n": column})], replace(EXECUTORS, narrow_sample_values=sample))
    assert pa.ipc.open_stream(block).schema.field("n").type == travels_as
    assert decode_block(block)[0].column(0).equals(column)


@pytest.mark.parametrize("sample", [1, 3, 100, 1 << 40])
def test_a_sample_of_any_size_changes_no_value(sample: int) -> None:
    """Whole numbers, multiples and small steps first; the last value is none."""
    columns = {
        "double": pa.array([float(n * 1000) for n in range(99)] + [0.5]),
        "instant": pa.array([n * 3600 * SECOND for n in range(99)] + [1], pa.timestamp("us")),
        "long": pa.array([*range(0, 990, 10), 1 << 40]),
    }
    batch = pa.record_batch(columns)
    for rows in (100, 99):
        (decoded,) = decode_block(encode_block([batch.slice(0, rows)], replace(EXECUTORS, narrow_sample_values=sample)))
        assert decoded.equals(batch.slice(0, rows))


def test_small_batches_of_one_target_make_one_block() -> None:
    batch = pa.record_batch([pa.array(range(100))], names=["n"])
    parts = [(number % 2, batch) for number in range(8)]
    found = sizes(coalesce(iter(parts), 2 * batch.nbytes, 1 << 20, MemoryBudget()))
    assert found == [(0, 200), (1, 200), (0, 200), (1, 200)]


def test_blocks_are_smaller_where_all_targets_together_would_exceed_the_memory_for_them() -> None:
    batch = pa.record_batch([pa.array(range(100))], names=["n"])
    parts = [(number % 4, batch) for number in range(8)]
    memory = MemoryBudget()
    found = sizes(coalesce(iter(parts), 100 * batch.nbytes, waiting_bytes=3 * batch.nbytes, memory=memory))
    assert (memory.peak, memory.used) == (4 * batch.nbytes, 0)
    assert found == [(0, 100), (1, 100), (2, 100), (3, 100)] * 2


def test_a_row_that_waits_does_not_hold_the_batches_of_all_blocks_that_left() -> None:
    """Of each batch of 1 MB all rows but one fill blocks of their own."""
    start, peak, rows = pa.total_allocated_bytes(), 0, 0

    def parts() -> Iterator[tuple[int, pa.RecordBatch]]:
        for _ in range(40):
            batch = pa.record_batch([pc.add(pa.array(range(1 << 17)), 1)], names=["n"])
            yield 0, batch.slice(0, 1)
            yield 1, batch.slice(1)

    for _, held in coalesce(parts(), block_bytes=1 << 19, waiting_bytes=4 << 20, memory=MemoryBudget()):
        rows += sum(batch.num_rows for batch in held)
        del held
        peak = max(peak, pa.total_allocated_bytes() - start)
    assert rows == 40 << 17
    assert peak < 8 << 20


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
    found = [block.to_pybytes() for block in in_block_order(sent, BlockOrder.BUILD_FIRST, limit // 4, context)]
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


@pytest.mark.parametrize("limit", [0, 3, 1 << 20])
def test_blocks_in_the_order_of_their_tasks(limit: int, tmp_path: Path) -> None:
    """Those of one task as they came; in memory, in a file, or the first here and the others there."""
    names = [(3, b"3a"), (1, b"1a"), (2, b"2a"), (1, b"1b"), (3, b"3b")]
    sent = [(source, pa.py_buffer(name)) for source, name in names]
    for order, expected in (
        (BlockOrder.ANY, [name for _, name in names]),
        (BlockOrder.BY_SOURCE, [b"1a", b"1b", b"2a", b"3a", b"3b"]),
    ):
        context = TaskContext(memory=MemoryBudget(1 << 20), scratch_folder=ScratchFolder(str(tmp_path)))
        assert [block.to_pybytes() for block in in_block_order(sent, order, limit, context)] == expected
        assert context.memory.peak <= limit
        assert context.memory.used == 0
        spilled = order is BlockOrder.BY_SOURCE and limit < 10
        assert (context.metrics.get("spilled_bytes") > 0) == spilled
        context.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("counts", [[7], [7, 0, 5]])
def test_a_block_of_rows_without_columns_holds_their_number(counts: list[int]) -> None:
    batches = [pa.record_batch([pa.nulls(count)], names=["rows"]).select([]) for count in counts]
    assert sum(batch.num_rows for batch in decode_block(encode_block(batches, EXECUTORS))) == sum(counts)
