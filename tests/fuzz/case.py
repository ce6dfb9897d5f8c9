"""One case: data, files, settings, query, action. Everything follows from a seed and a number.

Cases of one seed share their data and files, which are slow to write; each draws its own settings, query and action.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

import pyarrow as pa

from tests.fuzz.actions import draw_action
from tests.fuzz.confs import draw_spark_confs, draw_sundog_confs
from tests.fuzz.expressions import Name, literal
from tests.fuzz.folders import Layout, draw_layout
from tests.fuzz.queries import Select, Table, draw_query
from tests.fuzz.schemas import Data, draw_data

SAMPLES = 6


@dataclass(frozen=True)
class Case:
    seed: int
    number: int
    data: Data
    layout: Layout
    spark_confs: dict[str, str]
    sundog_confs: dict[str, str]
    query: Select
    action: str

    @property
    def name(self) -> str:
        return f"{self.seed}:{self.number}"


def draw_case(seed: int, number: int) -> Case:
    data, layout = draw_world(seed)
    rng = Random(f"case {seed} {number}")
    spark_confs, sundog_confs = draw_spark_confs(rng), draw_sundog_confs(rng)
    one_task = (
        len(layout.parts) == 1 and not layout.partition_by and len(spark_confs["spark.sql.files.maxPartitionBytes"]) > 6
    )
    table = Table("t", tuple(_name(data, column.name) for column in data.columns), ("id",), in_order=one_task)
    query = draw_query(rng, table, Table("u", (_small_key(data), Name("label", "string")), None))
    return Case(seed, number, data, layout, spark_confs, sundog_confs, query, draw_action(rng, query.check))


@lru_cache(maxsize=4)
def draw_world(seed: int) -> tuple[Data, Layout]:
    rng = Random(f"world {seed}")
    data = draw_data(rng)
    return data, draw_layout(rng, data)


def _name(data: Data, name: str) -> Name:
    column = data.column(name)
    rng = Random(f"samples {name}")
    places = sorted(rng.sample(range(data.rows.num_rows), min(SAMPLES, data.rows.num_rows)))
    values = [value_at(data.rows[name], place) for place in places]
    is_nested = "<" in column.dtype
    samples = () if is_nested else tuple(literal(value, column.dtype) for value in values if value is not None)
    return Name(name, column.family, False, column.exact_sum, column.tame, samples)


def value_at(column: pa.ChunkedArray, place: int) -> Any:
    """Bytes where a string is no valid UTF-8."""
    cell = column[place]
    if cell.is_valid and pa.types.is_string(cell.type):
        raw = cell.as_buffer().to_pybytes()
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw
    return cell.as_py()


def _small_key(data: Data) -> Name:
    """The small table joins on the first column after `id`."""
    column = data.columns[1] if len(data.columns) > 1 else data.columns[0]
    return Name("k", column.family, False, False, False)


def small_table(data: Data) -> tuple[pa.Table, str]:
    """Some values of that column, each with a label; and its DDL."""
    column = data.columns[1] if len(data.columns) > 1 else data.columns[0]
    keys = data.rows[column.name].slice(0, 12)
    labels = pa.array([f"label {number % 3}" for number in range(len(keys))], pa.string())
    return pa.table([keys, labels], names=["k", "label"]), f"k {column.dtype}, label string"
