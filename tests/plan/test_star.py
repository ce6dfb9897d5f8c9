"""A star query that selects one row in a hundred of a dimension: which part of the fact table is read.

Counters, not times. Over a clustered key under 5 % of the row groups are read; over a random key the other columns are
decoded for under 5 % of the rows, be they numbers or strings, with and without a dictionary. The report draws the same
scan.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sundog.expr.calls import AggregateCall, JoinKey, JoinKind, NamedExpr
from sundog.expr.nodes import Column, Compare, CompareOp, Literal
from sundog.plan.logical import Aggregate, Filter, Join, LogicalPlan, Scan
from sundog.report.charts.row_groups import row_group_map
from sundog.report.details import RowGroupState, ScanDetails
from sundog.report.pictures import shapes_of
from sundog.tables.parquet_folder import ParquetFolder
from sundog.tables.table import DataFile, FileColumn
from tests.plan.test_joins import metric
from tests.plan.test_lower import Planned, run

LONG, TEXT = pa.int64(), pa.string()
ROWS, ROW_GROUPS, KEYS = 256_000, 128, 10_000
KEY_OF = {"clustered": Column("clustered#1", LONG), "random": Column("random#2", LONG)}


def scan_of(path: Path, label: str, table: pa.Table, first_id: int, **options: Any) -> Scan:
    pq.write_table(table, path, **options)
    status = path.stat()
    file = DataFile(str(path), status.st_size, status.st_mtime_ns // 1_000_000)
    names = [f"{field.name}#{first_id + at}" for at, field in enumerate(table.schema)]
    columns = tuple(FileColumn(name, field.name, field.type) for name, field in zip(names, table.schema, strict=True))
    return Scan(ParquetFolder((file,), columns, label=label), tuple(names))


@pytest.fixture(scope="module")
def star(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scan, Scan]:
    """Facts in the order of `clustered`; a dimension of 10,000 keys in a hundred regions of neighbours."""
    folder = tmp_path_factory.mktemp("star")
    at = np.arange(ROWS)
    columns = {"clustered": at * KEYS // ROWS, "random": at * 7919 % KEYS, "price": at % 1000, "amount": at % 77}
    facts = scan_of(folder / "facts.parquet", "facts", pa.table(columns), 1, row_group_size=ROWS // ROW_GROUPS)
    keys = np.arange(KEYS)
    regions = pa.array([f"region {key // 100}" for key in keys.tolist()])
    return facts, scan_of(folder / "dim.parquet", "dim", pa.table({"id": keys, "region": regions}), 11)


def query(star: tuple[Scan, Scan], key: Column) -> LogicalPlan:
    """`SELECT amount, sum(price) FROM facts JOIN dim ON key = id WHERE region = 'region 42' GROUP BY amount`"""
    facts, dimension = star
    wanted = Compare(CompareOp.EQ, Column("region#12", TEXT), Literal("region 42", TEXT))
    both = Join(facts, Filter(dimension, wanted), JoinKind.INNER, (JoinKey(key, Column("id#11", LONG)),))
    amount = NamedExpr("amount#4", Column("amount#4", LONG))
    return Aggregate(both, (amount,), (AggregateCall("s#90", "sum", (Column("price#3", LONG),), LONG),))


@pytest.fixture(scope="module", params=["dictionary", "plain"])
def texts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, star: tuple[Scan, Scan]) -> Scan:
    """Facts of a random key and a string, of which each row group has 2,000 others."""
    at = np.arange(ROWS)
    names = pa.array([f"customer number {number % 50_000}" for number in at.tolist()])
    path = tmp_path_factory.mktemp("texts") / f"{request.param}.parquet"
    options: dict[str, Any] = {"row_group_size": ROWS // ROW_GROUPS, "use_dictionary": request.param == "dictionary"}
    return scan_of(path, "facts", pa.table({"random": at * 7919 % KEYS, "customer": names}), 31, **options)


def of_facts(planned: Planned) -> dict[str, float]:
    """What the scan of the fact table counted: the one with a filter."""
    counted = [record.operators[0].metrics.as_dict() for record in planned.records]
    [found] = [each for each in counted if "rows_pruned_join_filter" in each]
    return found


def expected(key: str) -> tuple[int, int]:
    at = np.arange(ROWS)
    keys = at * KEYS // ROWS if key == "clustered" else at * 7919 % KEYS
    kept = keys // 100 == 42
    return int(kept.sum()), int((at % 1000)[kept].sum())


@pytest.mark.parametrize("key", ["clustered", "random"])
def test_a_star_query_reads_little_of_its_fact_table(star: tuple[Scan, Scan], key: str) -> None:
    found = run(query(star, KEY_OF[key]))
    rows, total = expected(key)
    assert sum(sum(batch.column(1).to_pylist()) for batch in found.rows) == total
    assert metric(found, "join_probe_rows") == rows
    counted = of_facts(found)
    if key == "clustered":
        assert counted["row_groups_scanned"] < 0.05 * ROW_GROUPS
        assert metric(found, "row_groups_pruned_join_filter") == ROW_GROUPS - counted["row_groups_scanned"]
        assert f"128 row groups -> {counted['row_groups_scanned']:.0f}" in found.text
    else:
        assert counted["input_rows"] == ROWS
        assert counted["input_rows"] - counted["rows_pruned_join_filter"] == rows < 0.05 * ROWS
        others = counted["bytes_decoded"] - whole_bytes(star[0], "random")
        assert 0 < others < 0.05 * (whole_bytes(star[0], "price") + whole_bytes(star[0], "amount"))
        assert "128 row groups -> 128" in found.text


def test_a_star_query_decodes_few_strings_of_its_fact_table(texts: Scan, star: tuple[Scan, Scan]) -> None:
    """`SELECT max(customer), count(*) FROM texts JOIN dim ON random = id WHERE region = 'region 42'`"""
    wanted = Compare(CompareOp.EQ, Column("region#12", TEXT), Literal("region 42", TEXT))
    keys = (JoinKey(Column("random#31", LONG), Column("id#11", LONG)),)
    both = Join(texts, Filter(star[1], wanted), JoinKind.INNER, keys)
    calls = (
        AggregateCall("m#90", "max", (Column("customer#32", TEXT),), TEXT),
        AggregateCall("n#91", "count", (), LONG),
    )
    found = run(Aggregate(both, (), calls))
    at = np.arange(ROWS)
    kept = at[at * 7919 % KEYS // 100 == 42]
    greatest = max(f"customer number {number % 50_000}" for number in kept.tolist())
    assert [batch.to_pylist() for batch in found.rows if batch.num_rows] == [[{"m#90": greatest, "n#91": len(kept)}]]
    counted = of_facts(found)
    assert counted["input_rows"] == ROWS
    assert counted["input_rows"] - counted["rows_pruned_join_filter"] == len(kept) < 0.05 * ROWS
    strings = counted["bytes_decoded"] - whole_bytes(texts, "random")
    assert 0 < strings < 0.05 * whole_bytes(texts, "customer")


def whole_bytes(scan: Scan, name: str) -> int:
    metadata = pq.read_metadata(scan.table.files[0].path)
    at = metadata.schema.names.index(name)
    groups = range(metadata.num_row_groups)
    return sum(metadata.row_group(group).column(at).total_uncompressed_size for group in groups)


def test_the_report_draws_the_row_groups_of_the_probe_side(star: tuple[Scan, Scan]) -> None:
    found = run(query(star, KEY_OF["clustered"]))
    [details] = [each for each in shapes_of(found.graph, found.records) if isinstance(each, ScanDetails)]
    states = [mark.state for mark in details.row_groups]
    read = states.count(RowGroupState.READ)
    assert read == of_facts(found)["row_groups_scanned"]
    assert states.count(RowGroupState.PRUNED_JOIN_FILTER) == ROW_GROUPS - read
    assert (details.table, details.filters) == ("facts", ("clustered#1 (100 keys)",))
    middle = details.row_groups[states.index(RowGroupState.READ)]
    assert middle.low is not None
    assert middle.high is not None
    assert middle.low.position <= 4200 <= middle.high.position
    drawn = row_group_map(details)
    assert drawn is not None
    assert sum("pruned by the keys of a join" in bar.text for bar in drawn.bars) == ROW_GROUPS - read
    assert "in the table" in drawn.bars[0].text
