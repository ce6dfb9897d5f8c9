"""DuckDB over the same files, as a view on `read_parquet`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import duckdb

from sundog.benchmarks.cases.model import Case, Result
from sundog.benchmarks.engines.model import Answer


def make(cores: int, confs: Mapping[str, str]) -> DuckEngine:
    return DuckEngine(cores)


class DuckEngine:
    def __init__(self, cores: int) -> None:
        self._connection = duckdb.connect(config={"threads": cores})
        self._connection.execute("set TimeZone = 'UTC'")
        self._connection.execute("set default_null_order = 'nulls_first_on_asc_last_on_desc'")  # as Spark has it

    def versions(self) -> dict[str, str]:
        return {"duckdb": version("duckdb")}

    def use(self, tables: Mapping[str, Path]) -> None:
        for name, folder in tables.items():
            files = str(folder / "*.parquet").replace("'", "''")
            self._connection.execute(f"create or replace view {name} as select * from read_parquet('{files}')")

    def run(self, case: Case) -> Answer:
        reader = self._connection.execute(case.sql_for("duckdb")).to_arrow_reader(1 << 17)
        if case.result is Result.DISCARDED:
            return Answer(rows=sum(batch.num_rows for batch in reader))
        table = reader.read_all()
        return Answer(table, table.num_rows)

    def close(self) -> None:
        self._connection.close()
