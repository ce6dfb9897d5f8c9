"""Keys of object stores are shown nowhere; pickles are loaded where SECURITY.md says, and nowhere else."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import sundog
from sundog.commands.output import printable
from sundog.environment import doctor
from sundog.expr.nodes import Column
from sundog.expr.ordering import SortKey
from sundog.operators.scan.table_scan import TableScan
from sundog.parquet.prune.access_plan import ScannedTable
from sundog.parquet.reading import DataFile, FileColumn
from sundog.plan.logical import Scan, TopK
from sundog.plan.sites import task_limits
from sundog.runtime.blocks import StageFunction
from sundog.runtime.exchange import BlockOrder
from sundog.runtime.worker_errors import ErrorChannel
from sundog.tables.parquet_folder import ParquetFolder

SECRET = "wJalrXUtnFEMI-very-secret"
SOURCE = Path(sundog.__file__).parent


def relation() -> ParquetFolder:
    return ParquetFolder(
        (DataFile("s3a://bucket/a.parquet", 1, 1),),
        (FileColumn("v#1", "v", pa.int64()),),
        filesystem=(("fs.s3a.secret.key", SECRET),),
        label="table",
    )


def test_secrets_are_in_no_text_of_a_plan() -> None:
    logical = TopK(Scan(relation(), ("v#1",)), (SortKey(Column("v#1", pa.int64())),), 3)
    table = ScannedTable(relation().label, len(relation().files))
    read = TableScan(table, logical.child.columns)
    for text in (repr(logical), repr(read), read.describe(), repr(relation()), f"{relation()!s}"):
        assert "table" in text
        assert SECRET not in text


def test_secrets_are_not_in_the_text_of_a_stage() -> None:
    sources = (pickle.dumps(relation()),)
    function = StageFunction(
        0, sources, None, b"", 0, (), None, None, task_limits(1, 1), 0, BlockOrder.ANY, 0, None, ErrorChannel.open()
    )
    assert SECRET.encode() in sources[0], "executors need it"
    assert SECRET not in repr(function)
    assert function.errors.key.hex() not in repr(function)
    function.errors.close()


def test_doctor_does_not_show_the_token_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", f"sc://host:15002/;use_ssl=true;token={SECRET}")
    (finding,) = (finding for finding in doctor.spark_environment() if finding.part == "SPARK_REMOTE")
    assert finding.seen == "sc://host:15002/"


def test_cells_cannot_speak_to_the_terminal() -> None:
    assert printable("a\x1b]0;title\x07b\tc\n\x9b2J") == "a\ufffd]0;title\ufffdb\tc\n\ufffd2J"


def test_pickles_are_loaded_where_security_md_says_and_nowhere_else() -> None:
    loading = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node) if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            assert name not in ("eval", "exec", "marshal.loads", "os.system", "pickle.load"), path
            if name in ("pickle.loads", "pickle.Unpickler"):
                loading.add(str(path.relative_to(SOURCE)))
    listed = (SOURCE.parent.parent / "SECURITY.md").read_text().partition("## Every place that unpickles")[2]
    assert loading == {
        "kernels/cache/code_cache.py",
        "runtime/broadcasts.py",
        "runtime/processes/mapping.py",
        "operators/window/ranges/carry.py",
        "operators/scan/footers.py",
    }
    assert all(f"`{path}`" in listed for path in loading)
