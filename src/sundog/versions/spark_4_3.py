"""Spark 4.3, the base of all versions: an older version declares only its differences from the next newer one.

    Spark43  <-  Spark42  <-  Spark41  <-  Spark40  <-  Spark35

pyspark is imported only in functions, so that a version can be asked about its plans without pyspark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from sundog.versions.model import ArrowRequest, ConnectClasses, PlanNames
from sundog.versions.parts.write_commands import WriterCommands

if TYPE_CHECKING:
    from pyspark.errors.exceptions.base import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import Row, StructType

_BYPASS = 'If necessary set <config> to "false" to bypass this error'


class Spark43:
    name: ClassVar[str] = "4.3"

    oldest_java: ClassVar[int] = 17
    newest_java: ClassVar[int | None] = None  # None: none is known to be too new

    # --- plans and what they mean -------------------------------------------------------------------------------------

    plan_names: ClassVar[PlanNames] = PlanNames()

    absent_confs: ClassVar[Mapping[str, str]] = {}
    """Settings that `front` reads and this version does not have, each with the value for its behaviour."""

    own_confs: ClassVar[frozenset[str]] = frozenset()
    """Settings that `conf_table.py` answers for, which this version has and the newest does not."""

    confs_of_the_optimizer: ClassVar[frozenset[str]] = frozenset()
    """Settings that this version's optimiser applies to the plan, so that `front` need not decline for them."""

    unicode: ClassVar[int] = 17
    """The Unicode version of this Spark's ICU, which maps cases for `upper` and `lower`."""

    widens_stored_types: ClassVar[bool] = True
    """Whether Spark's Parquet reader reads a column as a wider type than the file's: an INT32 as a bigint."""

    conditions: ClassVar[Mapping[str, tuple[str, str]]] = {
        "ARITHMETIC_OVERFLOW": ("22003", f"<message>.<alternative> {_BYPASS}."),
        "BINARY_ARITHMETIC_OVERFLOW": (
            "22003",
            "<value1> <symbol> <value2> caused overflow. Use <functionName> to ignore overflow problem and return "
            "NULL.",
        ),
        "CAST_INVALID_INPUT": (
            "22018",
            "The value <expression> of the type <sourceType> cannot be cast to <targetType> because it is malformed. "
            "Correct the value as per the syntax, or change its target type. "
            "Use `try_cast` to tolerate malformed input and return NULL instead.",
        ),
        "CAST_OVERFLOW": (
            "22003",
            "The value <value> of the type <sourceType> cannot be cast to <targetType> due to an overflow. "
            "Use `try_cast` to tolerate overflow and return NULL instead.",
        ),
        "DIVIDE_BY_ZERO": (
            "22012",
            f"Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead. {_BYPASS}.",
        ),
        "INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION": (
            "22015",
            "Integer overflow while operating with intervals. "
            "Use <functionName> to tolerate overflow and return NULL instead.",
        ),
        "REMAINDER_BY_ZERO": (
            "22012",
            f"Remainder by zero. Use `try_mod` to tolerate divisor being 0 and return NULL instead. {_BYPASS}.",
        ),
        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION": (
            "22003",
            f" <value> cannot be represented as Decimal(<precision>, <scale>). {_BYPASS}, and return NULL instead.",
        ),
        "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION": (
            "22003",
            "The <roundedValue> rounded half up from <originalValue> cannot be represented as "
            "Decimal(<precision>, <scale>).",
        ),
    }
    """Error condition -> (SQL state, text), as in Spark's error-conditions.json."""

    corr_may_raise: ClassVar[bool] = False
    """Whether `corr` divides by zero under ANSI if a variable does not vary, instead of giving NULL."""

    messages: ClassVar[Mapping[str, str]] = {"integer overflow": "overflow", "long overflow": "overflow"}
    """This Spark's text for a parameter `message` in place of Java's."""

    messages_without_alternative: ClassVar[frozenset[str]] = frozenset()
    """Messages of an overflow after which this Spark suggests no function that gives NULL instead."""

    condition_names: ClassVar[Mapping[str, str]] = {}
    """Conditions that this version has under another name."""

    eval_mode_getters: ClassVar[tuple[tuple[str, str], ...]] = (
        ("evalContext", "org.apache.spark.sql.catalyst.expressions.NumericEvalContext"),
        ("evalMode", "scala.Enumeration$Value"),
    )
    """Methods, each with the class of its result, that lead from an arithmetic expression or a sum to ANSI, LEGACY or
    TRY."""

    def exception(
        self,
        kind: type[PySparkException],
        condition: str | None,
        text: str,
        state: str | None,
        parameters: dict[str, str],
    ) -> PySparkException:
        """A pyspark exception with a text of Spark's JVM."""
        return kind(text if state is None else f"{text} SQLSTATE: {state}", condition, parameters)

    def condition_of(self, error: PySparkException) -> str | None:
        condition: str | None = error.getCondition()
        return condition

    def first_line(self, error: Exception) -> str:
        """What an error says, in a line."""
        return next(iter(str(error).splitlines()), type(error).__name__)

    def is_cancelled_job(self, jthrowable: Any) -> bool:
        """Whether a SparkThrowable of the JVM reports a cancelled job."""
        return bool(jthrowable.getCondition() == "SPARK_JOB_CANCELLED")

    def cancelled_job(self, jvm: Any, job: int, reason: str) -> Any:
        """The JVM's exception for a cancelled job."""
        return jvm.org.apache.spark.errors.SparkCoreErrors.sparkJobCancelled(job, reason, None)

    # --- Scala's collections ------------------------------------------------------------------------------------------

    as_java_list: ClassVar[tuple[str, str]] = ("scala.jdk.javaapi.CollectionConverters", "asJava")
    """Class and method that turn a Scala sequence into a Java list."""
    as_java_set: ClassVar[tuple[str, str]] = ("scala.jdk.javaapi.CollectionConverters", "asJava")
    as_java_map: ClassVar[tuple[str, str]] = ("scala.jdk.javaapi.CollectionConverters", "asJava")
    session_class_name: ClassVar[str] = "org.apache.spark.sql.classic.SparkSession"

    def seq_class(self, jvm: Any) -> str:
        """The class of the sequences in Spark's own classes."""
        return "scala.collection.immutable.Seq"

    # --- DataFrames ---------------------------------------------------------------------------------------------------

    writer_commands: ClassVar[type[WriterCommands]] = WriterCommands
    """The commands that a JVM writer would run."""

    has_profiles: ClassVar[bool] = True
    """Whether `mapInArrow` takes a resource profile."""

    shares_pyspark_memory: ClassVar[bool] = True
    """Whether a task with all cores of an executor has all of `spark.executor.pyspark.memory`, not a core's share."""

    has_session_tags: ClassVar[bool] = True
    """Whether jobs carry tags of their session, by which `interruptAll` and `interruptTag` of a classic session find
    them."""

    def frame_class(self) -> type[DataFrame]:
        """The class whose methods are the actions of a classic session."""
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

        frame_class: type[DataFrame] = ClassicDataFrame
        return frame_class

    def frame_of_plan(self, session: SparkSession, jplan: Any) -> DataFrame:
        """A JVM logical plan as a DataFrame."""
        from pyspark.sql import DataFrame

        return DataFrame(self.dataset_class(session).ofRows(session._jsparkSession, jplan), session)

    def dataset_class(self, session: SparkSession) -> Any:
        return session._jvm.org.apache.spark.sql.classic.Dataset

    def session_class(self, session: SparkSession) -> Any:
        """The JVM's class of sessions, which knows the thread's active one."""
        return session._jvm.org.apache.spark.sql.classic.SparkSession

    def frame_of_table(self, session: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
        """Rows on the driver as a DataFrame, in their order."""
        return session.createDataFrame(table, schema=schema)

    def arrow_schema(self, schema: StructType, large_types: bool = False) -> pa.Schema:
        """Spark's schema in Arrow's types, instants in UTC."""
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(schema, timezone="UTC", prefers_large_types=large_types)

    def connect_local(self, address: Any, secret: str) -> tuple[Any, Any]:
        """A file and its socket, from which the driver's JVM sends rows."""
        from pyspark.util import local_connect_and_auth

        opened: tuple[Any, Any] = local_connect_and_auth(address, secret)
        return opened

    def to_arrow(self, frame: DataFrame) -> pa.Table:
        """The action `toArrow`."""
        return frame.toArrow()

    def arrow_request(
        self,
        split_batches: bool = False,
        empty_list_if_zero_records: bool = True,
        prefers_large_var_types: bool = False,
    ) -> ArrowRequest:
        """The arguments of `_collect_as_arrow`. Split batches would free memory early; sundog ignores that."""
        return ArrowRequest(empty_list_if_zero_records, prefers_large_var_types)

    def rows(self, table: pa.Table, schema: StructType, session: SparkSession) -> list[Row]:
        """Rows with exactly the Python types of Spark's own collect."""
        from pyspark.sql.conversion import ArrowTableToRowsConversion

        as_bytes = session._jconf.getConfString("spark.sql.execution.pyspark.binaryAsBytes") == "true"
        rows: list[Row] = ArrowTableToRowsConversion.convert(table, schema, binary_as_bytes=as_bytes)
        return rows

    limits_rows_of_row_groups: ClassVar[bool] = True
    """Whether a writer obeys `parquet.block.row.count.limit`: Parquet knows it from 1.16 on."""

    # --- Spark Connect ------------------------------------------------------------------------------------------------

    connect: ClassVar[ConnectClasses | None] = ConnectClasses()
    """The classes of a Connect server that runs in the driver's JVM; None if sundog cannot use this version's."""

    def session_hooks(self, client: Any) -> Sequence[Any]:
        """The user's functions by which a Connect client changes each request."""
        hooks: Sequence[Any] = client._session_hooks
        return hooks

    # --- exchanges ----------------------------------------------------------------------------------------------------

    block_confs: ClassVar[Mapping[str, str]] = {
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    }
    """Settings of the session that blocks are exchanged in, besides those that every version has."""

    def repartition(self, blocks: DataFrame, partitions: int, column: str) -> DataFrame:
        """Each row in the partition numbered by `column`, an integer in SQL."""
        from pyspark.sql.functions import expr

        return blocks.repartitionById(partitions, expr(column))
