"""Rows between the driver and Spark: DataFrames of Arrow batches, and Arrow batches of DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.conversion import PandasConversionMixin
from pyspark.sql.types import StructType
from pyspark.traceback_utils import SCCallSiteSync

from sundog.errors import InternalError
from sundog.operators.context import TaskContext
from sundog.operators.sources import Source
from sundog.plan.outputs import Result
from sundog.plan.stages import CollectedRows
from sundog.runtime.blocks import retyped
from sundog.runtime.sessions import also_tagged, described_as, keeping_active_session, tagged_for
from sundog.runtime.worker_errors import unwrap_worker_error
from sundog.support import Declined
from sundog.versions import spark_version

T = TypeVar("T")


def first_keys(frame: DataFrame, places: Sequence[int], rows: int, title: str) -> pa.RecordBatch:
    """A hash of the columns at `places`, of the first `rows` rows. Reads as few partitions as have that many."""
    names = [frame.columns[place].replace("`", "``") for place in places]
    session = frame.sparkSession
    with tagged_for(session), described_as(session, f"sundog: {title}: Probe"):
        found = frame.select(*(f"`{name}`" for name in names)).take(rows)
    hashes = [hash(tuple(bytes(part) if isinstance(part, bytearray) else part for part in row)) for row in found]
    return pa.record_batch({"key": pa.array(hashes, pa.int64())})


def frame_from_batches(
    session: SparkSession, batches: list[pa.RecordBatch], schema: StructType, output: Result
) -> DataFrame:
    """Rows on the driver as a DataFrame of `schema` that keeps their order; in one partition if `output` says so."""
    table = named_table(batches, spark_version().arrow_schema(schema))
    frame = frame_from_table(session, table, schema)
    return frame.coalesce(1) if output.is_one_partition(table.nbytes) else frame


def moved_once(frame: DataFrame) -> DataFrame:
    """The rows of a frame that ends with a shuffle, which all readers of the result share.

    In each query, a plan with a shuffle runs that shuffle again. This frame's RDD does not: Spark keeps the files that
    its first job wrote, skips the writing stage in later jobs, and runs it again if files are lost.
    """
    return _frame_of_rdd(frame, _rdd_of(frame))


def only_partitions(frame: DataFrame, kept: Sequence[bool]) -> DataFrame:
    """Some of the partitions of a frame made of an RDD, in their order; no task is started for the others."""
    jvm = frame.sparkSession._jvm
    assert jvm is not None
    flags = jvm.java.util.ArrayList()
    for flag in kept:
        flags.add(flag)
    # In Scala, a sequence of booleans is a function from a partition's number to whether it is kept.
    is_kept = jvm.org.apache.spark.api.python.PythonUtils.toSeq(flags)
    rows = _rdd_of(frame)
    return _frame_of_rdd(frame, jvm.org.apache.spark.rdd.PartitionPruningRDD.create(rows, is_kept))


def _rdd_of(frame: DataFrame) -> Any:
    """Spark's internal rows. A shuffle is made by the settings of the active session, so that is the frame's own."""
    session = frame.sparkSession
    with keeping_active_session(session) as jvm_sessions:
        jvm_sessions.setActiveSession(session._jsparkSession)
        return frame._jdf.queryExecution().toRdd()


def _frame_of_rdd(frame: DataFrame, rows: Any) -> DataFrame:
    """An RDD of Spark's internal rows as a DataFrame with the schema of `frame`."""
    session = frame.sparkSession
    return type(frame)(session._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False), session)


def frame_from_table(session: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """A table as a DataFrame. The thread's active session is restored: pyspark's `createDataFrame` changes it to
    `session`."""
    with keeping_active_session(session):
        return spark_version().frame_of_table(session, table, schema)


def named_table(batches: list[pa.RecordBatch], target: pa.Schema) -> pa.Table:
    """The batches as one table, its columns taken by position, under the names and types of `target`."""
    if not batches:
        return target.empty_table()
    return pa.Table.from_batches([retyped(batch, target) for batch in batches], schema=target)


def collect_arrow(frame: DataFrame) -> list[pa.RecordBatch]:
    """Spark's own Arrow collection, without sundog's handling of actions."""
    with own_errors():
        batches: list[pa.RecordBatch] = PandasConversionMixin._collect_as_arrow(frame)
    return batches


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise the error of a worker, instead of Spark's report of it.

    A KeyboardInterrupt also cancels the job, and pyspark then raises the job's error; the interrupt is raised instead.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        original = unwrap_worker_error(error)
        if original is error:
            raise
        raise original from error


def collect_as_they_come(frame: DataFrame, take: Callable[[Iterator[pa.RecordBatch]], T]) -> tuple[T, list[int]]:
    """What `take` makes of the batches of a frame, partition by partition as Spark has computed them; and the place of
    each batch in the order of the partitions.

    If `take` declines, what Spark still does for them is cancelled.
    """
    context, tag = frame.sparkSession.sparkContext, f"sundog-{uuid4().hex}"
    with also_tagged(context, [tag]), SCCallSiteSync(context):
        address, secret, server = frame._jdf.collectAsArrowToPython()
    file, socket = spark_version().connect_local(address, secret)
    socket.settimeout(None)  # the first row may take any time
    try:
        taken = take(iter(pa.ipc.open_stream(file)))
        count = read_int(file)
        if count < 0:
            raise OSError(UTF8Deserializer().loads(file))  # what went wrong in the JVM
        order = [read_int(file) for _ in range(count)]
    except (Declined, KeyboardInterrupt):
        context._jsc.sc().cancelJobsWithTag(tag)
        raise
    except Exception:
        server.getResult()  # raises what went wrong in the JVM, if anything did
        raise
    finally:
        file.close()
        socket.close()
    server.getResult()
    return taken, order


@dataclass(frozen=True)
class CollectedSource(Source):
    """All rows of a Spark plan. Spark computes them once, when they are read.

    Declines as soon as they exceed the limits of `planned`, and cancels Spark's jobs for them. No partition sends more
    than `max_rows` and one; that a few rows are very long shows only when they arrive.
    """

    frame: DataFrame
    planned: CollectedRows
    title: str

    def read(self, context: TaskContext) -> Iterator[pa.RecordBatch]:
        session = self.frame.sparkSession
        with tagged_for(session), described_as(session, f"sundog: {self.title}: Build side"):
            frame = _at_most_of_each_partition(self.frame, self.planned.max_rows + 1)
            found, order = collect_as_they_come(frame, lambda batches: list(self._within_limits(batches)))
        if len(order) != len(found):
            raise InternalError(f"Spark sent {len(found)} batches, and the places of {len(order)}")
        for batch in [found[place] for place in order]:
            context.metrics.add("input_rows", batch.num_rows)
            yield retyped(batch, self.planned.schema)

    def _within_limits(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = size = 0
        for batch in batches:
            rows, size = rows + batch.num_rows, size + batch.nbytes
            self.planned.check(rows, size)
            yield batch


def _at_most_of_each_partition(frame: DataFrame, rows: int) -> DataFrame:
    """The frame with at most `rows` rows of each partition, in the same partitions."""
    jplan = frame.limit(rows)._jdf.queryExecution().analyzed().child()  # the LocalLimit below the GlobalLimit
    return spark_version().frame_of_plan(frame.sparkSession, jplan)
