"""Spark 4.2: what differs from 4.3. `corr` of a constant variable is an error under ANSI. A Python worker has a core's
share of memory, however many cores its task has."""

from __future__ import annotations

from typing import ClassVar

from sundog.versions.spark_4_3 import Spark43


class Spark42(Spark43):
    name: ClassVar[str] = "4.2"

    own_confs: ClassVar[frozenset[str]] = frozenset(
        [
            "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled",
            "spark.sql.types.framework.enabled",
        ]
    )

    shares_pyspark_memory: ClassVar[bool] = False
    corr_may_raise: ClassVar[bool] = True
