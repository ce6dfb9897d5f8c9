"""Processor seconds of ways to send blocks to numbered partitions: 128 blocks of 1 MiB, from 2 tasks to 8.

    .venvs/3.5/bin/python docs/decisions/exchange_routes.py [RUNS]

Prints the least of all runs, which are in turns. The processors may be busy with other work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from sundog.benchmarks.processes import process_tree
from sundog.environment.java import session
from sundog.versions import spark_version

SOURCES, PARTITIONS, BLOCKS, BYTES = 2, 8, 128, 1 << 20
PAIRS = "pid int, block binary"


def blocks_of(source: int) -> Iterator[tuple[int, bytes]]:
    noise = os.urandom(BYTES)  # which no codec makes smaller
    for number in range(source, BLOCKS, SOURCES):
        # Each an object of its own: pickle writes one that occurs again as a reference.
        yield number % PARTITIONS, number.to_bytes(8, "little") + noise[8:]


def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for source in batch.column(0).to_pylist():
            for pid, block in blocks_of(source):
                yield pa.record_batch({"pid": pa.array([pid], pa.int32()), "block": pa.array([block], pa.binary())})


def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many blocks of which partition have come into this task."""
    pids = [pid for batch in batches for pid in batch.column("pid").to_pylist()]
    assert len(set(pids)) <= 1, "several partitions in one task"
    yield pa.record_batch({"n": pa.array([len(pids)], pa.int32())})


def routes(spark: Any) -> dict[str, Callable[[], list[int]]]:
    context = spark.sparkContext
    made = spark.range(0, SOURCES, 1, SOURCES).mapInArrow(make, PAIRS)

    def counts(frame: Any) -> list[int]:
        return [row.n for row in frame.mapInArrow(check, "n int").collect()]

    def rows_by_rdd() -> list[int]:
        """The blocks of a DataFrame through `partitionBy`, and back into one."""
        moved = made.rdd.map(tuple).partitionBy(PARTITIONS, int)
        return counts(spark.createDataFrame(moved, PAIRS))

    def rdds_alone() -> list[int]:
        """As if no task of sundog's needed Arrow: pickled pairs from worker to worker."""
        pairs = context.parallelize(range(SOURCES), SOURCES).flatMap(blocks_of)
        moved = pairs.partitionBy(PARTITIONS, int)
        return list(moved.mapPartitions(lambda part: [sum(1 for _ in part)]).collect())

    return {
        "exchange of sundog": lambda: counts(spark_version().repartition(made, PARTITIONS, "pid")),
        "RDD of the DataFrame": rows_by_rdd,
        "RDDs alone": rdds_alone,
    }


def seconds() -> tuple[float, float]:
    """Of the JVM, and of the Python workers with those that have ended; not of this process."""
    tree = [each for each in process_tree(os.getpid()) if each.pid != os.getpid()]
    jvm = sum(each.cpu_seconds for each in tree if each.role == "jvm")
    return jvm, sum(each.cpu_seconds for each in tree) - jvm


def main(runs: int) -> None:
    spark = session("exchange routes", f"local[{SOURCES}]", {"spark.ui.enabled": "false"})
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    least: dict[str, list[float]] = {}
    for _ in range(runs + 1):  # the first run of each compiles
        for name, run in routes(spark).items():
            before = seconds()
            assert sorted(run()) == [BLOCKS // PARTITIONS] * PARTITIONS
            spent = [after - start for after, start in zip(seconds(), before, strict=True)]
            least[name] = min(least.get(name, spent), spent, key=sum)
    for name, (jvm, workers) in least.items():
        print(f"Spark {spark.version}, {name}: {jvm + workers:.2f} s, of these {jvm:.2f} JVM, {workers:.2f} Python")
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 5)
