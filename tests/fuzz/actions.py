"""Actions on a DataFrame, each turned into an `Answer`."""

from __future__ import annotations

import itertools
import math
import pickle
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from tests.fuzz.compare import Answer
from tests.fuzz.queries import Check

Action = Callable[[Any, Path], Answer]
_numbers = itertools.count()


def _of_rows(frame: Any, rows: Iterable[Any]) -> Answer:
    return Answer(frame.schema.simpleString(), tuple(tuple(row) for row in rows))


def _collect(frame: Any, scratch: Path) -> Answer:
    return _of_rows(frame, frame.collect())


def _to_arrow(frame: Any, scratch: Path) -> Answer:
    return _of_table(frame.toArrow())


def _of_table(table: pa.Table) -> Answer:
    """Strings as bytes, since Arrow gives no invalid UTF-8 to Python."""
    columns = [
        column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
        if _is_text(column.type)
        else column
        for column in table.columns
    ]
    types = ", ".join(f"{field.name}: {field.type}" for field in table.schema)
    return Answer(types, tuple(zip(*(column.to_pylist() for column in columns), strict=True)) if columns else ())


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))


def _to_pandas(frame: Any, scratch: Path) -> Answer:
    pandas = frame.toPandas()
    columns = [list(pandas.iloc[:, place]) for place in range(pandas.shape[1])]
    return Answer(
        repr(list(zip(pandas.columns, map(str, pandas.dtypes), strict=True))), tuple(zip(*columns, strict=True))
    )


def _count(frame: Any, scratch: Path) -> Answer:
    return Answer(value=frame.count())


def _is_empty(frame: Any, scratch: Path) -> Answer:
    return Answer(value=frame.isEmpty())


def _local_iterator(frame: Any, scratch: Path) -> Answer:
    return _of_rows(frame, frame.toLocalIterator())


def _accelerate(frame: Any, scratch: Path) -> Answer:
    import sundog

    return _of_rows(frame, sundog.accelerate(frame).collect())


def _foreach_partition(frame: Any, scratch: Path) -> Answer:
    """Each partition leaves its rows in a file of its own."""
    folder = scratch / f"foreach-{next(_numbers)}"
    folder.mkdir(parents=True)
    target = str(folder)

    def leave(rows: Any) -> None:
        import pickle as worker_pickle
        import tempfile

        kept = [tuple(row) for row in rows]
        with tempfile.NamedTemporaryFile(dir=target, delete=False) as file:
            file.write(worker_pickle.dumps(kept))

    frame.foreachPartition(leave)
    rows = [row for path in folder.iterdir() for row in pickle.loads(path.read_bytes())]
    shutil.rmtree(folder)
    return _of_rows(frame, rows)


def _write_parquet(frame: Any, scratch: Path) -> Answer:
    folder = scratch / f"written-{next(_numbers)}"
    frame.write.parquet(str(folder))
    answer = _read_back(frame, folder)
    shutil.rmtree(folder)
    return answer


def _read_back(frame: Any, folder: Path) -> Answer:
    """Through Arrow, since a session that is under test must not read for the judge."""
    from pyarrow import dataset

    files = sorted(str(path) for path in folder.rglob("part-*"))
    answer = _of_table(dataset.dataset(files, format="parquet").to_table()) if files else Answer()
    return Answer(frame.schema.simpleString(), answer.rows)


def _create_table(frame: Any, scratch: Path) -> Answer:
    return _by_command(
        frame, scratch, ["CREATE TABLE {table} USING parquet LOCATION '{folder}' AS SELECT * FROM {view}"]
    )


def _insert(frame: Any, scratch: Path) -> Answer:
    empty = "CREATE TABLE {table} USING parquet LOCATION '{folder}' AS SELECT * FROM {view} WHERE false"
    return _by_command(frame, scratch, [empty, "INSERT INTO {table} SELECT * FROM {view}"])


def _by_command(frame: Any, scratch: Path, commands: list[str]) -> Answer:
    """What commands write to a table, which is dropped again."""
    number, session = next(_numbers), frame.sparkSession
    names = {"table": f"fuzz_table_{number}", "view": f"fuzz_view_{number}", "folder": scratch / f"table-{number}"}
    frame.createOrReplaceTempView(names["view"])
    try:
        for command in commands:
            session.sql(command.format(**names))
        return _read_back(frame, scratch / f"table-{number}")
    finally:
        session.sql(f"DROP TABLE IF EXISTS {names['table']}")
        session.catalog.dropTempView(names["view"])
        shutil.rmtree(scratch / f"table-{number}", ignore_errors=True)


def _partial(method: str, *args: Any) -> Action:
    def act(frame: Any, scratch: Path) -> Answer:
        got = getattr(frame, method)(*args)
        return Answer(
            value=[]
            if got is None
            else [[_shown(value) for value in row] for row in (got if isinstance(got, list) else [got])]
        )

    return act


def _shown(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def _show(frame: Any, scratch: Path) -> Answer:
    return Answer(value=frame._show_string(7, 30, False))


ACTIONS: dict[str, Action] = {
    "collect": _collect,
    "toArrow": _to_arrow,
    "toPandas": _to_pandas,
    "count": _count,
    "isEmpty": _is_empty,
    "toLocalIterator": _local_iterator,
    "foreachPartition": _foreach_partition,
    "write.parquet": _write_parquet,
    "CTAS": _create_table,
    "INSERT": _insert,
    "accelerate": _accelerate,
    "take": _partial("take", 5),
    "head": _partial("head"),
    "tail": _partial("tail", 4),
    "first": _partial("first"),
    "show": _show,
}
UNORDERED = {"foreachPartition", "write.parquet", "CTAS", "INSERT"}
_SOME_ROWS = ("take", "head", "tail", "first", "show")
_WEIGHTS = {
    "collect": 40,
    "toArrow": 25,
    "toPandas": 4,
    "count": 4,
    "isEmpty": 2,
    "toLocalIterator": 3,
    "accelerate": 5,
}
_WEIGHTS |= {"foreachPartition": 2, "write.parquet": 4, "CTAS": 3, "INSERT": 2}


def draw_action(rng: Random, check: Check) -> str:
    """Actions that give some of the rows only where it is determined which."""
    weights = dict(_WEIGHTS)
    if check.cut and check.order == "keys":  # ties at the cut are judged by the order of rows
        weights = {name: weight for name, weight in weights.items() if name not in UNORDERED}
    if check.order == "total" and not check.inexact:
        weights |= dict.fromkeys(_SOME_ROWS, 4)
    return rng.choices(list(weights), list(weights.values()))[0]
