"""The declarations of all metrics: name, level, category, meaning.

A task counts into a `Metrics`; the driver merges those of all tasks into the run's. Names are public
(`Run.metrics`), and `docs/reference/metrics.md` is generated from this table. Counting under an undeclared name is an
error, so that a misspelt name is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import TypeVar

from sundog.errors import InternalError

T = TypeVar("T")


class Level(Enum):
    SUMMARY = "summary"
    DEV = "dev"


class Category(Enum):
    ROWS = "rows"
    BYTES = "bytes"
    TIMING = "timing"


@dataclass(frozen=True)
class Metric:
    name: str
    category: Category
    doc: str
    level: Level = Level.SUMMARY
    merge_with_max: bool = False


def _declare(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


METRICS: dict[str, Metric] = _declare(
    # every plan
    Metric("input_rows", Category.ROWS, "Rows decoded from files or received from Spark, each counted once."),
    Metric("rows_read_again", Category.ROWS, "Rows decoded a second time: for a sample, or for a neighbour's range."),
    Metric("output_rows", Category.ROWS, "Rows that left the plan."),
    Metric("tasks", Category.ROWS, "Tasks run, on driver threads or executors.", Level.DEV),
    Metric("stages", Category.ROWS, "Stages run.", Level.DEV),
    Metric("rows_filtered", Category.ROWS, "Rows that a WHERE removed after decoding."),
    # scan
    Metric("files_total", Category.ROWS, "Files of the relation after Spark's partition pruning."),
    Metric(
        "footers_read_executors", Category.ROWS, "Footers that executors read for the plan of a table of many files."
    ),
    Metric("files_pruned_statistics", Category.ROWS, "Files that WHERE and file statistics rule out at the start."),
    Metric("files_pruned_dynamic_filter", Category.ROWS, "Files that the live threshold ruled out as a whole."),
    Metric("row_groups_total", Category.ROWS, "Row groups of the files."),
    Metric("row_groups_scanned", Category.ROWS, "Row groups of which at least one column was decoded."),
    Metric(
        "row_groups_pruned_statistics", Category.ROWS, "Row groups that WHERE and statistics rule out at the start."
    ),
    Metric(
        "row_groups_pruned_bloom_filter",
        Category.ROWS,
        "Row groups that hold none of the values of a WHERE or of a join's keys, by the Bloom filters of their file.",
    ),
    Metric(
        "row_groups_pruned_initial_threshold",
        Category.ROWS,
        "Row groups that the threshold derived from statistics alone rules out before anything is decoded.",
    ),
    Metric(
        "row_groups_pruned_dynamic_filter",
        Category.ROWS,
        "Row groups skipped at run time because the live threshold had tightened past their statistics.",
    ),
    Metric("row_groups_never_reached", Category.ROWS, "Row groups left unread because enough rows had been found."),
    Metric("rows_pruned_dynamic_filter", Category.ROWS, "Decoded rows dropped by the live threshold."),
    Metric("predicate_evaluation_errors", Category.ROWS, "Pruning checks that failed; the row group was then read."),
    Metric("bytes_scanned", Category.BYTES, "Compressed bytes of the column chunks read."),
    Metric("bytes_decoded", Category.BYTES, "Uncompressed bytes of the column chunks decoded."),
    Metric("row_groups_materialized", Category.ROWS, "Row groups reopened to fetch the winners' other columns."),
    # topk
    Metric("topk_rounds", Category.ROWS, "Rounds of scan tasks, each with the threshold of all rounds before."),
    Metric("threshold_updates", Category.ROWS, "Times the threshold tightened (its generation).", Level.DEV),
    Metric("subplans_shared", Category.ROWS, "Subplans that were computed once and read several times."),
    # join
    Metric("join_build_rows", Category.ROWS, "Rows of build sides of joins."),
    Metric("join_probe_rows", Category.ROWS, "Rows that were looked up in build sides."),
    Metric(
        "join_probes_skipped", Category.ROWS, "Tasks of a join that read no probe rows, as the build side is empty."
    ),
    Metric(
        "row_groups_pruned_join_filter",
        Category.ROWS,
        "Row groups that hold no key of a join's build side, by their statistics.",
    ),
    Metric(
        "pages_pruned_join_filter",
        Category.ROWS,
        "Pages of key columns that hold no key of a join's build side, by the page index of their file.",
    ),
    Metric("files_pruned_join_filter", Category.ROWS, "Files that hold no key of a join's build side."),
    Metric(
        "rows_pruned_join_filter",
        Category.ROWS,
        "Rows dropped because their key is not in a join's build side, before their other columns were decoded.",
    ),
    Metric(
        "join_filters_given_up",
        Category.ROWS,
        "Key filters that a task stopped testing its rows by, as they dropped too few; one for each task and filter.",
    ),
    Metric(
        "join_rows_spread",
        Category.ROWS,
        "Probe rows of an exchanged join with a frequent key, or with a NULL as key, spread over several partitions.",
    ),
    Metric(
        "join_rows_replicated",
        Category.ROWS,
        "Copies of build rows of an exchanged join that went to the other partitions of a frequent key.",
    ),
    # exchange
    Metric("exchange_blocks", Category.ROWS, "Arrow blocks moved between stages.", Level.DEV),
    Metric("exchange_bytes", Category.BYTES, "Bytes of Arrow blocks moved between stages."),
    Metric("exchange_rows", Category.ROWS, "Rows moved between stages."),
    # window
    Metric("rows_routed", Category.ROWS, "Rows sent to ranges: owned rows and halo rows."),
    Metric("halo_rows", Category.ROWS, "Rows sent to a range that only borrows them."),
    Metric("halo_rows_unreduced", Category.ROWS, "Halo rows there would be without pre-aggregating equal keys."),
    Metric("ranges", Category.ROWS, "Ranges that the order key was cut into."),
    Metric("window_input_rows", Category.ROWS, "Rows that went into windows, each counted once.", Level.DEV),
    Metric("window_rows", Category.ROWS, "Rows that windows gave out; equals window_input_rows.", Level.DEV),
    # aggregate
    Metric("groups", Category.ROWS, "Groups in the final aggregation."),
    Metric("partial_input_rows", Category.ROWS, "Rows entering the partial aggregation."),
    Metric("partial_output_rows", Category.ROWS, "Partial groups leaving the partial aggregation."),
    Metric(
        "partial_aggregation_skipped",
        Category.ROWS,
        "Rows that skipped the partial aggregation, since it did not reduce them.",
    ),
    Metric(
        "partial_aggregations_given_up",
        Category.ROWS,
        "Tasks that stopped grouping in a partial aggregation, at least for some rows, since it did not reduce.",
    ),
    Metric("spill_count", Category.ROWS, "Spill files written."),
    Metric("spilled_bytes", Category.BYTES, "Bytes written to spill files."),
    Metric(
        "early_emits",
        Category.ROWS,
        "Times a partial aggregation emitted its groups early to stay within its memory.",
        Level.DEV,
    ),
    Metric("peak_memory_bytes", Category.BYTES, "Largest reservation of any one task.", Level.DEV, merge_with_max=True),
    # time, added up over tasks
    Metric("compute_seconds", Category.TIMING, "Time in operators.", Level.DEV),
    Metric("exchange_seconds", Category.TIMING, "Time in writing and reading exchange blocks.", Level.DEV),
)


class Metrics:
    """Counters of one task or of one run. Cheap to make, pickled as a dict."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, float] | None = None) -> None:
        self._values: dict[str, float] = dict(values or {})

    def add(self, name: str, amount: float = 1) -> None:
        if name not in METRICS:
            raise InternalError(f"metric {name!r} is not declared in sundog/metrics.py")
        if METRICS[name].merge_with_max:
            self._values[name] = max(self._values.get(name, 0), amount)
        else:
            self._values[name] = self._values.get(name, 0) + amount

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self.add(name, perf_counter() - start)

    def timed_each(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """The same items; only the time until each was there counts."""
        source = iter(items)
        while True:
            with self.timed(name):
                item = next(source, None)
            if item is None:
                return
            yield item

    def merge(self, other: Metrics | Mapping[str, float]) -> None:
        for name, value in (other.as_dict() if isinstance(other, Metrics) else other).items():
            self.add(name, value)

    def get(self, name: str) -> float:
        return self._values.get(name, 0)

    def as_dict(self) -> dict[str, float]:
        return dict(self._values)

    def as_numbers(self) -> dict[str, float]:
        """Values for display: counts as whole numbers, times as fractions."""
        return {
            name: value if METRICS[name].category is Category.TIMING else int(value)
            for name, value in self._values.items()
        }


class OperatorCounts:
    """The counts of one operator of a stage: rows, bytes and batches that left it, and its own metrics.

    `seconds`: time until its batches were there, including that of the operators below it. `inside`: for an input that
    takes several steps, the counts of those below the first, in their order.
    """

    __slots__ = ("batches", "bytes", "inside", "metrics", "rows", "seconds")

    def __init__(self) -> None:
        self.rows = 0
        self.bytes = 0
        self.batches = 0
        self.seconds = 0.0
        self.metrics = Metrics()
        self.inside: list[OperatorCounts] = []

    def add(self, rows: int, size: int) -> None:
        """One more batch."""
        self.rows += rows
        self.bytes += size
        self.batches += 1

    def inner(self, step: int) -> OperatorCounts:
        """The counts of a step of `inside`, counted from 1; made at the first request."""
        while len(self.inside) < step:
            self.inside.append(OperatorCounts())
        return self.inside[step - 1]

    @property
    def all_metrics(self) -> Metrics:
        """The metrics of all its steps together."""
        total = Metrics(self.metrics.as_dict())
        for each in self.inside:
            total.merge(each.metrics)
        return total

    def merge(self, other: OperatorCounts) -> None:
        self.merge_values(other.as_values())

    def merge_values(self, values: OperatorValues) -> None:
        rows, size, batches, seconds, metrics, inside = values
        self.rows += int(rows)
        self.bytes += int(size)
        self.batches += int(batches)
        self.seconds += seconds
        self.metrics.merge(metrics)
        for step, each in enumerate(inside, 1):
            self.inner(step).merge_values(each)

    def as_values(self) -> OperatorValues:
        """Plain values, to be sent from an executor to the driver."""
        inside = tuple(each.as_values() for each in self.inside)
        return self.rows, self.bytes, self.batches, self.seconds, self.metrics.as_dict(), inside


OperatorValues = tuple[float, float, float, float, dict[str, float], "tuple[OperatorValues, ...]"]


def chain_counts(operators: int) -> list[OperatorCounts]:
    """Counters for a stage with `operators` operators: of its input, of each operator, of its output."""
    return [OperatorCounts() for _ in range(operators + 2)]
