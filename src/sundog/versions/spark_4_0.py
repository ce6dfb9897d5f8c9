"""Spark 4.0: what differs from 4.1.

Arithmetic nodes have their evaluation mode as a field and not in a context. The remainder has no error condition of its
own, and there is no `repartitionById`. Binaries are always bytearrays, and pyspark's conversion of rows takes a
function call for each value. JVM writers run their commands and do not return them. Connect's client has no hooks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from sundog.versions.model import PlanNames
from sundog.versions.parts.hash_targets import keys_for
from sundog.versions.parts.row_conversion import rows_of
from sundog.versions.parts.write_commands import OlderCommands, WriterCommands
from sundog.versions.spark_4_1 import Spark41

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import Row, StructType

_WITH_A_MODE = ("Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Remainder", "Sum")


class Spark40(Spark41):
    name: ClassVar[str] = "4.0"

    own_confs: ClassVar[frozenset[str]] = Spark41.own_confs | {
        "spark.sql.execution.arrow.transformWithStateInPandas.maxRecordsPerBatch"
    }

    plan_names: ClassVar[PlanNames] = PlanNames(
        classes={"TimeAdd": "TimestampAddInterval"},
        fields={name: {"evalMode": "evalContext"} for name in _WITH_A_MODE},
    )
    condition_names: ClassVar[Mapping[str, str]] = {"REMAINDER_BY_ZERO": "DIVIDE_BY_ZERO"}
    block_confs: ClassVar[Mapping[str, str]] = {}
    eval_mode_getters: ClassVar[tuple[tuple[str, str], ...]] = (("evalMode", "scala.Enumeration$Value"),)
    limits_rows_of_row_groups: ClassVar[bool] = False
    writer_commands: ClassVar[type[WriterCommands]] = OlderCommands

    def rows(self, table: pa.Table, schema: StructType, session: SparkSession) -> list[Row]:
        from pyspark.sql.types import _create_row

        return rows_of(table, schema.names, _create_row)

    def session_hooks(self, client: Any) -> Sequence[Any]:
        return ()

    def repartition(self, blocks: DataFrame, partitions: int, column: str) -> DataFrame:
        from pyspark.sql.functions import expr

        keys = ", ".join(map(str, keys_for(partitions)))
        return blocks.repartition(partitions, expr(f"element_at(array({keys}), ({column}) + 1)"))
