"""DataFusion over the same files. Its identifiers keep their case, since `hits` has capital letters."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import datafusion

from sundog.benchmarks.cases.model import Case, Result
from sundog.benchmarks.engines.model import Answer


def make(cores: int, confs: Mapping[str, str]) -> FusionEngine:
    return FusionEngine(cores)


class FusionEngine:
    def __init__(self, cores: int) -> None:
        config = datafusion.SessionConfig().with_target_partitions(cores)
        config = config.set("datafusion.sql_parser.enable_ident_normalization", "false")
        config = config.set("datafusion.sql_parser.default_null_ordering", "nulls_min")  # as Spark has it
        self._context = datafusion.SessionContext(config)

    def versions(self) -> dict[str, str]:
        return {"datafusion": version("datafusion")}

    def use(self, tables: Mapping[str, Path]) -> None:
        for name, folder in tables.items():
            if self._context.table_exist(name):
                self._context.deregister_table(name)
            self._context.register_parquet(name, f"{folder}/")

    def run(self, case: Case) -> Answer:
        frame = self._context.sql(case.sql_for("datafusion"))
        if case.result is Result.DISCARDED:
            return Answer(rows=sum(batch.to_pyarrow().num_rows for batch in frame.execute_stream()))
        table = frame.to_arrow_table()
        return Answer(table, table.num_rows)

    def close(self) -> None:
        pass
