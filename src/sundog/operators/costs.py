"""What operators must be told of the machine's speed: the numbers that they choose sizes and strategies by.

Only their names and meaning stand here. The values, with the measurement of each, are in `plan/costs.py`: its `Costs`
is one of each of these classes, and the planner hands that of the operator's place to the operator's spec. No number
changes an answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from sundog.columns.key_sets import KeySetCosts


@dataclass(frozen=True)
class KeyTableCosts:
    """When keys are numbered by direct addressing instead of hashing (`aggregate/keys/`)."""

    direct_slots: int  # slots of a direct-address table, at most
    direct_strings: int  # distinct strings that are numbered in order of appearance, at most
    direct_rows_per_string: float  # rows for each entry of a batch's dictionary, at least
    direct_rows_per_new_key: int  # rows for each row whose key has no slot yet, at least


@dataclass(frozen=True)
class GroupingCosts(KeyTableCosts):
    """Sizes of batches, tables and buckets of a GROUP BY, and when the partial phase is skipped (`aggregate/`)."""

    min_batch_rows: int  # smaller batches are joined
    max_batch_rows: int  # larger batches are cut
    max_joined_bytes: int  # of batches that are joined
    skip_probe_rows: int  # after which the partial phase judges whether it reduces
    first_skip_rows: int  # passed on ungrouped before it is tried again; doubles each time
    max_new_share: float  # of rows that found a group: above it, grouping is skipped
    max_new_share_direct: float  # the same where keys are numbered by direct addressing
    max_new_share_at_first: float  # the same for the first probe, when every table is empty
    partial_table_groups: int  # of the partial phase's table before it is emitted
    combine_rows: int  # ungrouped rows that are gathered before a shuffle, to be merged if that reduces
    max_combined_share: float  # of groups among them: above it, they are not merged
    scatter_targets: int  # buckets or partitions that rows are scattered to in one pass, at most
    bucket_bytes: int  # keys, hashes and table of a bucket
    unscattered_buckets: float  # groups of so many buckets' bytes are still merged in one
    group_sample_rows: int  # by which the number of groups is estimated
    rows_per_sampled_row: int  # at least; with fewer rows nothing is estimated
    merge_part_rows: int  # partial groups that are merged in one go
    merge_part_bytes: int  # the same in bytes of keys, hashes and table
    exchange_piece_rows: int  # for each target of an exchange, before rows are sent
    exchange_batch_rows: int  # for all targets together, where these are few
    output_batch_rows: int  # of a result
    output_string_bytes: int  # of the strings in a batch of a result


@dataclass(frozen=True)
class BloomFilterCosts:
    """When the Bloom filters of files are asked (`parquet/prune/bloom_filter.py`)."""

    bloom_filter_values: int  # of a column that a query asks for, at most


@dataclass(frozen=True)
class ScanCosts(BloomFilterCosts):
    """How much a scan reads in one go (`scan/`)."""

    scan_run_rows: int  # of several row groups together, if strings are read
    scan_run_rows_of_numbers: int  # the same if all columns are numbers, which are decoded together
    scan_run_bytes: int  # of several row groups together
    string_test_factor: float  # cost of testing a column of strings over that of numbers
    rows_per_late_value: int  # rows for each that passes the tests, from which other columns are decoded for those only
    page_index_rows: int  # of a row group, from which its page index is looked up
    page_index_row_groups: int  # of a task whose pages a filter did not narrow, after which they are not looked up
    assumed_page_rows: int  # of a page, before its index is read
    assumed_pages: int  # of a row group, at least
    max_even_pages_factor: float  # pages that would hold a key if rows were in order, over those that are few enough
    key_filter_probe_rows: int  # rows of a task after which a filter by the keys of a join is judged
    max_key_filter_share: float  # of rows that pass it: above it, the filter is no longer tested


@dataclass(frozen=True)
class JoinCosts(KeySetCosts):
    """How the build side of a join is indexed, and in which pieces joined rows are put out (`join/`)."""

    join_slots: int  # of an index with a slot for each value, at most
    join_slots_per_row: int  # slots for each row of the build side, at most
    join_slots_at_least: int  # slots that are made however few rows there are
    join_batch_rows: int  # of a result


@dataclass(frozen=True)
class TopKCosts(BloomFilterCosts):
    """How a top-k merges and how its rounds grow (`topk/`)."""

    topk_round_growth: int  # factor from one round of row groups to the next
    topk_eager_rows: int  # up to this k, each batch is merged at once, to tighten the threshold early


@dataclass(frozen=True)
class WindowCosts:
    """How a window samples its order keys and what it does about a large halo (`window/`)."""

    sample_rows_per_task: int  # order keys that each task sends
    repetition_probe_rows: int  # rows in which equal keys are counted
    max_range_imbalance: float  # largest range of a cut over that of the most even cut
    min_reduced_halo: float  # halo rows over rows, above which rows of one key are merged before they travel
    min_reduced_repetition: float  # rows of one key in a batch, below which merging is not worth its columns
