"""Errors of workers come back as themselves, and no cell of a table can pass for one or run code."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import NumberFormatException, PySparkException, PythonException
from pyspark.errors.exceptions import captured

import sundog
from sundog.errors import InternalError
from sundog.expr.errors import ErrorKind, SparkQueryError
from sundog.operators.base import Operator
from sundog.operators.context import TaskContext
from sundog.parquet.problems import FileProblem, FileSchemaProblem, ProblemKind, TooLargeForOneArray
from sundog.runtime.worker_errors import _PAYLOAD, ErrorChannel, unwrap_worker_error
from sundog.support import Code, Declined, Reason
from tests.oracle.needs import of_tasks
from tests.runtime.stages import Stages
from tests.runtime.toys import SCHEMA, Numbers

ERRORS = [
    SparkQueryError.cast_invalid_input("a 'quoted' \ud800 cell\n", pa.int32()),
    SparkQueryError.divide_by_zero(),
    FileProblem(ProblemKind.CHANGED, "file:/a b.parquet", "size"),
    FileSchemaProblem("file:/x.parquet", "a column"),
    TooLargeForOneArray("file:/x.parquet", "3 GiB"),
    Declined(Reason(Code.COST, "too small", "Sort"), Reason(Code.FRAME, "odd")),
    InternalError("1 rows went in and 0 came out"),
    ValueError("met 60"),
    KeyError("name"),
    MemoryError("no"),
]


@pytest.fixture
def channel() -> Iterator[ErrorChannel]:
    channel = ErrorChannel.open()
    yield channel
    channel.close()


class _Touch:
    """What unpickles to a file that is made: a proof that code ran."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def hostile_cells(proof: Path) -> dict[str, str]:
    """Cells of a table that look like a worker's error."""
    pickled = base64.b64encode(pickle.dumps(_Touch(proof))).decode()
    body = base64.b64encode(json.dumps({"class": "InternalError", "fields": ["forged"], "stack": ""}).encode()).decode()
    closed = ErrorChannel.open()
    replay = str(closed.wrap(InternalError("of another run")))
    closed.close()
    return {
        "pickle after the old mark": f"SUNDOG-ERROR:{pickled}:",
        "pickle after the mark": f"sundog-error:{'0' * 32}:{'0' * 64}:{pickled}:",
        "payload without the key": f"sundog-error:{'0' * 32}:{'0' * 64}:{body}:",
        "no base64": f"sundog-error:{'0' * 32}:{'0' * 64}:===:",
        "payload of another run": replay,
    }


CASES = list(hostile_cells(Path()))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_as_itself(channel: ErrorChannel, error: Exception) -> None:
    back = unwrap_worker_error(RuntimeError(f"Job aborted: {channel.wrap(error)}\n\tat scala.Something"))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.__dict__.keys() - {"__notes__"} == error.__dict__.keys()


def test_an_error_of_another_class_comes_back_as_the_nearest_with_its_name(channel: ErrorChannel) -> None:
    assert repr(unwrap_worker_error(channel.wrap(pa.ArrowInvalid("bad")))) == "ValueError('ArrowInvalid: bad')"
    assert (
        repr(unwrap_worker_error(channel.wrap(StopAsyncIteration("odd")))) == "InternalError('StopAsyncIteration: odd')"
    )


def test_the_stack_of_the_worker_comes_along(channel: ErrorChannel) -> None:
    def fails() -> None:
        raise InternalError("here")

    try:
        fails()
    except InternalError as error:
        back = unwrap_worker_error(channel.wrap(error))
    assert "in fails" in back.__notes__[0]


def test_an_error_without_our_mark_is_left_alone() -> None:
    error = RuntimeError("something else")
    assert unwrap_worker_error(error) is error


@pytest.mark.parametrize("case", CASES)
def test_a_cell_is_not_taken_for_an_error(tmp_path: Path, case: str) -> None:
    error = RuntimeError(hostile_cells(tmp_path / "proof")[case])
    assert unwrap_worker_error(error) is error
    assert not (tmp_path / "proof").exists()


def test_a_payload_that_was_changed_is_not_taken(channel: ErrorChannel) -> None:
    text = str(channel.wrap(InternalError("one")))
    run, signature, _ = _PAYLOAD.findall(text)[0]
    body = base64.b64encode(json.dumps({"class": "InternalError", "fields": ["two"], "stack": ""}).encode()).decode()
    error = RuntimeError(f"sundog-error:{run}:{signature}:{body}:")
    assert unwrap_worker_error(error) is error


def test_the_key_is_not_shown(channel: ErrorChannel) -> None:
    for text in (repr(channel), str(channel), str(channel.wrap(ValueError("x")))):
        assert channel.key.hex() not in text
        assert repr(channel.key) not in text


def test_forgotten_runs_do_not_pile_up() -> None:
    from sundog.runtime import worker_errors

    channels = [ErrorChannel.open() for _ in range(1100)]
    assert len(worker_errors._open) <= 1024
    for channel in channels:
        channel.close()


@dataclass(frozen=True)
class FailsOn(Operator):
    """Raises Spark's error about a cell."""

    cell: str

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def run(self, batches: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise SparkQueryError.cast_invalid_input(self.cell, pa.int32())

    name = "FailsOn"


@pytest.mark.spark
@pytest.mark.thin(3)
@pytest.mark.parametrize("case", CASES)
def test_the_genuine_error_is_found_behind_a_hostile_cell(
    spark: Any, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pysparks_own = getattr(captured.convert_exception, "__wrapped__", captured.convert_exception)
    monkeypatch.setattr(captured, "convert_exception", pysparks_own)  # as before the first `accelerate` of the process
    stages = Stages(spark)
    cell = hostile_cells(tmp_path / "proof")[case]
    with pytest.raises(SparkQueryError) as raised:
        stages.collect(stages.start([Numbers(0, 10)]).then(FailsOn(cell)))
    stages.runner.release()
    assert raised.value.kind is ErrorKind.NUMBER_FORMAT
    assert cell.replace("\\", "\\\\") in raised.value.parameters["expression"]
    assert not (tmp_path / "proof").exists()


@pytest.mark.spark
@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_a_table_of_hostile_cells_raises_what_spark_raises_and_runs_nothing(
    enabled: Any, tmp_path: Path, placement: str
) -> None:
    enabled.conf.set("spark.sundog.placement", placement)
    for case, cell in hostile_cells(tmp_path / "proof").items():
        path = tmp_path / f"{case}.parquet"
        pq.write_table(pa.table({"g": [1, 2], "s": ["7", cell]}), path)
        frame = enabled.read.parquet(str(path)).selectExpr("g", "CAST(s AS INT) AS n").groupBy("g").sum("n")
        for action in (frame.collect, lambda frame=frame: frame.foreach(print)):
            with pytest.raises(of_tasks(PySparkException)) as raised:
                action()
            assert isinstance(raised.value, of_tasks(NumberFormatException))
            assert raised.value.getCondition() == "CAST_INVALID_INPUT"
            assert "ParquetScan" in sundog.last_run().plan, "sundog met the cell first"
    assert not (tmp_path / "proof").exists()


@pytest.mark.spark
@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_frame_that_was_handed_out_raises_what_spark_raises(enabled: Any, tmp_path: Path, is_enabled: bool) -> None:
    enabled.conf.set("spark.sundog.placement", "executors")
    cells = hostile_cells(tmp_path / "proof")
    pq.write_table(pa.table({"g": [1, 2], "s": ["7", cells["payload of another run"]]}), tmp_path / "rows.parquet")
    frame = enabled.read.parquet(str(tmp_path / "rows.parquet"))
    window = frame.selectExpr("g", "sum(CAST(s AS INT)) OVER (PARTITION BY g ORDER BY s) AS n")
    accelerated = sundog.accelerate(window)
    assert sundog.last_run().accelerated
    if not is_enabled:
        sundog.disable(enabled)
    try:
        for action in (accelerated.collect, accelerated.toArrow, lambda: list(accelerated.toLocalIterator())):
            with pytest.raises(of_tasks(NumberFormatException)) as raised:
                action()
            assert raised.value.getCondition() == "CAST_INVALID_INPUT"
            assert raised.value.getSqlState() == "22018"
    finally:
        sundog.enable(enabled)


@pytest.mark.spark
def test_errors_of_the_users_own_functions_stay_as_they_are(enabled: Any) -> None:
    def fail(batches: Any) -> Iterator[Any]:
        raise ValueError("my own")
        yield

    enabled_frame = enabled.range(3).mapInArrow(fail, "id long")
    sundog.accelerate(enabled_frame)
    with pytest.raises(PythonException, match="my own"):
        enabled_frame.collect()
