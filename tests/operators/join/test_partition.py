"""Two sides exchanged by the hash of their keys: every kind of join, cut into any number of partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.arrow import from_arrow
from sundog.columns.key_layout import KeyLayout
from sundog.expr.calls import JoinKind, NamedExpr
from sundog.expr.nodes import Column, Compare, CompareOp
from sundog.operators.context import TaskContext
from sundog.operators.join.hot_keys import NO_HOT_KEYS, HotKeys, SampleHotKeys
from sundog.operators.join.partition import JoinPartition, PartitionedJoin
from tests.operators.join.reference import reference_join, sorted_rows
from tests.operators.join.test_hash_join import LONG, sides, spec_of

KINDS = [kind for kind in JoinKind if kind is not JoinKind.NULL_AWARE_ANTI]  # a NULL anywhere decides for all rows


def exchanged(
    batch: pa.RecordBatch, part: JoinPartition, context: TaskContext | None = None
) -> list[list[pa.RecordBatch]]:
    found: list[list[pa.RecordBatch]] = [[] for _ in range(part.partitions)]
    for half in (batch.slice(0, batch.num_rows // 2), batch.slice(batch.num_rows // 2)):
        for target, piece in part.split(iter([half]), context or TaskContext()):
            found[target].append(piece)
    return found


def hashes_of(batch: pa.RecordBatch, keys: tuple[Column, ...]) -> list[int]:
    vectors = [from_arrow(batch.column(key.name)) for key in keys]
    hashes = KeyLayout.of([vector.dtype for vector in vectors]).hashes(vectors, batch.num_rows)
    return [int(each) for each in hashes]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
@given(drawn=sides(), has_condition=st.booleans(), partitions=st.integers(1, 5), choice=st.data())
@settings(max_examples=80)
def test_partitions_together_are_the_join(
    kind: JoinKind, drawn: Any, has_condition: bool, partitions: int, choice: Any
) -> None:
    """Whichever keys are taken for hot."""
    left, right, _, null_safe = drawn
    condition = Compare(CompareOp.LT, Column("lv", LONG), Column("rv", LONG)) if has_condition else None
    join = spec_of(left, right, kind, null_safe, condition)
    operator = PartitionedJoin(join, right.schema)
    hot = NO_HOT_KEYS
    if kind is not JoinKind.FULL:
        known = sorted({*hashes_of(left, join.probe_keys), *hashes_of(right, join.build_keys), 0, 2**64 - 1})
        chosen = sorted(choice.draw(st.sets(st.sampled_from(known))))
        ways = choice.draw(st.lists(st.integers(1, partitions), min_size=len(chosen), max_size=len(chosen)))
        hot = HotKeys(tuple(chosen), tuple(ways))
    part = JoinPartition(left.schema, join.probe_keys, partitions, tuple(null_safe), hot)
    lefts = exchanged(left, part)
    rights = exchanged(right, replace(part, input_schema=right.schema, keys=join.build_keys, is_build=True))
    found = [
        batch
        for probe, build in zip(lefts, rights, strict=True)
        for batch in operator.run(iter([*build, *probe]), TaskContext())
    ]
    keys = [[f"{side}k{at}" for at in range(len(null_safe))] for side in "lr"]
    assert sorted_rows(found, join.output.names) == reference_join(left, right, kind, *keys, null_safe, condition)


KEY = Column("k", LONG)
ROWS, PARTITIONS = 8000, 8


def skewed(null_share: float = 0.0) -> pa.RecordBatch:
    """Half of all rows have the key 17; the others, as good as each one of its own."""
    random = np.random.default_rng(11)
    keys = np.where(random.random(ROWS) < 0.5, 17, random.integers(100, 10**9, ROWS))
    nulls = random.random(ROWS) < null_share
    return pa.record_batch({"k": pa.array(keys, mask=nulls), "v": pa.array(np.arange(ROWS))})


def sampled(batches: list[pa.RecordBatch], batch_rows: int = 1 << 16, max_keys: int = 256) -> dict[int, float]:
    operator = SampleHotKeys((NamedExpr("key#0", KEY),), (False,), 0.1, batch_rows, min_rows=16, max_keys=max_keys)
    [found] = operator.run(iter(batches), TaskContext())
    assert found.schema == operator.schema
    return {row["key"] % (1 << 64): row["share"] for row in found.to_pylist()}


@pytest.mark.parametrize("batch_rows", [1 << 16, 500])
def test_a_sample_finds_the_keys_of_many_rows(batch_rows: int) -> None:
    batch = skewed()
    found = sampled([batch.slice(0, 3000), batch.slice(3000)], batch_rows=batch_rows)
    [hot] = set(hashes_of(pa.record_batch({"k": pa.array([17], LONG)}), (KEY,)))
    assert found == {hot: pytest.approx(0.5, abs=0.05)}


def test_a_sample_of_few_rows_or_none_shows_nothing() -> None:
    assert sampled([]) == {}
    assert sampled([skewed().slice(0, 5)]) == {}


def test_of_too_many_hot_keys_those_of_most_rows_are_named() -> None:
    batch = pa.record_batch({"k": pa.array([1] * 300 + [2] * 500 + [3] * 200, LONG)})
    assert sorted(sampled([batch]).values()) == [0.2, 0.3, 0.5]
    assert sorted(sampled([batch], max_keys=2).values()) == [0.3, 0.5]


def test_null_is_no_hot_key_unless_it_is_compared() -> None:
    batch = pa.record_batch({"k": pa.array([None] * 50, LONG)})
    assert sampled([batch]) == {}
    operator = SampleHotKeys((NamedExpr("key#0", KEY),), (True,), 0.1, 1 << 16, min_rows=16, max_keys=256)
    [found] = operator.run(iter([batch]), TaskContext())
    assert found.num_rows == 1


def largest_share(part: JoinPartition, batch: pa.RecordBatch, tasks: int = 1) -> float:
    sizes = np.zeros(part.partitions)
    for task in range(tasks):
        for target, piece in part.split(iter([batch]), TaskContext(task)):
            sizes[target] += piece.num_rows
    assert sizes.sum() == tasks * batch.num_rows
    return float(sizes.max() / sizes.sum())


def test_the_rows_of_a_hot_key_are_spread() -> None:
    batch = skewed()
    part = JoinPartition(batch.schema, (KEY,), PARTITIONS, (False,))
    hot = HotKeys.of(sampled([batch]).items(), PARTITIONS, 1.0)
    assert hot.fanouts == (4,) or hot.fanouts == (5,)
    assert largest_share(part, batch) > 0.5
    assert largest_share(replace(part, hot=hot), batch) < 0.25  # 0.125 of the hot key, 0.0625 of others
    only_keys = replace(part, hot=hot, input_schema=batch.select(["k"]).schema)
    assert largest_share(only_keys, batch.select(["k"])) > 0.5  # all rows of a task are equal
    assert largest_share(only_keys, batch.select(["k"]), tasks=8) < 0.25
    assert part.describe() == "HashExchange: keys=[k]"
    assert replace(part, hot=hot).describe().startswith("HashExchange: keys=[k], 1 hot key spread over up to ")
    assert "1 hot key replicated to up to" in replace(part, hot=hot, is_build=True).describe()


def test_rows_without_a_key_are_spread() -> None:
    batch = skewed(null_share=0.9)
    part = JoinPartition(batch.schema, (KEY,), PARTITIONS, (False,))
    context = TaskContext()
    sizes = [sum(piece.num_rows for piece in pieces) for pieces in exchanged(batch, part, context)]
    assert max(sizes) < 0.25 * ROWS
    assert context.metrics.get("join_rows_spread") == batch.column("k").null_count
    assert largest_share(replace(part, null_safe=(True,)), batch) > 0.9  # here NULL is a key


def test_a_repeated_task_sends_each_row_where_it_went_before() -> None:
    """Also if its rows come in another order, in other batches."""
    batch = skewed(null_share=0.2)
    hot = HotKeys.of(sampled([batch]).items(), PARTITIONS, 1.0)
    part = JoinPartition(batch.schema, (KEY,), PARTITIONS, (False,), hot)
    again = batch.take(pa.array(np.random.default_rng(2).permutation(ROWS)))
    sent = [
        [sorted(value for piece in pieces for value in piece.column("v").to_pylist()) for pieces in found]
        for found in (exchanged(batch, part), exchanged(again, part))
    ]
    assert sent[0] == sent[1]


def test_copies_of_build_rows_are_counted() -> None:
    probe = skewed()
    hot = HotKeys.of(sampled([probe]).items(), PARTITIONS, 1.0)
    build = pa.record_batch({"b": pa.array([17, 18, 17], LONG)})
    part = JoinPartition(build.schema, (Column("b", LONG),), PARTITIONS, (False,), hot, is_build=True)
    context = TaskContext()
    found = exchanged(build, part, context)
    with_17 = [pieces for pieces in found if any(17 in piece.column("b").to_pylist() for piece in pieces)]
    assert len(with_17) == hot.fanouts[0]
    assert context.metrics.get("join_rows_replicated") == 2 * (hot.fanouts[0] - 1)
