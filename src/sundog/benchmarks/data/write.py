"""Writes a generator's rows to Parquet files, with pyarrow threads or as a Spark job. The rows are the same either way.

*local* writes the files side by side on a few threads; each holds one row group at a time.

*spark* makes the data where the data will live: one task per file (`spark.range`, one number per partition), the rows
made in `mapInArrow`, the files written and committed by Spark. It works on whatever file system Spark writes to.

Both write what Spark would: snappy, dictionaries, microsecond timestamps, small decimals as integers, and a page index.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sundog.benchmarks.data.catalog import DataSet, DataSetError, Note
from sundog.benchmarks.data.layout import TableGenerator
from sundog.benchmarks.data.tpc import TpcSet

Progress = Callable[[int], None]
"""Called with a number of rows that have been written since the last call."""

_ROWS_PER_PAGE = 20_000
_ROWS_PER_SPARK_BATCH = 16_384
_POLL_SECONDS = 0.25


def total_rows(data_set: DataSet, rows: int) -> int:
    """Rows over all tables: what the progress adds up to."""
    return rows * len(data_set.tables)


def make_local(
    data_set: DataSet, rows: int, folder: Path, *, seed: int = 0, threads: int = 2, on_progress: Progress | None = None
) -> None:
    """Write the data set below `folder`, which must be empty or absent."""
    report = on_progress or _silent
    with ThreadPoolExecutor(threads) as pool:
        jobs = [
            pool.submit(_write_file, generator, file, path / f"part-{file:05d}.parquet", report)
            for generator, path in _prepared(data_set, rows, folder, seed)
            for file in range(generator.layout.file_count)
        ]
        for job in jobs:
            job.result()
    Note(data_set.name, rows, seed).write(folder)


def make_with_spark(
    spark: Any, data_set: DataSet, rows: int, folder: Path, *, seed: int = 0, on_progress: Progress | None = None
) -> None:
    """The same rows, made by a Spark job of one task per file."""
    report = on_progress or _silent
    for generator, path in _prepared(data_set, rows, folder, seed):
        files = generator.layout.file_count
        frame = spark.range(0, files, 1, files).mapInArrow(_rows_of_files(generator), _spark_schema(generator.schema))
        with _watched(spark, files, generator.layout.rows, report):
            _write_frame(spark, frame, path, generator.layout.rows_per_group)
    Note(data_set.name, rows, seed).write(folder)


def make_tpc(data_set: TpcSet, scale: float, folder: Path, *, threads: int = 2) -> None:
    """Write a TPC suite's tables below `folder`, which must be empty or absent."""
    if folder.exists() and any(folder.iterdir()):
        raise DataSetError.occupied(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data_set.make(scale, folder, threads)
    Note.of_scale(data_set.name, scale).write(folder)


def clear(folder: Path) -> None:
    """Remove a data set that we made ourselves; anything else is left alone."""
    if folder.exists():
        if Note.read(folder) is None:
            raise DataSetError.occupied(folder)
        shutil.rmtree(folder)


def is_ready(wanted: Note, folder: Path) -> bool:
    """True if the folder already holds exactly this; false if it is empty or absent; else an error."""
    found = Note.read(folder) if folder.exists() else None
    if found == wanted:
        return True
    if found is not None:
        raise DataSetError.different(folder, found, wanted)
    if folder.exists() and any(folder.iterdir()):
        raise DataSetError.occupied(folder)
    return False


def _silent(rows: int) -> None:
    pass


def _prepared(data_set: DataSet, rows: int, folder: Path, seed: int) -> Iterator[tuple[TableGenerator, Path]]:
    if folder.exists() and any(folder.iterdir()):
        raise DataSetError.occupied(folder)
    folders = data_set.folders(folder)
    for table, generator in data_set.generators(rows, seed).items():
        folders[table].mkdir(parents=True, exist_ok=True)
        yield generator, folders[table]


def _write_file(generator: TableGenerator, file: int, path: Path, report: Progress) -> None:
    with pq.ParquetWriter(
        path,
        generator.schema,
        compression="snappy",
        write_page_index=True,
        max_rows_per_page=_ROWS_PER_PAGE,
        store_decimal_as_integer=True,
    ) as writer:
        for group in generator.layout.groups_of_file(file):
            batch = generator.row_group(group)
            writer.write_table(pa.Table.from_batches([batch]), row_group_size=batch.num_rows)
            report(batch.num_rows)


def _rows_of_files(generator: TableGenerator) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file in batch.column(0).to_pylist():
                for group in generator.layout.groups_of_file(file):
                    made = generator.row_group(group)
                    for start in range(0, made.num_rows, _ROWS_PER_SPARK_BATCH):
                        yield made.slice(start, _ROWS_PER_SPARK_BATCH)

    return make


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _write_frame(spark: Any, frame: Any, path: Path, rows_per_group: int) -> None:
    key = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(key)
    spark.conf.set(key, "TIMESTAMP_MICROS")
    try:
        writer = frame.write.mode("append").option("parquet.block.row.count.limit", rows_per_group)
        writer.option("parquet.block.size", 1 << 30).option("compression", "snappy").parquet(str(path))
    finally:
        spark.conf.set(key, before)


class _watched:  # noqa: N801 - used like a function, `with _watched(...)`
    """Turns the finished tasks of the running job into rows, while the job blocks this thread."""

    def __init__(self, spark: Any, tasks: int, rows: int, report: Progress) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._tasks, self._rows, self._report = tasks, rows, report
        self._reported = 0
        self._done = Event()
        self._thread = Thread(target=self._poll, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._done.set()
        self._thread.join()
        if kind is None:
            self._advance(self._rows)

    def _poll(self) -> None:
        while not self._done.wait(_POLL_SECONDS):
            for stage in self._tracker.getActiveStageIds():
                info = self._tracker.getStageInfo(stage)
                if info is not None and info.numTasks == self._tasks:
                    self._advance(self._rows * info.numCompletedTasks // self._tasks)

    def _advance(self, rows: int) -> None:
        if rows > self._reported:
            self._report(rows - self._reported)
            self._reported = rows
