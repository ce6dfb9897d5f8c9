"""Spark 3.5: what differs from 4.0.

A DataFrame is one class, for classic sessions only. It has no public way to make rows from an Arrow table, so they are
made like rows from pandas. Parquet types are read as stored, not widened. Letters change their case by Java's rules.
Scala is 2.12.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from sundog.versions.model import ArrowRequest, ConnectClasses
from sundog.versions.parts.write_commands import CommandsOf35, WriterCommands
from sundog.versions.spark_4_0 import Spark40

if TYPE_CHECKING:
    from pyspark.errors.exceptions.base import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_BYPASS_ANSI = ' If necessary set <ansiConfig> to "false" to bypass this error.'
_ROWS_AT_ONCE = 1 << 16


class Spark35(Spark40):
    name: ClassVar[str] = "3.5"

    oldest_java: ClassVar[int] = 8
    newest_java: ClassVar[int | None] = 17  # on 24 and newer its Hadoop fails at once; those between are untested

    absent_confs: ClassVar[Mapping[str, str]] = {"spark.sql.icu.caseMappings.enabled": "false"}
    own_confs: ClassVar[frozenset[str]] = frozenset()
    as_java_list: ClassVar[tuple[str, str]] = ("scala.collection.JavaConverters", "seqAsJavaList")
    as_java_set: ClassVar[tuple[str, str]] = ("scala.collection.JavaConverters", "setAsJavaSet")
    as_java_map: ClassVar[tuple[str, str]] = ("scala.collection.JavaConverters", "mapAsJavaMap")
    session_class_name: ClassVar[str] = "org.apache.spark.sql.SparkSession"
    # True by default there. The optimiser replaces each IN of an empty list.
    confs_of_the_optimizer: ClassVar[frozenset[str]] = frozenset(["spark.sql.legacy.nullInEmptyListBehavior"])
    widens_stored_types: ClassVar[bool] = False
    has_profiles: ClassVar[bool] = False
    has_session_tags: ClassVar[bool] = False
    connect: ClassVar[ConnectClasses | None] = None
    writer_commands: ClassVar[type[WriterCommands]] = CommandsOf35
    conditions: ClassVar[Mapping[str, tuple[str, str]]] = {
        **Spark40.conditions,
        "BINARY_ARITHMETIC_OVERFLOW": ("22003", "<value1> <symbol> <value2> caused overflow."),
        "CAST_INVALID_INPUT": ("22018", Spark40.conditions["CAST_INVALID_INPUT"][1] + _BYPASS_ANSI),
        "CAST_OVERFLOW": ("22003", Spark40.conditions["CAST_OVERFLOW"][1] + _BYPASS_ANSI),
        "NUMERIC_VALUE_OUT_OF_RANGE": (
            "22003",
            "<value> cannot be represented as Decimal(<precision>, <scale>). "
            'If necessary set <config> to "false" to bypass this error, and return NULL instead.',
        ),
    }
    messages_without_alternative: ClassVar[frozenset[str]] = frozenset(["Overflow in sum of decimals"])
    condition_names: ClassVar[Mapping[str, str]] = {
        **Spark40.condition_names,
        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION": "NUMERIC_VALUE_OUT_OF_RANGE",
        "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION": "NUMERIC_VALUE_OUT_OF_RANGE",
    }

    def exception(
        self,
        kind: type[PySparkException],
        condition: str | None,
        text: str,
        state: str | None,
        parameters: dict[str, str],
    ) -> PySparkException:
        """An exception whose constructor takes either a text, or a condition of Python's own. Where two small integers
        overflow, this version names no function that gives NULL instead."""
        if condition == "BINARY_ARITHMETIC_OVERFLOW":
            parameters = {name: value for name, value in parameters.items() if name != "functionName"}
        error = kind(text)
        error.error_class, error.message_parameters = condition, parameters
        return error

    def condition_of(self, error: PySparkException) -> str | None:
        condition: str | None = error.getErrorClass()
        return condition

    def first_line(self, error: Exception) -> str:
        """The message of the last cause. A task's error arrives as a Py4JJavaError, whose own message is the call."""
        cause = getattr(error, "java_exception", None)
        if cause is None:
            return super().first_line(error)
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString()).splitlines()[0]

    def is_cancelled_job(self, jthrowable: Any) -> bool:
        """Whether an error reports a cancelled job, by its text: this version has no condition for it."""
        return re.match(r"Job -?\d+ cancelled ", str(jthrowable.getMessage())) is not None

    def cancelled_job(self, jvm: Any, job: int, reason: str) -> Any:
        return jvm.org.apache.spark.SparkException(f"Job {job} cancelled {reason}")

    def seq_class(self, jvm: Any) -> str:
        """Usually built with Scala 2.12; there is a build with 2.13, whose sequences are those of Spark 4."""
        is_newer = not str(jvm.scala.util.Properties.versionNumberString()).startswith("2.12")
        return super().seq_class(jvm) if is_newer else "scala.collection.Seq"

    def frame_class(self) -> type[DataFrame]:
        from pyspark.sql import DataFrame

        frame_class: type[DataFrame] = DataFrame
        return frame_class

    def dataset_class(self, session: SparkSession) -> Any:
        return session._jvm.org.apache.spark.sql.Dataset

    def session_class(self, session: SparkSession) -> Any:
        return session._jvm.org.apache.spark.sql.SparkSession

    def frame_of_table(self, session: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
        from pyspark.sql import DataFrame
        from pyspark.sql.pandas.serializers import ArrowStreamSerializer

        if not table.num_rows:  # a stream without batches would have no schema
            return session.createDataFrame([], schema)
        jvm = session._jvm
        batches = table.cast(self.arrow_schema(schema)).combine_chunks().to_batches(max_chunksize=_ROWS_AT_ONCE)
        jbatches = session._sc._serialize_to_jvm(
            batches, ArrowStreamSerializer(), jvm.PythonSQLUtils.readArrowStreamFromFile, jvm.ArrowIteratorServer
        )
        jframe = jvm.PythonSQLUtils.toDataFrame(jbatches, schema.json(), session._jsparkSession)
        return DataFrame(jframe, session)

    def arrow_schema(self, schema: StructType, large_types: bool = False) -> pa.Schema:
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(schema)

    def connect_local(self, address: Any, secret: str) -> tuple[Any, Any]:
        from pyspark.java_gateway import local_connect_and_auth

        opened: tuple[Any, Any] = local_connect_and_auth(address, secret)
        return opened

    def to_arrow(self, frame: DataFrame) -> pa.Table:
        """Made from the batches of `toPandas`. These have the zone of the session, those of `toArrow` have UTC."""
        schema = self.arrow_schema(frame.schema)
        batches = frame._collect_as_arrow()
        return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()

    def arrow_request(self, split_batches: bool = False) -> ArrowRequest:  # type: ignore[override]
        return ArrowRequest()
