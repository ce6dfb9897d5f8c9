"""The data sets by name: the tables of each, its default size, and the place of its files.

Those of `DATA_SETS` are generated here and sized by rows; those of `TPC_SETS` by TPC's generator, and sized by scale.

A finished data set has a note beside its files (`_sundog_data.json`) that identifies it. The note is written last: a
folder with files and no note is incomplete or foreign, and is never silently used or overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sundog.benchmarks.data.h2o import GroupByTable, WindowTable
from sundog.benchmarks.data.hits import Hits
from sundog.benchmarks.data.layout import TableGenerator
from sundog.benchmarks.data.lineitem import lineitem, lineitem_single
from sundog.benchmarks.data.tpc import TPCDS, TPCH, TpcSet
from sundog.errors import SundogError

NOTE_NAME = "_sundog_data.json"
GENERATOR_VERSION = 1


class DataSetError(SundogError):
    """A data set is unknown, or the folder given for it holds something else. The message names the folder."""

    @classmethod
    def unknown(cls, name: str) -> DataSetError:
        return cls(f"There is no data set {name!r}. There are: {', '.join([*DATA_SETS, *TPC_SETS])}.")

    @classmethod
    def occupied(cls, folder: Path) -> DataSetError:
        return cls(f"{folder} is not empty and is not a data set of sundog's. Give another folder.")

    @classmethod
    def different(cls, folder: Path, found: Note, wanted: Note) -> DataSetError:
        return cls(
            f"{folder} holds {found.describe()}, not {wanted.describe()}. Give another folder or add --overwrite."
        )


@dataclass(frozen=True)
class Note:
    """The contents of a finished folder: rows of each table, or the scale of a TPC suite."""

    name: str
    rows: int
    seed: int
    version: int = GENERATOR_VERSION
    scale: float | None = None

    @classmethod
    def of_scale(cls, name: str, scale: float) -> Note:
        return cls(name, rows=0, seed=0, scale=scale)

    def describe(self) -> str:
        if self.scale is not None:
            return f"{self.name} at scale {self.scale:g} (generator {self.version})"
        return f"{self.name} with {self.rows:,} rows (seed {self.seed}, generator {self.version})"

    def write(self, folder: Path) -> None:
        (folder / NOTE_NAME).write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Note | None:
        path = folder / NOTE_NAME
        return cls(**json.loads(path.read_text())) if path.is_file() else None


@dataclass(frozen=True)
class DataSet:
    """`tables` maps the table's name in queries to its maker; with several tables, each has a folder of its name."""

    name: str
    default_rows: int
    tables: Mapping[str, Callable[[int, int], TableGenerator]]
    about: str

    def generators(self, rows: int, seed: int) -> dict[str, TableGenerator]:
        return {table: make(rows, seed) for table, make in self.tables.items()}

    def folders(self, folder: Path) -> dict[str, Path]:
        if len(self.tables) == 1:
            return dict.fromkeys(self.tables, folder)
        return {table: folder / table for table in self.tables}


def _declare(*data_sets: DataSet) -> dict[str, DataSet]:
    return {data_set.name: data_set for data_set in data_sets}


DATA_SETS: dict[str, DataSet] = _declare(
    DataSet("hits", 10_000_000, {"hits": Hits}, "web analytics events, ClickBench shaped, ordered by time"),
    DataSet("lineitem", 6_000_000, {"lineitem": lineitem}, "TPC-H lines; files of 20 row groups in scrambled order"),
    DataSet("lineitem_single", 6_000_000, {"lineitem": lineitem_single}, "the same in one file of 300 row groups"),
    DataSet("h2o", 10_000_000, {"x": GroupByTable, "large": WindowTable}, "db-benchmark group-by and window tables"),
)

TPC_SETS: dict[str, TpcSet] = {each.name: each for each in (TPCH, TPCDS)}


def find_data_set(name: str) -> DataSet | TpcSet:
    found = DATA_SETS.get(name) or TPC_SETS.get(name)
    if found is None:
        raise DataSetError.unknown(name)
    return found
