"""A runtime in a few lines: inputs, exchange, ranges, one after the other, as `WindowSteps` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sundog.metrics import Metrics
from sundog.operators.base import Operator, Partitioner
from sundog.operators.context import TaskContext
from sundog.operators.window.ranges.carry import carries_of, read_summaries
from sundog.operators.window.ranges.cuts import KeySample
from sundog.operators.window.ranges.halo import RangeRepartition, check_row_accounting
from sundog.operators.window.segment_ends import EndCarries, carries_of_ends
from sundog.operators.window.steps import WindowSteps

Partitions = list[list[pa.RecordBatch]]


@dataclass
class Drive:
    """The result of a window in ranges, and what was counted on the way."""

    table: pa.Table
    metrics: Metrics
    ranges: int
    move: RangeRepartition
    received: Partitions = field(default_factory=list)


def run(parts: Sequence[Iterable[pa.RecordBatch]], metrics: Metrics, *operators: Operator) -> Partitions:
    results = []
    for number, batches in enumerate(parts):
        context = TaskContext(number, metrics)
        stream: Iterator[pa.RecordBatch] = iter(list(batches))
        for operator in operators:
            stream = operator.run(stream, context)
        results.append(list(stream))
    return results


def exchange(parts: Partitions, move: Partitioner, metrics: Metrics, shuffle: np.random.Generator) -> Partitions:
    """Batches reach a range in any order, unless it asks for that of the inputs."""
    received: Partitions = [[] for _ in range(move.partitions)]
    for number, batches in enumerate(parts):
        for target, batch in move.split(iter(batches), TaskContext(number, metrics)):
            assert batch.schema.equals(move.schema)
            received[target].append(batch)
    for batches in received if not move.ordered else []:
        shuffle.shuffle(batches)
    return received


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
    ordered: bool = False,
) -> Drive:
    """`ordered`: as on threads, where the exchange keeps the order of rows and they are not numbered."""
    shuffle = np.random.default_rng(seed)
    metrics = Metrics()
    if sample is None:
        sampled = run(parts, Metrics(), steps.sample())
        sample = KeySample.from_batches([batch for part in sampled for batch in part], steps.order_by)
    move = steps.repartition(sample, ranges, ordered)
    received = exchange(parts, move, metrics, shuffle)
    carries = []
    if steps.need.two_passes and move.partitions > 1:
        summaries = run(received, Metrics(), steps.sort(move), steps.summarize(move))
        told = carries_of(read_summaries([batch for part in summaries for batch in part]), steps.calls)
        if told is None:
            return drive(steps, parts, 1, seed, sample, ordered)
        carries = told
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
        for batches in received:
            shuffle.shuffle(batches)
    results = run(received, metrics, inside.sort(move), inside.window(move, carries), steps.drop())
    check_row_accounting(metrics)
    batches = [batch for part in results for batch in part]
    return Drive(pa.Table.from_batches(batches, steps.drop().schema), metrics, move.partitions, move, received)
