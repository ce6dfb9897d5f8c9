"""Costs: the numbers that strategies and sizes are chosen by, one set for each place.

The planner compares strategies by these numbers, and hands operators those that they need
(`operators/costs.py`). Beside each stands the measurement that it was taken from, or the reason for a number that was
chosen without one: "a rule", which bounds memory or divides it fairly, or "not measured".
"With a quarter, this, 4 times" are processor seconds of a case by `sundog bench --sweep` (10 million rows of `hits`;
TPC-H at scale 1, where nine queries are q02, 05, 08, 09, 15, 17, 18, 20 and 21). They scatter by a tenth; where they
are alike, the number hardly matters.

`sundog doctor --calibrate` measures the main ones on the user's own machine and cluster and writes them to a file,
which `spark.sundog.costs` names. `sundog.explain(df, costs=True)` prints those that a plan was made with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from sundog.columns.narrow import NarrowCosts
from sundog.errors import ConfigError
from sundog.operators.costs import GroupingCosts, JoinCosts, ScanCosts, TopKCosts, WindowCosts
from sundog.parquet.decode.late import LateCosts

SETTING = "spark.sundog.costs"
EXPECTED = "a JSON object of cost names and positive numbers, or the path of a file with one"
_GREATEST = 10**18  # what is computed from two such numbers is a finite float


def _cost(default: float, measured: str, may_be_zero: bool = False) -> Any:
    """A number with the measurement that it was taken from. `may_be_zero`: the planner never divides by it."""
    return field(default=default, metadata={"measured": measured, "may_be_zero": may_be_zero})


@dataclass(frozen=True)
class Costs(ScanCosts, LateCosts, JoinCosts, GroupingCosts, TopKCosts, WindowCosts, NarrowCosts):
    """The numbers of one place. `DRIVER` and `EXECUTORS` are those of the machine that sundog is developed on.

    The base classes declare the costs that operators use; those declared here are for the planner only. `origins`:
    where the numbers come from that are not those declared here, as pairs of name and text.
    """

    origins: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    decode_ns_per_byte: float = _cost(1.25, "4 MiB of column chunks are decoded in some 5 ms")
    task_bytes: int = _cost(4 << 20, "a rule: a task of less input takes less time than it takes to start it")
    scan_tasks_per_slot: int = _cost(4, "a task costs 0.1 ms on a thread; small ones balance load")
    final_tasks_per_slot: int = _cost(
        2, "4 M rows, hits-users with half, this, 4 times: 0.15, 0.15, 0.14 s; h2o-q3: 0.10, 0.10, 0.10 s"
    )
    grouping_task_bytes: int = _cost(
        256 << 20,
        "each task that groups builds its own table of the same groups; h2o-q3 of 4 M rows with a quarter, this, 4 "
        "times: 0.09, 0.09, 0.09 s",
    )
    unsplit_exchange_rows: int = _cost(
        1 << 16,
        "one task groups them faster than they are split up; h2o-q3 of 4 M rows with a quarter, this, 4 times: 0.10, "
        "0.09, 0.09 s",
        may_be_zero=True,
    )
    small_step_bytes: int = _cost(
        64 << 20, "one thread decodes them in 80 ms, less than a Spark job takes", may_be_zero=True
    )
    broadcast_bytes: int = _cost(
        64 << 20,
        "a rule: one side of a join, sent to every executor and held by every worker, at most",
        may_be_zero=True,
    )
    min_broadcast_bytes: int = _cost(
        1 << 16, "a rule: of a value of an operator, below which each task carries it", may_be_zero=True
    )
    min_mapped_bytes: int = _cost(
        1 << 20,
        "227 MiB a worker instead of 410, for 0.9 s of 8.6: below, all copies of an executor are small",
        may_be_zero=True,
    )
    join_memory_factor: float = _cost(
        4,
        "peak memory of joining two exchanged sides over column bytes in files; over those in memory, two sides of 4 M "
        "rows of two integers: 2.8 by hash, 1.6 by slots; of 3 M rows of four: 2.0",
    )
    min_hot_key_factor: float = _cost(
        1.0, "a rule: a key of more rows than an average partition makes its partition twice as long as the others"
    )
    min_hot_key_sample: int = _cost(
        16, "rows of a key in a sample, of which the share is known to a quarter of itself by the spread of samples"
    )
    max_hot_keys: int = _cost(256, "a row of both sides is searched for in 8 ns among 1 key, 41 ns among 256")
    hot_key_sample_rows: int = _cost(
        1 << 16,
        "of each batch of a few row groups: a share of 1 % is known to a 25th of itself, by the spread of samples",
    )
    max_misjudged_broadcast: float = _cost(
        4, "a rule: times broadcast_bytes, beyond which a side that was estimated smaller is not sent"
    )
    max_unkeyed_pairs: int = _cost(
        1 << 26,
        "20 M pairs of a full outer join without equal keys in one task: 14 ns each; Spark compares them in all slots",
        may_be_zero=True,
    )
    max_build_share: float = _cost(
        0.5,
        "a rule: of the memory of a process, for build sides; the rest is for rows and groups",
        may_be_zero=True,
    )
    max_output_share: float = _cost(
        0.25,
        "a rule: of the machine's memory, for what one stage puts out on the driver; Spark has the query beyond it",
    )
    held_rows: int = _cost(
        2_000_000, "a rule: rows of the probe side, at most, for it to be held and its keys to prune the build side"
    )
    min_held_pruning: float = _cost(
        4,
        "rows of the other side per held row, at least. Nine of TPC-H with a quarter, this, 4 times: 5.6, 6.0, 6.0 s",
    )
    shared_bytes: int = _cost(
        256 << 20,
        "a rule: rows of a subplan that is computed once and held, a quarter of a task's memory at most",
        may_be_zero=True,
    )
    min_shared_reads: float = _cost(
        1.2,
        "reads of a subplan by its places, after filters; nine of TPC-H with a quarter, this, 4 times: 5.9, 5.8, 6.0 s",
    )
    kept_by_equality: float = _cost(
        0.05, "63 conditions = of TPC-H, TPC-DS and ClickBench: geometric mean 0.06, quartiles 0.02, 0.10, 0.25"
    )
    kept_by_range: float = _cost(
        0.3, "124 comparisons of the same: geometric mean 0.39, quartiles 0.42, 0.50, 0.76; two of them make a BETWEEN"
    )
    kept_by_match: float = _cost(0.05, "7 patterns of the same: quartiles 0.002, 0.01, 0.17")
    kept_by_other: float = _cost(
        0.5, "other conditions, semi joins; nine of TPC-H with a quarter, this, 4 times: 5.7, 5.8, 6.0 s"
    )
    groups_per_row: float = _cost(
        0.2, "groups of a row; nine queries of TPC-H with a quarter, this, 4 times: 6.0, 6.3, 5.8 s"
    )
    number_bytes: int = _cost(8, "bytes of a value of a build side, by its type")
    string_bytes: int = _cost(
        32, "a string of a build side with its offset: 30 bytes in TPC-H, 15 in TPC-DS, 37 in hits"
    )
    footer_job_files: int = _cost(
        1000, "a footer of 10 row groups takes 2 to 3 processor ms to read, check and keep; a Spark job some 0.3 s"
    )
    probe_row_groups: int = _cost(3, "a rule: row groups whose first rows show how many keys there are")
    sample_row_groups: int = _cost(8, "a rule: row groups whose keys show where to cut ranges of equal depth")
    sample_row_groups_per_range: float = _cost(
        2.0,
        "a rule: row groups of a sample for each range that it cuts; h2o window q2 with 8 of 16 row groups, with all: "
        "0.17, 0.20 s",
        may_be_zero=True,
    )
    max_computed_sums: int = _cost(
        16, "without keys: 90 computed sums over 10 M rows took Spark 3.8 s, and us 6.9", may_be_zero=True
    )
    gather_groups: int = _cost(
        300_000, "a rule: partial groups that the driver merges faster than a shuffle moves them", may_be_zero=True
    )
    min_merged_groups: int = _cost(
        100_000,
        "partial groups to gather; 4 threads of 75,000: 6 ms more on executors, 3 less on the driver",
        may_be_zero=True,
    )
    shuffle_ns_per_row: float = _cost(
        134.0, "some 150 ns through two Python workers and the shuffle; fitted to 8 queries both ways", may_be_zero=True
    )
    shuffle_ns_per_byte: float = _cost(2.7, "some 3 ns in the same queries", may_be_zero=True)
    hold_per_shuffle: float = _cost(
        0.6, "240 MiB take 0.7 s from Python to Spark and back, and 1.2 s where they are shuffled as well"
    )
    gathered_keys: int = _cost(
        8_000_000,
        "a rule: keys of an exchanged build side that the driver collects, 64 MiB",
        may_be_zero=True,
    )
    reread_factor: float = _cost(
        1.6, "a byte is decoded in 1.25 ns; decoded, hashed or compared, and mostly dropped in 2"
    )
    max_clustered_reads: float = _cost(
        1.5, "a rule: reads of a row, above which moving it in memory is cheaper", may_be_zero=True
    )
    max_scattered_reads: float = _cost(
        1.5,
        "the same for few ranges of a scattered key",
        may_be_zero=True,
    )
    max_shares: int = _cost(
        8, "a rule: tasks that each read all rows; with more the shuffle is as fast for all but narrow rows"
    )
    few_slots: int = _cost(
        4,
        "a rule: slots up to which tasks may each read most of a table, if that costs less than moving its rows",
    )
    max_process_slots: int = _cost(
        8, "a rule: threads of one process on an executor, which share a GIL and a stream of rows"
    )
    max_reads_by_many: float = _cost(
        2,
        "a rule: reads of a row with more slots than that, so that a task reads less the more of them there are",
    )
    max_exchange_partitions: int = _cost(1000, "a rule: partitions of one exchange, beyond which blocks become tiny")
    sort_memory_factor: float = _cost(
        8,
        "peak memory over column bytes in files; over those in memory, 144 MB of numbers sorted, a sum of 100 rows or "
        "row_number: 3.3, with strings 3.6; dictionaries make files smaller",
    )
    one_range_memory_factor: float = _cost(
        4, "a running sum of doubles, all rows of 3 budgets in one range: 3.5 times the bytes of its columns"
    )
    sort_range_rows: int = _cost(
        1 << 19, "100-row average of 10 M rows: 1.12 processor seconds in 4 ranges, 0.96 in 16, 1.10 in 32"
    )
    max_summary_bytes: int = _cost(
        64 << 20, "a rule: rows at the ends of ranges that tasks send to the driver, of all tasks and ranges together"
    )
    key_partitions_per_range: float = _cost(
        2.0,
        "4 M rows of hits by user: the largest of 16 partitions by hash has 1.07 times the rows of an average one, of "
        "64 1.28 times, of 256, where one key is a whole partition, 2.1 times",
    )
    waiting_part_share: float = _cost(
        0.75,
        "of what is merged at once: the largest of 16 parts by hash has 1.08 times the rows of an average one, of 64 "
        "1.38 times, in the same rows",
    )
    share_memory_factor: float = _cost(
        1.25, "a rule: memory of a share of the keys while it is merged over that of its rows"
    )
    filtered_read_factor: float = _cost(
        2, "a rule: bytes the driver may read under a WHERE over bytes that it may hold"
    )
    local_read_factor: float = _cost(
        4,
        "bytes the driver may read in a local session, whose executors have no other processor, over those elsewhere; "
        "TPC-H q21 at scale 10: 9 s instead of 54, beside other work",
    )
    max_local_share: float = _cost(
        0.2,
        "a rule: of the machine's memory, for bytes that the driver reads so; q21 took 3.9 GB, the others of six 2.5",
    )
    waiting_share: float = _cost(0.25, "a rule: of a task's memory, for blocks of an exchange that wait for others")
    settings_share: float = _cost(
        0.75, "a rule: of what settings give Python for a task, where that is more than 1 GiB; the rest is for others"
    )
    max_task_memory_bytes: int = _cost(4 << 30, "a rule: budget of a task that nobody has set")
    machine_share: float = _cost(
        0.5, "a rule: of an executor's machine or container, for threads of one process; the rest is the JVM's"
    )

    scan_run_rows: int = _cost(
        131_072, "q03 with a quarter, this, 4 times: 0.37, 0.40, 0.38 s; q12: 0.32, 0.36, 0.29 s"
    )
    scan_run_rows_of_numbers: int = _cost(
        524_288, "q03 with a quarter, this, 4 times: 0.40, 0.34, 0.38 s; q12: 0.31, 0.32, 0.33 s"
    )
    scan_run_bytes: int = _cost(
        64 << 20, "small row groups read together; hits-users with a quarter, this, 4 times: 0.68, 0.64, 0.70 s"
    )
    max_whole_bytes: int = _cost(256 << 20, "a rule: of one task's columns of row groups in memory at once")
    whole_memory_share: float = _cost(
        0.125, "a rule: while they are decoded, as much is there as it was stored, and as much of those before"
    )
    run_memory_share: float = _cost(0.0625, "a rule: scan_run_bytes of the default budget; smaller ones, fewer at once")
    row_group_overhead_bytes: int = _cost(
        50_000,
        "1,000 small row groups of two columns: 65 us each, the time to decode this many bytes",
        may_be_zero=True,
    )
    limit_batch_rows: int = _cost(1024, "a rule: fewer rows take as long: what a batch costs beside its rows")
    rows_per_gathered_row: int = _cost(
        10, "100,000 rows of 10 columns, 1 in 100 kept: gathered in 0.11 ms, by mask in 0.14; 1 in 10: 0.24, 0.27"
    )
    assumed_passing_share: float = _cost(
        0.5, "TPC-H at scale 0.3, q03 with a quarter, this, 4 times: 0.08, 0.07, 0.09 s; q12: 0.06, 0.05, 0.06 s"
    )
    string_test_factor: float = _cost(
        4.0, "q03 with a quarter, this, 4 times: 0.43, 0.46, 0.45 s; q12: 0.27, 0.28, 0.27 s"
    )
    rows_per_late_value: int = _cost(
        4, "q03 with a quarter, this, 4 times: 0.53, 0.45, 0.39 s; q12: 0.44, 0.30, 0.28 s"
    )
    key_filter_probe_rows: int = _cost(
        1 << 16, "q03 with a quarter, this, 4 times: 0.50, 0.44, 0.47 s; q12: 0.35, 0.34, 0.33 s"
    )
    page_index_rows: int = _cost(
        1 << 16, "an index is read in 0.3 to 0.6 ms, in which 70,000 rows of five columns are scanned", may_be_zero=True
    )
    page_index_row_groups: int = _cost(
        2,
        "4 M rows in key order, few keys in each row group: 9 ms by pages, 34 without; no loss if none is skipped",
        may_be_zero=True,
    )
    assumed_page_rows: int = _cost(20_000, "rows of a page of Spark's and Arrow's writers, at most")
    assumed_pages: int = _cost(
        16, "8 M rows in Spark's files by 27 keys, with a quarter, this, 4 times: 0.24, 0.25, 0.26 s"
    )
    max_even_pages_factor: float = _cost(
        2.0, "the same by 4, 27, 134 keys: 0.18, 0.17, 0.17; 0.25, 0.24, 0.26; 0.34, 0.32, 0.30 s"
    )
    max_key_filter_share: float = _cost(
        0.75,
        "a row is tested in 1 to 6 ns, and looked up by the join in 1 to 10: some must be dropped",
        may_be_zero=True,
    )
    bloom_filter_values: int = _cost(
        64,
        "a filter with 1 % of false answers rules out 53 % of row groups without any of 64 values, 8 % of 256",
        may_be_zero=True,
    )
    key_bits: int = _cost(1 << 28, "a rule: a bitmap of 32 MiB, the keys of a table of a quarter billion rows")
    key_bits_per_key: int = _cost(
        64, "1 M keys: 6 ns a row by a bitmap of 64 values a key, 23 of 256; 5 by a Bloom filter"
    )
    key_bits_at_least: int = _cost(
        1 << 23, "a bitmap of 1 MiB is tested in 2 ns a row, the Bloom filter of few keys in 3", may_be_zero=True
    )
    bloom_bits_per_key: int = _cost(16, "0.5 % of other keys pass; with 8 bits 3.4 %, with 32 0.1 %")
    sorted_keys: int = _cost(1 << 20, "this many keys are sorted in 40 ms", may_be_zero=True)
    key_strings: int = _cost(
        1 << 14, "a row is tested in 32 ns against 16,384 strings, in 213 against 131,072", may_be_zero=True
    )
    rows_per_key_string: int = _cost(64, "a million rows are searched for distinct strings in 43 ms")
    join_slots: int = _cost(
        1 << 29, "a rule: 2 GiB of slots; nine queries of TPC-H with a quarter, this, 4 times: 5.6, 5.8, 5.8 s"
    )
    join_slots_per_row: int = _cost(
        16, "200,000 keys in 16 slots each: 10 ns a look-up, by hash 30; in 64 each, building takes longer than by hash"
    )
    join_slots_at_least: int = _cost(
        1 << 16,
        "10,000 keys: 1 ns a look-up, by hash 15 to 28; 256 KiB stay in the second cache level",
        may_be_zero=True,
    )
    join_batch_bytes: int = _cost(
        128 << 20, "a rule: of joined rows at once in a task; `join_batch_rows` of 256 bytes, more than most rows have"
    )
    join_batch_rows: int = _cost(
        1 << 19, "q03 with a quarter, this, 4 times: 0.45, 0.41, 0.40 s; q12: 0.30, 0.34, 0.38 s"
    )
    min_batch_rows: int = _cost(1 << 15, "hits-users with a quarter, this, 4 times: 0.64, 0.63, 0.68 s")
    max_batch_rows: int = _cost(1 << 19, "hits-users with a quarter, this, 4 times: 0.64, 0.63, 0.60 s")
    max_joined_bytes: int = _cost(
        1 << 28,
        "few rows of long strings are no small batch; hits-pairs with a quarter, this, 4 times: 1.61, 1.55, 1.52 s",
    )
    skip_probe_rows: int = _cost(1 << 16, "hits-users with a quarter, this, 4 times: 0.57, 0.58, 0.91 s")
    hinted_probe_rows: int = _cost(
        1 << 13, "an eighth of the other probe: 100,000 keys show 96 % new groups in this many rows"
    )
    first_skip_rows: int = _cost(1 << 20, "hits-users with a quarter, this, 4 times: 0.70, 0.56, 0.56 s")
    max_new_share: float = _cost(
        0.5,
        "hits-users with a quarter, this, 4 times: 0.52, 0.51, 0.51 s",
        may_be_zero=True,
    )
    max_new_share_direct: float = _cost(
        0.8,
        "3 ns a row by direct addressing, 6 by hash: cheap enough to pay where it reduces little",
        may_be_zero=True,
    )
    max_new_share_at_first: float = _cost(
        0.9,
        "100,000 keys look new in an empty table; h2o-q3 with a quarter, this, 4 times: 2.31, 1.11, 1.24 s",
        may_be_zero=True,
    )
    partial_table_groups: int = _cost(1 << 17, "hits-users with a quarter, this, 4 times: 0.55, 0.50, 0.53 s")
    combine_rows: int = _cost(
        1 << 23, "merging before a shuffle takes 50 ns a row at most, looking up each in the table 200"
    )
    max_combined_share: float = _cost(
        0.7,
        "4 M groups of which 0.25, 0.55, 0.69, 0.95 are distinct: merged in 51, 60, 33, 29 ns each; a row of 12 bytes "
        "through the shuffle, by its costs 166 ns, is saved for the others",
        may_be_zero=True,
    )
    direct_slots: int = _cost(1 << 18, "10 M rows by a string and an integer: 3 ns a row by slots of 1 MB, 6 by hash")
    direct_strings: int = _cost(
        1 << 12, "h2o-q1 with a quarter, this, 4 times: 0.10, 0.12, 0.11 s; h2o-q2: 0.19, 0.17, 0.19 s"
    )
    direct_rows_per_string: float = _cost(
        8.0, "h2o-q1 with a quarter, this, 4 times: 0.11, 0.12, 0.11 s; h2o-q3: 1.07, 1.07, 1.11 s", may_be_zero=True
    )
    direct_rows_per_new_key: int = _cost(
        4, "h2o-q1 with a quarter, this, 4 times: 0.12, 0.11, 0.11 s; h2o-q3: 1.24, 1.25, 1.34 s"
    )
    direct_slots_per_row: float = _cost(
        2.0, "h2o-q4 of 4 M rows with a quarter, this, 4 times: 0.05, 0.06, 0.05 s; h2o-q5: 0.08, 0.07, 0.07 s"
    )
    spare_slots_share: float = _cost(
        0.125,
        "h2o-q4 of 4 M rows with a quarter, this, 4 times: 0.05, 0.05, 0.07 s; h2o-q5: 0.07, 0.07, 0.08 s",
        may_be_zero=True,
    )
    scatter_targets: int = _cost(
        64, "a pass to more targets than the processor can translate addresses of costs 8 ns a row instead of 2"
    )
    bucket_bytes: int = _cost(
        1 << 19, "5 M distinct keys: 41 ns a row in one table, 6 in 64 buckets that fit the second cache level"
    )
    unscattered_buckets: float = _cost(
        2.0, "100 M rows of 1 M groups in 64 partitions: 2.2 s in buckets, 1.6 to 1.9 s in one", may_be_zero=True
    )
    sampled_parts: int = _cost(64, "a 64th of 8 M rows is merged in 5 ms, and shows the share of groups to 1 %")
    group_sample_rows: int = _cost(1 << 13, "hits-users with a quarter, this, 4 times: 0.47, 0.47, 0.52 s")
    rows_per_sampled_row: int = _cost(32, "hits-users with a quarter, this, 4 times: 0.52, 0.54, 0.50 s")
    merge_part_rows: int = _cost(1 << 21, "hits-users with a quarter, this, 4 times: 0.58, 0.55, 0.52 s")
    merge_part_bytes: int = _cost(
        48 << 20, "partitions by the width of their keys took 7 % off the h2o benchmark's q10, a tenth off q3 and q7"
    )
    max_unspilled_share: float = _cost(
        0.5,
        "a rule: halved groups stay in memory, others go to disk; 4 M rows into 1 M to 4 M groups with 24 and 48 MiB: "
        "0.25 to 0.95 spill as much and take as long",
        may_be_zero=True,
    )
    exchange_piece_rows: int = _cost(
        1 << 14, "100 M rows to 67 targets in pieces of a row group: handing these over was half the time"
    )
    max_exchange_pieces: int = _cost(
        4, "4 M rows, hits-users with a quarter, this, 4 times: 0.17, 0.14, 0.14 s; h2o-q3: 0.10, 0.10, 0.10 s"
    )
    exchange_batch_rows: int = _cost(1 << 19, "where targets are few, a tenth of the time of small pieces is saved")
    output_batch_rows: int = _cost(1 << 17, "hits-users with a quarter, this, 4 times: 0.57, 0.55, 0.55 s")
    output_string_bytes: int = _cost(
        64 << 20, "h2o-q3 with a quarter, this, 4 times: 1.21, 1.10, 1.20 s; hits-pairs: 2.18, 1.87, 2.20 s"
    )
    topk_round_growth: int = _cost(
        4, "rounds are logarithmic; topk/unsorted, one round: no difference between a quarter and 4 times"
    )
    topk_eager_rows: int = _cost(
        4096, "topk/unsorted with a quarter, this, 4 times: 0.31, 0.33, 0.34 s", may_be_zero=True
    )
    topk_pending_share: float = _cost(
        0.5,
        "8 M random rows, k 100,000, with 0.125, this, 1, 2: 0.17, 0.09, 0.07, 0.06 s, and as much more memory",
    )
    max_late_rows_share: float = _cost(
        0.5,
        "a column of 100,000 strings: all in 9.6 ms, one page of five in 1.4: in proportion to pages",
        may_be_zero=True,
    )
    max_late_bytes_share: float = _cost(
        0.8, "the same: in proportion to bytes, so that pages of nearly the whole chunk gain nothing", may_be_zero=True
    )
    sample_rows_per_task: int = _cost(
        4096, "hits-range-10s with a quarter, this, 4 times: 0.88, 0.91, 0.86 s; h2o window q2: 1.01, 1.00, 1.08 s"
    )
    places_of_row_group: int = _cost(64, "a cut through a row group is known to a 64th of its keys")
    max_places: int = _cost(1 << 20, "a million row groups and 2,000 ranges that read their own: planned in 1.4 s")
    repetition_probe_rows: int = _cost(1 << 15, "hits-range-10s with a quarter, this, 4 times: 0.97, 1.02, 1.02 s")
    max_range_imbalance: float = _cost(1.5, "h2o window q2 with a quarter, this, 4 times: 0.97, 0.94, 2.41 s")
    min_reduced_halo: float = _cost(
        0.1,
        "hits-range-10s with a quarter, this, 4 times: 0.99, 0.91, 0.93 s; h2o window q2: 0.87, 0.86, 1.05 s",
        may_be_zero=True,
    )
    min_reduced_repetition: float = _cost(
        2.0, "hits-range-10s with a quarter, this, 4 times: 0.98, 1.03, 0.96 s", may_be_zero=True
    )

    min_coded_rows: int = _cost(
        1 << 14,
        "10 and 3,000 different strings of 12 bytes, a byte in sockets 4.4 ns: as numbers 45 and 18 ns a row less in a "
        "block of 16,384 rows, 37 less and 6 more in one of 8,192",
    )
    coded_sample_strings: int = _cost(
        1024,
        "of 262,144: counted in 0.13 to 0.17 ms, 4,096 in 0.17 to 0.35, 16,384 in 0.29 to 1.5; 30,000 different ones "
        "show as 0.98, 0.94 and 0.77",
    )
    max_coded_sample_share: float = _cost(
        0.9,
        "262,144 strings of 12 bytes as numbers: 3,000 different ones show as 0.85, 41 ns a row less; 30,000 as 0.98, "
        "29 less; 120,000 as 0.99, 43 more",
        may_be_zero=True,
    )
    max_coded_bytes_share: float = _cost(
        0.5,
        "of 12-byte strings 24, 48 and 66 % left: 2.0, 4.6 and 12 ns for each byte saved, which takes 4.4 in sockets",
        may_be_zero=True,
    )
    narrow_sample_values: int = _cost(
        64,
        "131,072 random numbers or instants: 4 to 1,024 take as long, 16,384 up to 0.3 ns a value more, all up to 1.4",
    )

    query_seconds: float = _cost(
        0.8,
        "processor time of a top-k that reads one row group, local[1] to local[4], busy; for `sundog simulate` only",
    )
    task_seconds: float = _cost(0.03, "of a Spark task that does nothing; this and those below for `sundog simulate`")
    job_seconds: float = _cost(0.1, "of a Spark job of few tasks that do nothing")
    footer_ns: float = _cost(6.5e5, "processor time of a footer of 10 row groups, read and kept: 0.61 to 0.66 ms")
    scan_ns_per_row: float = _cost(
        5.0, "beside decoding; this and those below: 3.75 M rows of two integers, one thread"
    )
    group_ns_per_row: float = _cost(80.0, "3.75 M rows into 1 M partial groups of count and sum: 82 ns a row")
    merge_ns_per_row: float = _cost(40.0, "1 M partial groups: 41 ns each")
    sort_ns_per_row: float = _cost(52.0, "by a random integer; 2 ns a row that is in order already")
    window_ns_per_row: float = _cost(20.0, "a RANGE sum 22 ns, row_number 5")
    other_ns_per_row: float = _cost(4.0, "keeping the rows of a range 4 ns, dropping its halo 3")

    learnt_runs: int = _cost(
        2, "runs of a shape before it is compared: the first compiles kernels, reads footers and warms caches"
    )
    min_loss_seconds: float = _cost(
        0.05, "less is not worth a run on Spark, and is within what two runs of one query differ by", may_be_zero=True
    )
    min_loss_share: float = _cost(0.1, "of Spark's time: medians of one case differ by as much", may_be_zero=True)
    max_learnt_growth: float = _cost(
        3.0, "a rule: of Spark's time over the learnt one, beyond which constants select other amounts of rows"
    )
    spark_start_seconds: float = _cost(0.1, "what Spark takes at least to plan a query and run a job")
    spark_operator_seconds: float = _cost(
        0.045,
        "and for each join, aggregate, window or sort; of 125 queries of TPC-H and TPC-DS 13 take Spark less than "
        "these costs together, and no loss on executors is missed; with 0.07 it was 24 queries, and 7 of 8 losses",
    )
    spark_ns_per_row: float = _cost(60.0, "and for each row read, on one core", may_be_zero=True)
    spark_ns_per_group: float = _cost(
        1000.0,
        "and for each group: 10 M groups of hits-unique and h2o-q10 2,000 and 3,700 ns each, so half and less",
        may_be_zero=True,
    )
    spark_ns_per_window_row: float = _cost(
        700.0, "and for each row of a window: a running sum 1,360, row_number 1,520 ns, so half", may_be_zero=True
    )

    hand_over_ns_per_row: float = _cost(120.0, "10 M rows to Python: 225 ns with one number, 608 with five")
    hand_over_ns_per_number: float = _cost(105.0, "from the same measurement, of each number")
    hand_over_ns_per_string: float = _cost(160.0, "the same: 277 ns a row with one string, 419 with a number too")
    spark_join_ns_per_row: float = _cost(
        130.0, "4 M rows looked up in 1,000 or 1 M rows of CSV: 100 to 170 ns each on Spark, some 10 with sundog"
    )
    spark_join_seconds: float = _cost(
        0.07, "a rule: Spark's time for a join beside that of its rows: a stage, code to compile"
    )
    spark_few_groups_ns_per_row: float = _cost(300.0, "GROUP BY of 2.1 M cached rows: 9,000 groups 180 to 340 ns")
    spark_many_groups_ns_per_row: float = _cost(850.0, "0.4 and 1 M groups of one column 870 and 890 ns, by user 1,300")
    spark_many_groups_ns_per_column: float = _cost(
        200.0, "the same by user and phrase 1,650 ns, by id and address with three aggregates 1,850"
    )
    spark_few_groups: int = _cost(
        250_000, "groups where sundog overtakes: with 0.1 M Spark 560 ns and sundog 650, with 0.4 M 960 and 730"
    )
    spark_window_ns_per_row: float = _cost(
        1450.0, "2.1 M cached rows: a running sum 1,360 ns, row_number 1,520 to 1,730"
    )
    spark_frame_ns_per_value: float = _cost(19.0, "the same with frames of 11 rows 1,630 ns, of 101 rows 3,350 ns")
    min_spark_rows_seconds: float = _cost(
        1.0, "processor time of the probe, two more jobs and their workers: 0 to 1.3 s in these", may_be_zero=True
    )
    first_key_rows: int = _cost(1 << 15, "10,000 even keys show 9,600 distinct ones, a million 32,200")
    max_misjudged_rows: float = _cost(4, "a rule: rows of a file over a guess by its bytes, at most")

    def spark_seconds(self, operators: int, slots: int, rows: float, groups: float, window_rows: float) -> float:
        """A low estimate of plain Spark's time for a query that read `rows` rows."""
        start = self.spark_start_seconds + operators * self.spark_operator_seconds
        work_ns = rows * self.spark_ns_per_row + groups * self.spark_ns_per_group
        return start + (work_ns + window_rows * self.spark_ns_per_window_row) / 1e9 / slots

    def is_loss(self, sundog_seconds: float, spark_seconds: float) -> bool:
        """Whether Spark is so much faster that the query should be Spark's."""
        return sundog_seconds - spark_seconds > max(self.min_loss_seconds, self.min_loss_share * spark_seconds)

    @property
    def shuffle_row_in_reread_bytes(self) -> float:
        """Bytes that are read once more, by a task that may drop them, in the time of a row through the shuffle."""
        return self.shuffle_ns_per_row / (self.decode_ns_per_byte * self.reread_factor)

    @property
    def shuffle_byte_in_reread_bytes(self) -> float:
        return self.shuffle_ns_per_byte / (self.decode_ns_per_byte * self.reread_factor)

    def changed_by(self, values: Mapping[str, Any], origin: str = f"set by {SETTING}") -> Costs:
        """These costs with some numbers of the user's. Raises ConfigError for an unknown name or an invalid number."""
        numbers: dict[str, Any] = {}
        for name, value in values.items():
            number = _number(COST_FIELDS[name], value) if name in COST_FIELDS else None
            if number is None:
                raise ConfigError.bad_value(SETTING, json.dumps({name: value}, default=repr), EXPECTED)
            numbers[name] = number
        texts = {name: f"{origin}; sundog's own is {getattr(self, name):,}" for name in numbers}
        return self._with(numbers, texts)

    def measured_as(self, values: Mapping[str, tuple[float, str]]) -> Costs:
        """These costs with some numbers that were measured at another place, each with its measurement."""
        numbers = {name: value for name, (value, _) in values.items()}
        return self._with(numbers, {name: measured for name, (_, measured) in values.items()})

    def _with(self, numbers: Mapping[str, Any], origins: Mapping[str, str]) -> Costs:
        return replace(self, **numbers, origins=tuple({**dict(self.origins), **origins}.items()))

    def lines(self) -> list[str]:
        """One line for each number, with its source: first the planner's numbers, then those of operators."""
        of_operators = {each.name for own in Costs.__bases__ for each in fields(own)}
        origins = dict(self.origins)
        return [
            f"{name}={getattr(self, name):,}  ({origins.get(name, COST_FIELDS[name].metadata['measured'])})"
            for name in sorted(COST_FIELDS, key=of_operators.__contains__)
        ]


COST_FIELDS: dict[str, Field[Any]] = {each.name: each for each in fields(Costs) if "measured" in each.metadata}


def _number(cost: Field[Any], value: object) -> float | None:
    """The value as this cost takes it, a fraction of a byte or row cut off; None if it cannot be: NaN is not, nor
    infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _GREATEST:
        return None
    number = int(value) if isinstance(cost.default, int) else float(value)
    return number if number > 0 or cost.metadata["may_be_zero"] else None


DRIVER = Costs()
EXECUTORS = DRIVER.measured_as(
    {
        "scan_tasks_per_slot": (
            2,
            "a Spark task costs some 30 ms; with 4, grouping 10 M rows into few took half as long again",
        ),
        "max_scattered_reads": (
            4.0,
            "a row takes some 130 ns through the shuffle, and 25 ns to be decoded and dropped again",
        ),
    }
)


@dataclass(frozen=True)
class SiteCosts:
    """The costs of both places."""

    driver: Costs = DRIVER
    executors: Costs = EXECUTORS


def read_costs(text: str) -> SiteCosts:
    """The costs that a session's setting asks for: those of this module, where it does not say otherwise.

    The JSON object has numbers for both places, or objects `driver` and `executors` with numbers for one.
    """
    text = text.strip()
    return _read(text, _identity(text)) if text else SiteCosts()


@lru_cache(maxsize=8)
def _read(text: str, _: tuple[int, ...] | None) -> SiteCosts:
    try:
        values = json.loads(text if text.startswith("{") else Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        hint = "Unset it, or write the file with `sundog doctor --calibrate FILE`."
        raise ConfigError(f"{SETTING}={text!r} cannot be read: {error.strerror or error}. {hint}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError.bad_value(SETTING, text, EXPECTED) from error
    if not isinstance(values, dict):
        raise ConfigError.bad_value(SETTING, text, EXPECTED)
    places = {place: values.pop(place, {}) for place in ("driver", "executors")}
    if not all(isinstance(own, dict) for own in places.values()):
        raise ConfigError.bad_value(SETTING, text, EXPECTED)
    origin = f"set by {SETTING}" if text.startswith("{") else f"from {text}, which {SETTING} names"
    return SiteCosts(
        DRIVER.changed_by(values | places["driver"], origin), EXECUTORS.changed_by(values | places["executors"], origin)
    )


def _identity(text: str) -> tuple[int, ...] | None:
    """What changes when the file does, so that a new calibration is read at the next action."""
    if text.startswith("{"):
        return None
    try:
        status = Path(text).stat()
    except (OSError, ValueError):
        return None  # reading it says what is wrong
    return status.st_mtime_ns, status.st_size, status.st_ino
