"""Page indexes: no page with a row that has a partner is skipped, and an inconsistent index skips nothing."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sundog.columns.key_sets import key_set, rows_passing
from sundog.expr.dynamic_filters.key_set import KeyFilter
from sundog.expr.rank_columns import RankColumn
from sundog.operators.context import TaskContext
from sundog.operators.scan.scan import scan_tasks
from sundog.parquet.meta.chunk_table import COLUMN_INDEX, OFFSET_INDEX
from sundog.parquet.meta.file_layout import FileLayout
from sundog.parquet.meta.footer import FOOTERS
from sundog.parquet.meta.statistics import Bounds
from sundog.parquet.prune.access_plan import plan_access
from sundog.parquet.prune.page_index import PagePruner, even_pages, page_bounds, page_rows
from sundog.parquet.reading import ReadSpec
from sundog.plan.costs import DRIVER
from tests.operators.reference import same_rows
from tests.parquet.files import footer_of, relation

FIRST_DAY = dt.date(1970, 1, 1)
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int32(), st.integers(-50, 50)),
    "long": (pa.int64(), st.one_of(st.sampled_from([-(2**63), 2**63 - 1]), st.integers(-50, 50))),
    "date": (pa.date32(), st.integers(0, 90).map(lambda days: FIRST_DAY + dt.timedelta(days))),
    "decimal": (pa.decimal128(12, 2), st.decimals(-10, 10, places=2)),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, float("nan"), 1.5, float("-inf")])),
    "string": (pa.string(), st.sampled_from(["", "a", "ab", "é", "a" * 70, "a" * 70 + "b", "\U0010ffff" * 20])),
    "bool": (pa.bool_(), st.booleans()),
}
SMALL = replace(DRIVER, page_index_rows=0)
EVERY_PAGE = replace(SMALL, rows_per_late_value=1, page_index_row_groups=9)


def write(path: Path, table: pa.Table, rows: int = 1000) -> Path:
    """Pages of four rows."""
    pq.write_table(table, path, row_group_size=rows, write_page_index=True, max_rows_per_page=4, write_batch_size=2)
    return path


def layout_of(path: Path, schema: pa.Schema) -> FileLayout:
    table = relation([path], schema)
    return FileLayout.of(ReadSpec(table.file_columns), table.files[0], footer_of(path))


def index_of(path: Path, schema: pa.Schema, row_group: int = 0) -> tuple[Bounds | None, Any]:
    layout = layout_of(path, schema)
    with pa.OSFile(str(path)) as source:
        bounds = page_bounds(source, layout, row_group, layout.sources[0])
        pages = 25 if bounds is None else len(bounds)
        return bounds, page_rows(source, layout, row_group, layout.sources[0], pages)


@pytest.mark.parametrize("name", sorted(VALUES))
@settings(max_examples=12)
@given(data=st.data(), in_order=st.booleans(), bits=st.sampled_from([1, DRIVER.key_bits]))
def test_no_row_with_a_partner_is_skipped(
    name: str, data: st.DataObject, in_order: bool, bits: int, tmp_path_factory: Any
) -> None:
    dtype, values = VALUES[name]
    column = pa.array(data.draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=40)), dtype)
    column = column.take(pa.compute.sort_indices(column)) if in_order else column
    table = pa.table(
        {"k": column, "v": np.arange(len(column)), "w": pa.array([f"row {i}" for i in range(len(column))])}
    )
    path = write(tmp_path_factory.mktemp("pages") / "t.parquet", table, data.draw(st.sampled_from([7, 1000])))
    keys = pa.array(data.draw(st.lists(st.one_of(st.none(), values), max_size=3)), dtype)
    wanted = KeyFilter("k", key_set(keys, replace(DRIVER, key_bits=bits)))
    plan = plan_access(relation([path], table.schema), ("k", "v", "w"), None, (wanted,))
    batches = [batch for task in scan_tasks(plan, 1, EVERY_PAGE) for batch in task.read(TaskContext())]
    found = pa.Table.from_batches(batches, table.schema)
    rows = found.column("v").to_pylist()
    expected = table.take(pa.array(rows, pa.int64()))
    assert not rows or same_rows(*(pa.concat_batches(each.to_batches()) for each in (found, expected)))
    passing = np.flatnonzero(rows_passing(wanted, column))
    wanted_values = {canonical(key) for key in keys.to_pylist() if key is not None}
    partners = [row for row, value in enumerate(column.to_pylist()) if canonical(value) in wanted_values]
    # A Bloom filter lets some other rows pass, of which bounds may still rule out pages.
    assert set(partners) <= set(rows) <= set(passing.tolist())
    assert rows == sorted(set(rows))


def canonical(value: Any) -> Any:
    """A value that is equal where Spark's join finds a partner."""
    return "NaN" if isinstance(value, float) and value != value else value


def clustered(tmp_path: Path) -> tuple[Path, pa.Table]:
    table = pa.table({"k": np.arange(200) // 2, "v": np.arange(200), "w": [f"row {i}" for i in range(200)]})
    return write(tmp_path / "t.parquet", table, 100), table


def test_pages_without_a_key_are_not_decoded(tmp_path: Path) -> None:
    path, table = clustered(tmp_path)
    context = TaskContext()
    filters = (KeyFilter("k", key_set(pa.array([3, 60, 61]), DRIVER)),)
    plan = plan_access(relation([path], table.schema), ("v", "w"), None, filters)
    batches = [batch for task in scan_tasks(plan, 1, SMALL) for batch in task.read(context)]
    assert [row for batch in batches for row in batch.column(0).to_pylist()] == [6, 7, 120, 121, 122, 123]
    metrics = context.metrics.as_numbers()
    assert metrics["input_rows"] == 8
    assert metrics["pages_pruned_join_filter"] == 48
    assert metrics["rows_pruned_join_filter"] == 2


def test_a_filter_that_narrows_nothing_is_asked_no_more(tmp_path: Path) -> None:
    path, table = clustered(tmp_path)
    layout = layout_of(path, table.schema)
    everywhere = KeyFilter("k", key_set(pa.array(range(100)), DRIVER))
    few = KeyFilter("k", key_set(pa.array([70]), DRIVER))
    with pa.OSFile(str(path)) as source:
        pruner = PagePruner(replace(SMALL, page_index_row_groups=1))
        assert pruner.rows_left(source, layout, [0, 1], [everywhere]) is None
        assert pruner.rows_left(source, layout, [1], [few]) is None
        left = PagePruner(SMALL).rows_left(source, layout, [1], [everywhere, few])
        assert left is not None
        assert left.numbers.tolist() == [40, 41, 42, 43]
        assert left.pages_pruned == 24
        assert PagePruner(SMALL).rows_left(source, layout, [1], [KeyFilter("k")]) is None
        assert PagePruner(DRIVER).rows_left(source, layout, [1], [few]) is None  # not worth it for so few rows


@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_index_adds_up_or_is_none(data: st.DataObject, tmp_path_factory: Any) -> None:
    path, table = clustered(tmp_path_factory.mktemp("damaged"))
    raw = bytearray(path.read_bytes())
    place = footer_of(path).values.extra(data.draw(st.sampled_from([COLUMN_INDEX, OFFSET_INDEX])), 0, 0)
    assert place is not None
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(place[0], place[0] + place[1] - 1))
        raw[at] = data.draw(st.one_of(st.sampled_from([0, 1, 127, 128, 255]), st.integers(0, 255)))
    path.write_bytes(bytes(raw))
    FOOTERS.clear()
    bounds, counts = index_of(path, table.schema)
    if counts is not None:
        assert int(counts.sum()) == 100
        assert (counts >= 0).all()
        assert len(counts) == (25 if bounds is None else len(bounds))


def test_files_without_an_index_have_none(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"k": np.arange(10)})
    pq.write_table(table, path)
    assert index_of(path, table.schema) == (None, None)


def test_pages_are_not_looked_up_if_most_would_hold_keys_in_any_order() -> None:
    low, high = (RankColumn.of([end], pa.int64()) for end in (-500, 499))
    group = Bounds.stored(pa.int64(), low, high, np.zeros(1, np.int64), np.array([1000]))
    pages = even_pages(group, 10)
    assert pages is not None
    assert pages.low.tolist()[0] == -500
    assert pages.high.tolist()[-1] == 499
    everywhere = KeyFilter("k", key_set(pa.array(range(-500, 500, 50)), DRIVER))
    neighbours = KeyFilter("k", key_set(pa.array(range(-120, -101)), DRIVER))
    assert everywhere.may_hold(pages).all()
    assert neighbours.may_hold(pages).sum() == 1
    assert even_pages(group, 2000) is None
    assert even_pages(Bounds.unknown(pa.int64(), 1, True), 10) is None
