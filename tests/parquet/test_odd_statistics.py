"""Footers as other and older writers write them, made by rewriting a footer: which statistics are used, and which are
ignored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.parquet.meta.thrift import BINARY, FALSE, Struct, read_struct, write_struct
from tests.operators.test_topk_scan import run
from tests.parquet.files import relation, write_file
from tests.parquet.test_statistics import bounds_of

# Field numbers of parquet.thrift
ROW_GROUPS, CREATED_BY, COLUMN_ORDERS = 4, 6, 7
COLUMNS, META_DATA, STATISTICS = 1, 3, 12
OLD_MAX, OLD_MIN, NULL_COUNT, MAX, MIN, MAX_IS_EXACT, MIN_IS_EXACT = 1, 2, 3, 5, 6, 7, 8


def rewrite_footer(path: Path, edit: Callable[[Struct], None]) -> Path:
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    footer, _ = read_struct(content[-8 - length : -8])
    edit(footer)
    written = write_struct(footer)
    path.write_bytes(content[: -8 - length] + written + len(written).to_bytes(4, "little") + b"PAR1")
    return path


def each_statistics(footer: Struct) -> list[Struct]:
    groups = footer[ROW_GROUPS][1][1]
    return [column[META_DATA][1][STATISTICS][1] for group in groups for column in group[COLUMNS][1][1]]


def only_deprecated(footer: Struct) -> None:
    del footer[COLUMN_ORDERS]
    for statistics in each_statistics(footer):
        if MAX in statistics:
            statistics[OLD_MAX], statistics[OLD_MIN] = statistics.pop(MAX), statistics.pop(MIN)


def without(*fields: int) -> Callable[[Struct], None]:
    def edit(footer: Struct) -> None:
        for statistics in each_statistics(footer):
            for field in fields:
                statistics.pop(field, None)

    return edit


def odd_file(tmp_path, groups, edit) -> Path:
    return rewrite_footer(write_file(tmp_path / "odd.parquet", groups), edit)


def test_deprecated_bounds_of_signed_numbers_are_good(tmp_path):
    bounds = bounds_of(odd_file(tmp_path, [pa.table({"c": [3, -5]})], only_deprecated), pa.int64())
    assert (bounds.low[0], bounds.high[0]) == (-5, 3)


@pytest.mark.parametrize("array", [pa.array(["a", "é"]), pa.array([b"\x01", b"\xff"])])
def test_deprecated_bounds_of_strings_are_not(tmp_path, array):
    """They were compared as signed bytes: é before a."""
    bounds = bounds_of(odd_file(tmp_path, [pa.table({"c": array})], only_deprecated), array.type)
    assert (bounds.low[0], bounds.high[0]) == (None, None)


def test_deprecated_bounds_of_unsigned_numbers_are_not(tmp_path):
    table = pa.table({"c": pa.array([1, 2**32 - 1], pa.uint32())})
    bounds = bounds_of(odd_file(tmp_path, [table], only_deprecated), pa.int64())
    assert (bounds.low[0], bounds.high[0]) == (None, None)


@pytest.mark.parametrize("missing", [MAX, MIN])
def test_half_a_pair_of_bounds_is_none(tmp_path, missing):
    bounds = bounds_of(odd_file(tmp_path, [pa.table({"c": [3, -5]})], without(missing)), pa.int64())
    assert (bounds.low[0], bounds.high[0]) == (None, None)


def test_null_count_missing(tmp_path):
    path = odd_file(tmp_path, [pa.table({"c": pa.array([3, None])})], without(NULL_COUNT))
    bounds = bounds_of(path, pa.int64())
    assert (bounds.low[0], bounds.high[0]) == (3, 3)
    assert bounds.null_counts[0] == -1
    assert bounds.nulls[0]


def truncated(footer: Struct) -> None:
    """As the format allows: min cut short, max cut short and then raised, both marked as not exact."""
    for statistics in each_statistics(footer):
        low, high = statistics[MIN][1][:3], statistics[MAX][1][:3]
        statistics[MIN] = (BINARY, low)
        statistics[MAX] = (BINARY, high[:-1] + bytes([high[-1] + 1]))
        statistics[MIN_IS_EXACT] = statistics[MAX_IS_EXACT] = (FALSE, False)


WORDS = [["abcd", "abce"], ["abcx", "abcz"], ["abca", "abcb"], ["zzz1", "abc0"]]


@pytest.mark.parametrize("descending", [True, False])
def test_truncated_bounds_prune_nothing_that_could_win(tmp_path, descending):
    groups = [pa.table({"c": words}) for words in WORDS]
    path = odd_file(tmp_path, groups, truncated)
    assert bounds_of(path, pa.string()).high[0] == b"abd"
    key = SortKey(Column("c", pa.string()), descending, not descending)
    for k in (1, 2, 5, 8):
        result = run(relation([path], groups[0].schema), ["c"], [key], k)
        assert result.column("c") == sorted((w for words in WORDS for w in words), reverse=descending)[:k]


@pytest.mark.parametrize("edit", [only_deprecated, without(NULL_COUNT), without(MAX), without(MAX, MIN, NULL_COUNT)])
@pytest.mark.parametrize("nulls_first", [True, False])
@pytest.mark.parametrize("descending", [True, False])
def test_top_k_over_odd_footers(tmp_path, edit, nulls_first, descending):
    groups = [
        pa.table({"c": pa.array(v, pa.int64())}) for v in ([5, None, 9], [None, None], [1, 2], [40, 30], [7, None])
    ]
    path = odd_file(tmp_path, groups, edit)
    values = sorted((v for g in groups for v in g["c"].to_pylist() if v is not None), reverse=descending)
    expected = [None] * 4 + values if nulls_first else values + [None] * 4
    key = SortKey(Column("c", pa.int64()), descending, nulls_first)
    for k in (1, 3, 6, 11):
        assert run(relation([path], groups[0].schema), ["c"], [key], k).column("c") == expected[:k]


def test_a_nameless_writer(tmp_path):
    def nameless(footer: Struct) -> None:
        del footer[CREATED_BY]

    bounds = bounds_of(odd_file(tmp_path, [pa.table({"c": [3, -5]})], nameless), pa.int64())
    assert (bounds.low[0], bounds.high[0]) == (-5, 3)
