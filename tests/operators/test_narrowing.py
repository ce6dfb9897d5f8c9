"""Columns of the few rows that pass a filter: each is decoded once, also if several readers need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from sundog.operators.scan.narrowing import Narrowing
from sundog.parquet.decode.reader import FileReader
from sundog.plan.costs import DRIVER

ROWS = 1000
COLUMNS = {
    "a": pa.array(range(ROWS)),
    "b": pa.array(range(0, 2 * ROWS, 2)),
    "text": pa.array([f"{row} as in a page" for row in range(ROWS)]).cast(pa.string_view()),
}


class Reader:
    """Gives the columns above, and notes which it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def read(self, row_groups: Sequence[int], names: Sequence[str], as_stored: frozenset[str]) -> list[pa.Array]:
        self.asked.append(("all", *names))
        return [COLUMNS[name] for name in names]

    def read_rows(self, row_groups: Sequence[int], names: Sequence[str], rows: Any) -> dict[str, pa.Array]:
        self.asked.append(("few", *names))
        return {
            name: pa.array(COLUMNS[name].to_numpy(zero_copy_only=False)[rows], COLUMNS[name].type) for name in names
        }


def narrowing(reader: Reader, few: Sequence[int] | None = None) -> Narrowing:
    numbers = None if few is None else np.array(few, np.int64)
    return Narrowing(cast(FileReader, reader), [0], ROWS, DRIVER, few=numbers)


def values(rows: Narrowing, *names: str) -> list[list[Any]]:
    return [array.to_pylist() for array in rows.columns(names, frozenset())]


def test_what_a_test_has_read_is_not_decoded_again_for_the_result() -> None:
    reader = Reader()
    rows = narrowing(reader, [3, 50, 700, 999])
    assert values(rows, "a") == [[3, 50, 700, 999]]
    rows.narrow(np.array([True, False, True, True]))
    assert values(rows, "b", "a") == [[6, 1400, 1998], [3, 700, 999]]
    assert reader.asked == [("few", "a"), ("few", "b")]


def test_columns_of_earlier_tests_follow_all_later_ones() -> None:
    reader = Reader()
    rows = narrowing(reader, [3, 50, 700, 999])
    assert values(rows, "a", "text")[0] == [3, 50, 700, 999]
    rows.narrow(np.array([False, True, True, True]))
    assert values(rows, "b") == [[100, 1400, 1998]]
    rows.narrow(np.array([True, True, False]))
    assert values(rows, "text", "a", "b") == [["50 as in a page", "700 as in a page"], [50, 700], [100, 1400]]
    rows.narrow(np.array([False, False]))
    assert values(rows, "a", "b", "text") == [[], [], []]
    assert reader.asked == [("few", "a", "text"), ("few", "b")]


def test_a_column_of_all_rows_serves_the_few_that_a_test_leaves() -> None:
    reader = Reader()
    rows = narrowing(reader)
    assert values(rows, "a") == [list(range(ROWS))]
    rows.narrow(np.isin(np.arange(ROWS), [5, 6]))
    assert rows.are_few
    assert values(rows, "a", "b") == [[5, 6], [10, 12]]
    rows.narrow(np.array([False, True]))
    assert values(rows, "b", "a") == [[12], [6]]
    assert reader.asked == [("all", "a"), ("few", "b")]
