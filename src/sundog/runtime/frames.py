"""Rows between the driver and Spark: DataFrames of Arrow batches, and Arrow batches of DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.conversion import PandasConversionMixin
from pyspark.sql.types import StructType

from sundog.runtime.blocks import retyped
from sundog.runtime.sessions import described_as, keeping_active_session, tagged_for
from sundog.runtime.worker_errors import unwrap_worker_error
from sundog.versions import spark_version

_COALESCED_BYTES = 1 << 20  # spark.sql.adaptive.coalescePartitions.minPartitionSize


def first_keys(frame: DataFrame, places: Sequence[int], rows: int) -> pa.RecordBatch:
    """A hash of the columns at `places`, of the first rows. Reads no more partitions than it takes to have so many."""
    names = [frame.columns[place].replace("`", "``") for place in places]
    session = frame.sparkSession
    with tagged_for(session), described_as(session, "sundog: Probe"):
        found = frame.select(*(f"`{name}`" for name in names)).take(rows)
    hashes = [hash(tuple(bytes(part) if isinstance(part, bytearray) else part for part in row)) for row in found]
    return pa.record_batch({"key": pa.array(hashes, pa.int64())})


def frame_from_batches(
    session: SparkSession, batches: list[pa.RecordBatch], schema: StructType, one_partition: bool
) -> DataFrame:
    """Rows that are on the driver, as a DataFrame of `schema` that keeps their order.

    In one partition where Spark has one, or where adaptive execution would make one of so few rows.
    """
    table = named_table(batches, spark_version().arrow_schema(schema))
    frame = frame_from_table(session, table, schema)
    return frame.coalesce(1) if one_partition or table.nbytes <= _COALESCED_BYTES else frame


def frame_from_table(session: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """A table as a DataFrame. The thread's active session stays what it is: pyspark's `createDataFrame` makes it
    `session`."""
    with keeping_active_session(session):
        return spark_version().frame_of_table(session, table, schema)


def named_table(batches: list[pa.RecordBatch], target: pa.Schema) -> pa.Table:
    """The batches as one table, its columns taken by position, under the names and types of `target`."""
    if not batches:
        return target.empty_table()
    return pa.Table.from_batches([retyped(batch, target) for batch in batches], schema=target)


def collect_arrow(frame: DataFrame) -> list[pa.RecordBatch]:
    """Spark's own Arrow collection, past the interception of actions.

    A KeyboardInterrupt also cancels the job, and pyspark then raises that error over it: it is the interrupt that
    counts.
    """
    try:
        batches: list[pa.RecordBatch] = PandasConversionMixin._collect_as_arrow(frame)
    except Exception as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        original = unwrap_worker_error(error)
        if original is error:
            raise
        raise original from error
    return batches
