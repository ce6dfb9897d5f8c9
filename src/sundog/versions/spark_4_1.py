"""Spark 4.1: what differs from 4.2. Its ICU, and that of 4.0, knows Unicode 16."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from sundog.versions.model import ArrowRequest
from sundog.versions.spark_4_2 import Spark42

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Spark41(Spark42):
    name: ClassVar[str] = "4.1"

    own_confs: ClassVar[frozenset[str]] = frozenset(
        [
            "spark.sql.collation.trim.enabled",
            "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled",
        ]
    )

    messages: ClassVar[Mapping[str, str]] = {}

    newest_java: ClassVar[int | None] = (
        23  # 24 removed `Subject.getSubject`, which its Hadoop calls for every file system
    )

    unicode: ClassVar[int] = 16

    def arrow_schema(self, schema: StructType, large_types: bool = False) -> pa.Schema:
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(schema, timestamp_utc=True, prefers_large_types=large_types)

    def arrow_request(  # type: ignore[override]
        self, split_batches: bool = False, empty_list_if_zero_records: bool = True
    ) -> ArrowRequest:
        return ArrowRequest(empty_list_if_zero_records)
