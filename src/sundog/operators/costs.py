"""What operators must be told of the machine's speed: the numbers that they choose sizes and strategies by.

Only their names and meaning stand here. The values, with the measurement of each, are in `plan/costs.py`: its `Costs`
is one of each of these classes, and the planner hands that of the operator's place to the operator's spec. No number
changes an answer.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    bucket_bytes: int  # keys, hashes and table of a bucket
    unscattered_buckets: float  # groups of so many buckets' bytes are still merged in one
    group_sample_rows: int  # by which the number of groups is estimated
    rows_per_sampled_row: int  # at least; with fewer rows nothing is estimated
    merge_part_rows: int  # partial groups that are merged in one go
    merge_part_bytes: int  # the same in bytes of keys, hashes and table
    exchange_piece_rows: int  # for each target of an exchange, before rows are sent
    exchange_batch_rows: int  # for all targets together, where these are few
    output_batch_rows: int  # of a result


@dataclass(frozen=True)
class ScanCosts:
    """How much a scan reads in one go (`scan/`)."""

    scan_run_rows: int  # of several row groups together, if strings are read
    scan_run_rows_of_numbers: int  # the same if all columns are numbers, which are decoded together
    scan_run_bytes: int  # of several row groups together
    rows_per_late_string: int  # rows for each that passes a WHERE, from which only the strings of those are copied


@dataclass(frozen=True)
class TopKCosts:
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
