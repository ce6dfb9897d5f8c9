"""The demo's data and its three questions: a web shop's events, as a Spark job would have written them.

The table looks like logs. It is written roughly in the order of time, so that each row group spans a short time. Few
customers have many events and many have few. It has fourteen columns, of which a query reads two or three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from sundog.versions import spark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 8
ROW_GROUPS_PER_FILE = 8
MICROSECONDS_APART = 20_000
_TIMESTAMP_TYPE = "spark.sql.parquet.outputTimestampType"
_START = datetime(2026, 3, 1, tzinfo=timezone.utc)
_SHUFFLED_BITS = 12  # rows are out of order within blocks of 4096
_WANTED_PER_ROW_GROUP = 6
_PARETO = 0.6
_LONGEST_MICROSECONDS = 100 * 365 * 86_400 * 1_000_000

_QUALITIES = [
    "red",
    "blue",
    "green",
    "warm",
    "light",
    "small",
    "large",
    "new",
    "old",
    "soft",
    "dry",
    "quiet",
    "quick",
    "simple",
    "round",
]
_THINGS = [
    "jacket",
    "lamp",
    "boots",
    "tent",
    "kettle",
    "guitar",
    "carpet",
    "bicycle",
    "camera",
    "mirror",
    "table",
    "chair",
    "novel",
    "puzzle",
    "watch",
]
_COUNTRIES = ["BR", "DE", "FR", "IN", "JP", "KE", "NO", "US"]


@dataclass(frozen=True)
class DemoQuery:
    """One question, why it is hard, and how its answer is compared: in its own order, or sorted by its keys."""

    name: str
    question: str
    spark_does: str
    sundog_does: str
    sql: str
    sorted_by: tuple[str, ...] = ()


def write_events(session: SparkSession, rows: int, path: Path) -> None:
    """The table as Parquet: `FILES` files of `ROW_GROUPS_PER_FILE` row groups, or as many files as that are row groups
    where this Spark does not limit their rows.

    Times are stored in microseconds. Spark's default is INT96, an old type for which no file has minimum and maximum.
    """
    per_row_group = max(1, -(-rows // (FILES * ROW_GROUPS_PER_FILE)))
    files = FILES if spark_version().limits_rows_of_row_groups else FILES * ROW_GROUPS_PER_FILE
    before = session.conf.get(_TIMESTAMP_TYPE)
    session.conf.set(_TIMESTAMP_TYPE, "TIMESTAMP_MICROS")
    try:
        writer = events(session, rows, files).write.mode("overwrite")
        writer.option("parquet.block.row.count.limit", per_row_group).parquet(str(path))
    finally:
        session.conf.set(_TIMESTAMP_TYPE, before)


def events(session: SparkSession, rows: int, files: int = FILES) -> DataFrame:
    """Made from hashes of the row's number: the same on every machine, with every time once."""
    block = (1 << _SHUFFLED_BITS) - 1
    phrase = f"concat({_pick(_QUALITIES, 4)}, ' ', {_pick(_THINGS, 5)})"
    # Spark's SQL has no `>>` before 4.0
    position = f"(id ^ (xxhash64(shiftright(id, {_SHUFFLED_BITS})) & {block}))"
    return session.range(0, rows, 1, files).selectExpr(
        f"timestamp_micros({int(_START.timestamp())}000000 + {position} * {MICROSECONDS_APART}) AS event_time",
        "id AS event_id",
        f"CAST(floor(pow({_uniform(1)}, 2.5) * {max(1, rows // 8)}) AS BIGINT) AS user_id",
        f"CAST(floor({_uniform(2)} * {max(1, rows // 3)}) AS BIGINT) AS session_id",
        f"CASE WHEN {_uniform(3)} < 0.7 THEN '' ELSE {phrase} END AS phrase",
        f"{_pick(_COUNTRIES, 6)} AS country",
        f"{_pick(['phone', 'tablet', 'desktop'], 7)} AS device",
        f"concat('/item/', CAST(floor({_uniform(8)} * 5000) AS INT)) AS page",
        f"{_pick(['search', 'mail', 'link', 'none'], 9)} AS referrer",
        f"round(2 * pow(1 - {_uniform(10)}, -{_PARETO}), 2) AS amount",
        f"CAST(1 + floor({_uniform(11)} * 5) AS INT) AS quantity",
        f"round({_uniform(12)} * 0.3, 2) AS discount",
        f"{_uniform(13)} < 0.2 AS is_new_customer",
        f"CAST(floor({_uniform(14)} * 900) AS INT) AS milliseconds",
    )


def _uniform(seed: int) -> str:
    """A number in [0, 1) that depends on the row's number only."""
    return f"((xxhash64(id, {seed}) & 4503599627370495) / 4503599627370496D)"


def _pick(words: Sequence[str], seed: int) -> str:
    array = f"array({', '.join(map(repr, words))})"
    return f"element_at({array}, CAST(floor({_uniform(seed)} * {len(words)}) AS INT) + 1)"


def queries(rows: int, table: str) -> tuple[DemoQuery, ...]:
    """The three shapes. The top-k asks for amounts so rare that a row group holds a handful, whatever the size."""
    share = min(0.5, _WANTED_PER_ROW_GROUP * FILES * ROW_GROUPS_PER_FILE / max(1, rows))
    rare = round(2 * share**-_PARETO)
    until = _START + timedelta(microseconds=min(int(rows * 0.85) * MICROSECONDS_APART, _LONGEST_MICROSECONDS))
    return (
        DemoQuery(
            "top-k",
            "What were the 20 latest big purchases before a given moment?",
            "reads all columns of every file that the filter leaves, keeps 20 rows of each task and throws the "
            "rest away",
            "reads the most promising pieces of the files first, and leaves out every piece whose minimum and maximum "
            "show that it cannot hold a later purchase than the 20 it already has",
            f"SELECT *\nFROM {table}\nWHERE amount > {rare} AND event_time < TIMESTAMP "
            f"'{until:%Y-%m-%d %H:%M:%S}'\nORDER BY event_time DESC\nLIMIT 20",
        ),
        DemoQuery(
            "window",
            "At each event, how much was spent in the two seconds before it?",
            'moves all rows into one task ("No Partition Defined for Window operation!") and adds up each frame anew',
            "cuts the time into ranges, gives each range a copy of the few rows of its neighbour that its frames reach "
            "(its halo), and computes all ranges at once, in one pass each",
            "SELECT event_time, event_id, amount,\n"
            "       sum(amount) OVER recent AS spent,\n"
            "       count(*) OVER recent AS events\n"
            f"FROM {table}\n"
            "WINDOW recent AS (ORDER BY event_time RANGE BETWEEN INTERVAL 2 SECONDS PRECEDING AND CURRENT ROW)",
        ),
        DemoQuery(
            "group-by",
            "How much did each customer spend on each search phrase?",
            "looks up every single row in a hash table of the JVM, and moves the groups row by row",
            "groups whole columns at a time in pieces that fit the processor's cache, moves them as columns, and does "
            "without the partial aggregation where it would not make the rows fewer",
            "SELECT user_id, phrase, count(*) AS events, sum(amount) AS spent, max(event_time) AS last_seen\n"
            f"FROM {table}\nGROUP BY user_id, phrase",
            sorted_by=("user_id", "phrase"),
        ),
    )
