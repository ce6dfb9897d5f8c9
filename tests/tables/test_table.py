"""Planning a scan needs only the protocol `Table`: a table format written here is read as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sundog.expr.nodes import Column, Compare, CompareOp, Expr, Literal
from sundog.expr.rank_columns import RankColumn
from sundog.operators.context import TaskContext
from sundog.operators.scan.scan import scan_tasks
from sundog.parquet.meta.statistics import Bounds
from sundog.parquet.problems import FileSchemaProblem
from sundog.parquet.prune.access_plan import plan_access
from sundog.parquet.reading import DataFile, FileColumn, PartitionColumn, ReadOptions
from sundog.plan.costs import DRIVER
from sundog.plan.logical import Scan
from sundog.support import Code, Declined
from sundog.tables.parquet_folder import ParquetFolder
from sundog.tables.table import Table
from tests.parquet.files import data_file, write_file

X = Column("x#1", pa.int64())


class ManifestStatistics:
    """Bounds that a manifest holds for files: a slot for each."""

    def __init__(self, bounds: list[tuple[int, int]]) -> None:
        self.rows = np.ones(len(bounds), np.int64)
        self._bounds = bounds

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Bounds:
        low, high = (RankColumn.of(ends, X.dtype) for ends in zip(*self._bounds, strict=True))
        return Bounds.stored(X.dtype, low, high, np.zeros(len(self), np.int64), self.rows)


@dataclass(frozen=True)
class Manifest:
    """A table whose files are listed with their bounds, and whose column has another name in them."""

    files: tuple[DataFile, ...]
    bounds: dict[str, tuple[int, int]] = field(hash=False)
    file_columns: tuple[FileColumn, ...] = (FileColumn("x#1", "col-7f3a", pa.int64()),)
    partition_columns: tuple[PartitionColumn, ...] = ()
    options: ReadOptions = field(default_factory=ReadOptions)
    filesystem: tuple[tuple[str, str], ...] = ()
    label: str = "manifest"
    snapshot: str | None = "4711"

    def known_statistics(self, files: Sequence[DataFile]) -> ManifestStatistics:
        return ManifestStatistics([self.bounds[file.path] for file in files])


def at_least(value: int) -> Expr:
    return Compare(CompareOp.GE, X, Literal(value, pa.int64()))


def table(tmp_path: Path) -> Table:
    low, high = (write_file(tmp_path / f"{n}.parquet", [pa.table({"col-7f3a": [n, n + 1]})]) for n in (0, 100))
    return Manifest((data_file(low), data_file(high)), {str(low): (0, 1), str(high): (100, 101)})


def test_its_columns_are_found_by_the_names_that_it_gives_them(tmp_path: Path) -> None:
    scan = Scan(table(tmp_path), ("x#1",))
    assert scan.schema == pa.schema([("x#1", pa.int64())])
    tasks = scan_tasks(plan_access(scan.table, scan.columns, scan.predicate), 1, DRIVER)
    batches = [batch for task in tasks for batch in task.read(TaskContext())]
    assert pa.Table.from_batches(batches).column("x#1").to_pylist() == [0, 1, 100, 101]


def test_a_file_that_its_statistics_rule_out_is_not_opened(tmp_path: Path) -> None:
    listed = table(tmp_path)
    Path(listed.files[0].path).unlink()
    access = plan_access(listed, ("x#1",), at_least(50))
    assert access.scanned.counted["files_pruned_statistics"] == 1
    assert [access.files[run.file].path for run in access.split_runs()] == [listed.files[1].path]


def with_ids(*ids: int | None) -> pa.Schema:
    """A long column for each id, under a name that says nothing."""
    fields = [pa.field(f"c{at}", pa.int64()) for at in range(len(ids))]
    known = [None if number is None else {b"PARQUET:field_id": str(number).encode()} for number in ids]
    return pa.schema(
        [each if id_ is None else each.with_metadata(id_) for each, id_ in zip(fields, known, strict=True)]
    )


def values_by_id(path: Path, schema: pa.Schema, field_id: int) -> list[int | None]:
    rows = pa.table([[10 * at + 1, 10 * at + 2] for at in range(len(schema))], schema=schema)
    write_file(path, [rows])
    column = FileColumn("x#1", "x", pa.int64(), field_id=field_id)
    listed = Manifest((data_file(path),), {str(path): (0, 99)}, (column,))
    tasks = scan_tasks(plan_access(listed, ("x#1",), None), 1, DRIVER)
    return [row for task in tasks for batch in task.read(TaskContext()) for row in batch.column(0).to_pylist()]


def test_a_column_is_found_by_its_id_whatever_its_name(tmp_path: Path) -> None:
    assert values_by_id(tmp_path / "a.parquet", with_ids(7, 3), 3) == [11, 12]
    assert values_by_id(tmp_path / "b.parquet", with_ids(3, 7), 3) == [1, 2]


def test_a_column_whose_id_no_column_of_the_file_has_is_null(tmp_path: Path) -> None:
    assert values_by_id(tmp_path / "a.parquet", with_ids(7, 3), 4) == [None, None]


@pytest.mark.parametrize("ids", [(None, None), (3, None), (4, 4)])
def test_a_file_whose_ids_do_not_settle_the_column_is_left_to_spark(
    tmp_path: Path, ids: tuple[int | None, ...]
) -> None:
    with pytest.raises(FileSchemaProblem):
        values_by_id(tmp_path / "a.parquet", with_ids(*ids), 4)


def test_a_table_with_deleted_rows_is_left_to_spark_unless_no_such_file_is_read(tmp_path: Path) -> None:
    listed = table(tmp_path)
    low, high = listed.files
    deleted = replace(listed, files=(replace(low, deletes=("low-deletes.parquet",)), high))  # type: ignore[type-var]
    with pytest.raises(Declined) as declined:
        plan_access(deleted, ("x#1",), None)
    assert [reason.code for reason in declined.value.reasons] == [Code.SOURCE]
    assert plan_access(deleted, ("x#1",), at_least(50)).rows() == 2


def test_the_snapshot_is_shown(tmp_path: Path) -> None:
    listed = table(tmp_path)
    (task,) = scan_tasks(plan_access(listed, ("x#1",), None), 1, DRIVER)
    assert task.steps[0].describe() == ("ParquetScan: manifest, files=2, snapshot=4711, columns=[x#1]")


def test_a_parquet_folder_knows_its_partition_values_and_nothing_else() -> None:
    plain = ParquetFolder((DataFile("a", 1, 1),), (FileColumn("x#1", "x", pa.int64()),))
    assert plain.known_statistics(plain.files) is None
    parted = ParquetFolder((DataFile("a", 1, 1, (7,)),), plain.file_columns, (PartitionColumn("p#2", 0, pa.int64()),))
    known = parted.known_statistics(parted.files)
    assert known is not None
    assert known.column("p#2").low[0] == known.column("p#2").high[0] == 7
    assert known.column("x#1").low[0] is None
