"""Queries that not every version of Spark can analyse, the text of their plans, and recording both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, ParseException


def analysed(spark: Any, sql: str) -> Any | None:
    """The query's DataFrame; None, with a line on the screen, where this Spark does not know something in it."""
    try:
        return spark.sql(sql)
    except (AnalysisException, ParseException) as error:
        print(f"left out: {sql}: {str(error).splitlines()[0]}")
        return None


def record_plans(spark: Any, folder: Path, queries: Mapping[str, str]) -> None:
    """Write the plan of each query to the file of its name."""
    for name, sql in queries.items():
        frame = analysed(spark, sql)
        if frame is not None:
            (folder / f"{name}.json").write_text(plan_text(frame))


def plan_text(frame: Any) -> str:
    """The optimised plan as JSON."""
    return stable_text(json.loads(frame._jdf.queryExecution().optimizedPlan().toJSON()))


def stable_text(recorded: Any) -> str:
    """JSON that is the same for the same queries, whatever was recorded before them.

    The id of the JVM is left out, and expression ids are numbered in the order in which they appear: of a whole plan,
    or of each entry of a list of queries.
    """
    queries = recorded if _is_list_of_queries(recorded) else [recorded]
    for query in queries:
        _number_ids(query, {})
    return json.dumps(recorded, indent=1, ensure_ascii=False) + "\n"


def _is_list_of_queries(recorded: Any) -> bool:
    return isinstance(recorded, list) and all(isinstance(entry, dict) and "sql" in entry for entry in recorded)


def _number_ids(value: Any, numbers: dict[int, int]) -> None:
    if isinstance(value, dict):
        if "jvmId" in value:
            value["id"] = numbers.setdefault(value["id"], len(numbers))
            value["jvmId"] = "jvm"
        for part in value.values():
            _number_ids(part, numbers)
    elif isinstance(value, list):
        for part in value:
            _number_ids(part, numbers)


def main() -> None:
    """Number the ids of what is recorded already, without a Spark: `python -m tests.plans.analysed`."""
    for file in sorted(Path(__file__).parent.glob("*/*.json")):
        file.write_text(stable_text(json.loads(file.read_text())))


if __name__ == "__main__":
    main()
