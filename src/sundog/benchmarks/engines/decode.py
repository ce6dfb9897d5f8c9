"""A lower bound: pyarrow decodes the columns that a query names, on the same cores, and does nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sundog.benchmarks.cases.model import Case
from sundog.benchmarks.engines.model import Answer, NotForThisEngine


def make(cores: int, confs: Mapping[str, str]) -> DecodeEngine:
    pa.set_cpu_count(cores)
    pa.set_io_thread_count(cores)
    return DecodeEngine()


def needed_columns(sql: str, columns: list[str]) -> list[str]:
    """The columns that occur as words in the query; all of them for `select *`."""
    if re.search(r"(select|,)\s+\*", sql):
        return columns
    words = set(re.findall(r"\w+", sql))
    return [column for column in columns if column in words]


class DecodeEngine:
    def __init__(self) -> None:
        self._tables: dict[str, Path] = {}

    def versions(self) -> dict[str, str]:
        return {"pyarrow": version("pyarrow")}

    def use(self, tables: Mapping[str, Path]) -> None:
        self._tables = dict(tables)

    def run(self, case: Case) -> Answer:
        if case.group == "topk":
            raise NotForThisEngine("a top-k need not decode every row, so decoding is no floor for it")
        words = set(re.findall(r"\w+", case.sql))
        for name, folder in self._tables.items():
            if name in words:
                for file in sorted(folder.glob("*.parquet")):
                    parquet = pq.ParquetFile(file)
                    parquet.read(columns=needed_columns(case.sql, parquet.schema_arrow.names))
        return Answer()

    def close(self) -> None:
        pass
