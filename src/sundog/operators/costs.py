"""The cost numbers that operators choose sizes and strategies by: names and meaning.

The values, with the measurement of each, are in `plan/costs.py`: its `Costs` derives from all of these classes, and the
planner puts those of the operator's place into the operator's spec. No number changes an answer.
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
    direct_slots_per_row: float  # slots for the keys of one batch, for each of its rows, at most
    spare_slots_share: float  # of the range of integers that were met, kept free on both sides of it


@dataclass(frozen=True)
class GroupingCosts(KeyTableCosts):
    """Sizes of batches, tables and buckets of a GROUP BY, and when the partial aggregation is skipped
    (`aggregate/`)."""

    min_batch_rows: int  # smaller batches are joined
    max_batch_rows: int  # larger batches are cut
    max_joined_bytes: int  # of batches that are joined
    skip_probe_rows: int  # after which the partial aggregation judges whether it reduces
    hinted_probe_rows: int  # the same at first, if it did not reduce in another task of the process
    first_skip_rows: int  # passed on ungrouped before it is tried again; doubles each time
    max_new_share: float  # of rows that make a new group: above it, grouping is skipped
    max_new_share_direct: float  # the same where keys are numbered by direct addressing
    max_new_share_at_first: float  # the same for the first probe, when every table is empty
    partial_table_groups: int  # of the partial aggregation's table before it is emitted
    combine_rows: int  # ungrouped rows that are gathered before a shuffle, to be merged if that reduces
    max_combined_share: float  # of groups among them: above it, they are not merged
    scatter_targets: int  # buckets or partitions that rows are scattered to in one pass, at most
    bucket_bytes: int  # keys, hashes and table of a bucket
    unscattered_buckets: float  # groups of up to this many buckets are merged without scattering
    sampled_parts: int  # hash parts, of which one is merged to estimate the groups of all
    group_sample_rows: int  # rows from which the number of groups is estimated
    rows_per_sampled_row: int  # at least; fewer rows are not sampled
    merge_part_rows: int  # partial groups that are merged in one go
    merge_part_bytes: int  # the same in bytes of keys, hashes and table
    max_unspilled_share: float  # of what waited: if merging leaves more of it, the rest goes to disk
    exchange_piece_rows: int  # for each target of an exchange, before rows are sent
    max_exchange_pieces: int  # for each target at once, where these are few
    exchange_batch_rows: int  # for all targets together then
    output_batch_rows: int  # of a result
    output_string_bytes: int  # of the strings in a batch of a result


@dataclass(frozen=True)
class FilterCosts:
    """How the rows that pass a WHERE are copied (`filter.py`)."""

    rows_per_gathered_row: int  # rows for each that passes, above which those are gathered and not copied by a mask


@dataclass(frozen=True)
class ReadCosts:
    """How row groups are read, by a scan and by the search of a top-k (`scan/`, `topk/`)."""

    bloom_filter_values: int  # values a column is compared with, at most, for Bloom filters to be read
    max_whole_bytes: int  # of row groups that are decoded as a whole; larger ones are decoded in parts
    whole_memory_share: float  # of a task's memory, the same

    def whole_bytes(self, memory_bytes: int) -> int:
        """Bytes that a task with this memory decodes as a whole."""
        return min(self.max_whole_bytes, int(memory_bytes * self.whole_memory_share))


@dataclass(frozen=True)
class ScanCosts(ReadCosts, FilterCosts):
    """How much a scan reads at once (`scan/`)."""

    scan_run_rows: int  # of several row groups together, if strings are read
    scan_run_rows_of_numbers: int  # the same if all columns are numbers, which are decoded together
    scan_run_bytes: int  # of several row groups together
    run_memory_share: float  # of a task's memory, for the columns of several row groups together
    row_group_overhead_bytes: int  # added to the bytes of each row group when work is distributed
    limit_batch_rows: int  # of a batch of LIMIT without an order, at least
    assumed_passing_share: float  # of the rows of a test that has not been made yet
    string_test_factor: float  # cost of testing a column of strings over that of numbers
    rows_per_late_value: int  # rows per passing row, from which on other columns are decoded for passing rows only
    page_index_rows: int  # of a row group, from which its page index is looked up
    page_index_row_groups: int  # row groups of a task whose pages no filter narrowed, after which no index is read
    assumed_page_rows: int  # of a page, before its index is read
    assumed_pages: int  # of a row group, at least
    max_even_pages_factor: float  # pages that would hold a key if rows were in order, over those that are few enough
    key_filter_probe_rows: int  # rows of a task after which a key filter is judged
    max_key_filter_share: float  # of rows that pass it: above it, the filter is no longer tested


@dataclass(frozen=True)
class JoinCosts(KeySetCosts):
    """How the build side of a join is indexed, and in which pieces joined rows are put out (`join/`)."""

    join_slots: int  # of an index with a slot for each value, at most
    join_slots_per_row: int  # slots for each row of the build side, at most
    join_slots_at_least: int  # slots that are allowed however few rows there are
    join_batch_rows: int  # of a result
    join_batch_bytes: int  # of a result, as the average of its rows tells


@dataclass(frozen=True)
class TopKCosts(ReadCosts):
    """How a top-k merges and how its rounds grow (`topk/`)."""

    topk_round_growth: int  # factor from one round of row groups to the next
    topk_eager_rows: int  # up to this k, each batch is merged at once, to tighten the threshold early
    topk_pending_share: float  # of a larger k: rows that wait before they are merged


@dataclass(frozen=True)
class WindowCosts:
    """How a window samples its order keys and reduces a large halo (`window/`)."""

    sample_rows_per_task: int  # order keys that each task sends
    places_of_row_group: int  # sampled keys of a row group, at most, where its statistics are the sample
    max_places: int  # the same of all row groups together
    repetition_probe_rows: int  # rows in which equal keys are counted
    max_range_imbalance: float  # largest range of a cut over that of the most even cut
    min_reduced_halo: float  # halo rows over rows, above which rows of one key are merged before they are sent
    min_reduced_repetition: float  # rows of one key in a batch, below which merging is not worth its columns
