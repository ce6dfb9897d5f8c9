"""A range's rows in window order against Python's stable sort: every type with its extremes, NaN, zeros and NULLs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.kernels.windows import word_sort
from sundog.operators.window.frames.sorting import sorted_table
from tests.operators.window.cases import KEY_TYPES, SETTINGS
from tests.operators.window.reference import plain, sort_rows
from tests.oracle.batches import arrow_arrays

SORTED_TYPES = [*KEY_TYPES, pa.bool_(), pa.string()]


@st.composite
def sort_cases(draw: st.DrawFn) -> tuple[pa.Table, list[Column], list[SortKey]]:
    """Up to three keys, in chunks; few values, so that rows tie; `id` and `text` travel along."""
    count = draw(st.integers(0, 60))
    types = draw(st.lists(st.sampled_from(SORTED_TYPES), min_size=1, max_size=3))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns = {}
    for number, dtype in enumerate(types):
        nulls = draw(st.booleans())
        pool = draw(arrow_arrays(dtype, 1, draw(st.sampled_from([1, 4, 30])), nulls=nulls))
        columns[f"k{number}"] = pool.take(pa.array(random.integers(0, len(pool), count)))
    columns["id"] = pa.array(range(count), pa.int64())
    columns["text"] = pa.array([f"row {number}" if number % 3 else None for number in range(count)], pa.string())
    table = pa.table(columns)
    cut = draw(st.integers(0, count))
    keys = [Column(f"k{number}", dtype) for number, dtype in enumerate(types)]
    segments = draw(st.integers(0, len(keys) - 1))
    order = [SortKey(key, draw(st.booleans()), draw(st.booleans())) for key in keys[segments:]]
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)]), keys[:segments], order


@SETTINGS
@given(sort_cases())
def test_rows_come_out_as_from_a_stable_sort(case):
    """Segments come in any order, each of them sorted."""
    table, partition_by, order_by = case
    found = sorted_table(table, partition_by, order_by)
    assert found.schema.equals(table.schema)
    assert sorted(found.column("id").to_pylist()) == list(range(table.num_rows))
    for start, stop in segments_of(found, partition_by):
        part = found.slice(start, stop - start)
        by_id = part.take(pa.array(np.argsort(part.column("id").to_numpy())))
        assert sort_rows(by_id, [], order_by).column("id").to_pylist() == part.column("id").to_pylist()
    by_id = found.sort_by("id")
    for name in table.column_names:
        found_values, given_values = (plain(each.column(name).combine_chunks()) for each in (by_id, table))
        assert repr(found_values) == repr(given_values)


def segments_of(table, partition_by):
    """Runs of equal partition keys; as many as there are partitions."""
    columns = [plain(table.column(expr.name).combine_chunks()) for expr in partition_by]
    keys = [tuple(canonical(column[row]) for column in columns) for row in range(table.num_rows)]
    starts = [row for row in range(len(keys)) if row == 0 or keys[row] != keys[row - 1]]
    assert len(starts) == len(set(keys))
    return list(zip(starts, [*starts[1:], len(keys)], strict=False))


def canonical(value):
    """NaN equals NaN and -0.0 equals 0.0."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [dtype for dtype in SORTED_TYPES if not pa.types.is_string(dtype)], ids=str)
@SETTINGS
@given(st.data())
def test_one_key_of_one_word_with_the_extremes_of_its_type(dtype, descending, data):
    array = data.draw(arrow_arrays(dtype, 2, 40, nulls=False))
    table = pa.table({"k": array, "id": pa.array(range(len(array)), pa.int64())})
    order = [SortKey(Column("k", dtype), descending, not descending)]
    expected = sort_rows(table, [], order)
    assert sorted_table(table, [], order).column("id").to_pylist() == expected.column("id").to_pylist()


class TestStrategies:
    """Which way a sort takes shows in which kernels run."""

    order = (SortKey(Column("k", pa.int32())),)

    @pytest.fixture
    def passes(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        taken: list[str] = []
        for name in ("radix_pass", "settle_ties"):
            kernel = getattr(word_sort, name)
            monkeypatch.setattr(word_sort, name, self.watched(name, kernel, taken))
        return taken

    @staticmethod
    def watched(name, kernel, taken):
        def run(*given):
            taken.append(name)
            return kernel(*given)

        return run

    def table(self, keys, dtype=None):
        return pa.table({"k": pa.array(keys, dtype or pa.int32()), "v": pa.array(np.arange(len(keys)) / 8)})

    def test_rows_in_order_are_given_back_as_they_are(self, passes):
        table = self.table([1, 1, 2, 3, 3])
        assert sorted_table(table, [], self.order) is table
        assert passes == []

    def test_rows_in_order_of_two_keys_are_given_back_as_they_are(self, passes):
        table = self.table([1, 1, 2, 3, 3])
        order = [*self.order, SortKey(Column("v", pa.float64()))]
        assert sorted_table(table, [], order) is table
        assert passes == []

    def test_a_shuffled_int_takes_a_pass_for_ten_bits(self, passes):
        keys = np.random.default_rng(0).permutation(1 << 20) + 5
        found = sorted_table(self.table(keys), [], self.order)
        assert passes == ["radix_pass", "radix_pass"]
        assert found.column("k").to_pylist() == sorted(keys.tolist())

    def test_two_narrow_keys_share_a_word(self, passes):
        table = pa.table({"k": pa.array([3, 1, 3, 1], pa.int32()), "j": pa.array([1, 2, 0, 1], pa.int32())})
        found = sorted_table(table, [], [*self.order, SortKey(Column("j", pa.int32()), True, False)])
        assert passes == ["radix_pass"]
        assert list(zip(*(found.column(name).to_pylist() for name in "kj"), strict=True)) == [
            (1, 2),
            (1, 1),
            (3, 1),
            (3, 0),
        ]

    def test_words_that_differ_in_all_bits_are_not_sorted_by_digits(self, passes):
        keys = [2**63 - 1, -(2**63), 0, -(2**63)]
        found = sorted_table(self.table(keys, pa.int64()), [], [SortKey(Column("k", pa.int64()))])
        assert passes == ["settle_ties"]
        assert found.column("v").to_pylist() == [1 / 8, 3 / 8, 2 / 8, 0]
