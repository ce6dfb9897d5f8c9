"""A minimal runtime for windows: inputs, exchange and ranges, one after the other, as `WindowSteps` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sundog.metrics import Metrics, OperatorCounts
from sundog.operators.base import Operator, Partitioner
from sundog.operators.context import TaskContext
from sundog.operators.window.ranges.carry import SUMMARY_SCHEMA, read_summaries
from sundog.operators.window.ranges.cuts import KeySample
from sundog.operators.window.ranges.halo import RangeRepartition, check_row_accounting
from sundog.operators.window.segment_ends import EndCarries, carries_of_ends
from sundog.operators.window.steps import WindowSteps

Partitions = list[list[pa.RecordBatch]]


@dataclass
class Drive:
    """The result of a window in ranges, and its metrics."""

    table: pa.Table
    metrics: Metrics
    ranges: int
    move: RangeRepartition
    received: Partitions = field(default_factory=list)


def counting(metrics: Metrics) -> OperatorCounts:
    """Counters that count into these metrics."""
    counts = OperatorCounts()
    counts.metrics = metrics
    return counts


def run(parts: Sequence[Iterable[pa.RecordBatch]], metrics: Metrics, *operators: Operator) -> Partitions:
    results = []
    for number, batches in enumerate(parts):
        context = TaskContext(number, counting(metrics))
        stream: Iterator[pa.RecordBatch] = iter(list(batches))
        for operator in operators:
            stream = operator.run(stream, context)
        results.append(list(stream))
    return results


def exchange(parts: Partitions, move: Partitioner, metrics: Metrics, shuffle: np.random.Generator) -> Partitions:
    """Batches reach a range in any order, unless it asks for that of the inputs."""
    received: Partitions = [[] for _ in range(move.partitions)]
    for number, batches in enumerate(parts):
        for target, batch in move.split(iter(batches), TaskContext(number, counting(metrics))):
            assert batch.schema.equals(move.schema)
            received[target].append(batch)
    for batches in received if not move.ordered else []:
        shuffle.shuffle(batches)
    return received


def exchange_and_summaries(
    parts: Partitions, move: RangeRepartition, metrics: Metrics, shuffle: np.random.Generator
) -> tuple[Partitions, list[pa.RecordBatch]]:
    """The same, and what each task told of its rows, in any order."""
    received: Partitions = [[] for _ in range(move.partitions + 1)]
    for number, batches in enumerate(parts):
        sent = list(move.split(iter(batches), TaskContext(number, counting(metrics))))
        assert [target for target, _ in sent].count(move.partitions) == 1, "one summary of each task"
        for target, batch in sent:
            assert batch.schema.equals(SUMMARY_SCHEMA if target == move.partitions else move.schema)
            received[target].append(batch)
    *rows, told = received
    for batches in [told] if move.ordered else received:
        shuffle.shuffle(batches)
    return rows, told


def cut_up(table: pa.Table, inputs: int, random: np.random.Generator) -> Partitions:
    """The table's rows as several inputs of several batches, empty ones among them; in the table's order."""
    cuts = np.sort(random.integers(0, table.num_rows + 1, inputs - 1))
    parts = []
    for first, last in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        part = table.slice(int(first), int(last - first)).combine_chunks()
        parts.append(part.to_batches(max_chunksize=int(random.integers(1, max(part.num_rows, 2)))))
    return parts


def drive(
    steps: WindowSteps,
    parts: Partitions,
    ranges: int,
    seed: int = 0,
    sample: KeySample | None = None,
    on_the_way: bool = False,
) -> Drive:
    """`on_the_way`: tasks that send rows summarize them."""
    shuffle = np.random.default_rng(seed)
    metrics = Metrics()
    if sample is None:
        sampled = run(parts, Metrics(), steps.sample())
        sample = KeySample.from_batches([batch for part in sampled for batch in part], steps.order_by)
    move = steps.repartition(sample, ranges)
    carries = []
    two_passes = steps.need.two_passes and move.partitions > 1
    if two_passes and on_the_way:
        assert steps.part_need is not None
        move = replace(move, parts=steps.part_need)
        received, told = exchange_and_summaries(parts, move, metrics, shuffle)
    else:
        received = exchange(parts, move, metrics, shuffle)
        passed = run(received, Metrics(), steps.sort(move), steps.summarize(move)) if two_passes else []
        told = [batch for part in passed for batch in part]
    if two_passes:
        found = steps.carries(told, move)
        if found is None:
            return drive(steps, parts, 1, seed, sample)
        carries = found
        for batches in received if not move.ordered else []:
            shuffle.shuffle(batches)  # a second pass need not see the blocks in the order of the first
    results = run(received, metrics, steps.sort(move), steps.window(move, carries), steps.drop())
    check_row_accounting(metrics)
    batches = [batch for part in results for batch in part]
    return Drive(pa.Table.from_batches(batches, steps.drop().schema), metrics, move.partitions, move, received)


def drive_by_key(steps: WindowSteps, parts: Partitions, partitions: int, seed: int = 0) -> pa.Table:
    """With PARTITION BY."""
    metrics = Metrics()
    received = exchange(parts, steps.by_key(partitions), metrics, np.random.default_rng(seed))
    results = run(received, metrics, steps.sort(None), steps.window(None), steps.drop())
    check_row_accounting(metrics)
    return pa.Table.from_batches([batch for part in results for batch in part], steps.drop().schema)


def drive_inside_keys(steps: WindowSteps, parts: Partitions, ranges: int, seed: int = 0) -> Drive | None:
    """With PARTITION BY, in ranges that cut through keys; None where ranges would not add up."""
    shuffle, metrics, inside = np.random.default_rng(seed), Metrics(), steps.inside_keys
    sampled = run(parts, Metrics(), inside.sample())
    sample = inside.read_sample([batch for part in sampled for batch in part])
    move = inside.repartition(inside.cut(sample, ranges))
    received = exchange(parts, move, metrics, shuffle)
    carries: list[EndCarries] = []
    if steps.need.two_passes and move.partitions > 1:
        summaries = run(received, Metrics(), inside.sort(move), inside.summarize(move))
        told = carries_of_ends(read_summaries([batch for part in summaries for batch in part]), steps.calls)
        if told is None:
            return None
        carries = told
        for batches in received if not move.ordered else []:
            shuffle.shuffle(batches)
    results = run(received, metrics, inside.sort(move), inside.window(move, carries), steps.drop())
    check_row_accounting(metrics)
    batches = [batch for part in results for batch in part]
    return Drive(pa.Table.from_batches(batches, steps.drop().schema), metrics, move.partitions, move, received)
