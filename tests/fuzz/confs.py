"""Settings of Spark that change results or strategies, and settings of sundog that change only strategies."""

from __future__ import annotations

from random import Random

ZONES = (
    "UTC",
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "+05:30",
    "Pacific/Apia",
)


def draw_spark_confs(rng: Random) -> dict[str, str]:
    """Set in both sessions. Every key always, so that nothing is left from the case before."""

    def rarely(share: float, value: str, else_value: str) -> str:
        return value if rng.random() < share else else_value

    return {
        "spark.sql.ansi.enabled": rarely(0.4, "true", "false"),
        "spark.sql.session.timeZone": rng.choice(ZONES),
        "spark.sql.sources.useV1SourceList": rarely(0.15, "", "avro,csv,json,kafka,orc,parquet,text"),
        "spark.sql.parquet.enableVectorizedReader": rarely(0.03, "false", "true"),
        "spark.sql.caseSensitive": rarely(0.15, "true", "false"),
        "spark.sql.parquet.filterPushdown": rarely(0.8, "false", "true"),  # with it Spark itself loses NaN rows
        "spark.sql.parquet.aggregatePushdown": rarely(0.1, "true", "false"),
        "spark.sql.window.segmentTree.enabled": rarely(0.2, "true", "false"),
        "spark.sql.adaptive.enabled": rarely(0.2, "false", "true"),
        "spark.sql.codegen.wholeStage": rarely(0.5, "false", "true"),  # without it tiny queries are faster
        "spark.sql.execution.arrow.pyspark.enabled": rarely(0.3, "true", "false"),
        "spark.sql.shuffle.partitions": rng.choice(("1", "1", "3")),
        "spark.sql.optimizer.windowGroupLimitThreshold": rarely(0.1, "-1", "1000"),
        "spark.sql.parquet.datetimeRebaseModeInRead": rng.choice(("EXCEPTION", "CORRECTED", "CORRECTED", "LEGACY")),
        "spark.sql.parquet.int96RebaseModeInRead": rng.choice(("EXCEPTION", "CORRECTED", "CORRECTED", "LEGACY")),
        "spark.sql.legacy.parquet.nanosAsLong": "false",
        "spark.sql.parquet.int96TimestampConversion": rarely(0.03, "true", "false"),
        "spark.sql.decimalOperations.allowPrecisionLoss": rarely(0.1, "false", "true"),
        "spark.sql.files.ignoreCorruptFiles": rarely(0.01, "true", "false"),
        "spark.sql.parquet.mergeSchema": rarely(0.1, "true", "false"),
        "spark.sql.sources.partitionColumnTypeInference.enabled": rarely(0.2, "false", "true"),
        "spark.sql.parquet.binaryAsString": rarely(0.05, "true", "false"),
        "spark.sql.parquet.inferTimestampNTZ.enabled": rarely(0.05, "false", "true"),
        "spark.sql.timestampType": rarely(0.05, "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"),
        "spark.sql.legacy.castComplexTypesToString.enabled": rarely(0.03, "true", "false"),
        "spark.sql.legacy.allowNegativeScaleOfDecimal": rarely(0.01, "true", "false"),
        "spark.sql.files.maxPartitionBytes": rng.choice(("134217728", "134217728", "2000")),
        "spark.sql.orderByOrdinal": rarely(0.05, "false", "true"),
        "spark.sql.groupByOrdinal": rarely(0.05, "false", "true"),
    }


def draw_sundog_confs(rng: Random) -> dict[str, str]:
    """Set in the accelerated session only."""
    return {
        "spark.sundog.placement": rng.choice(("auto", "driver", "driver", "executors")),
        "spark.sundog.decoder": rng.choice(("own", "own", "arrow")),
        "spark.sundog.task.memoryBytes": rng.choice(("1g", "1g", "1m")),
        "spark.sundog.exchange.blockBytes": rng.choice(("4m", "1k")),
        "spark.sundog.topk.dynamicPruning.enabled": rng.choice(("true", "true", "false")),
    }
