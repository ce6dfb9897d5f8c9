"""Polars. The main cases are written by hand as its users would, since its SQL has no windows with frames. The TPC
suites run as SQL; a query that Polars rejects is skipped with its error message."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from sundog.benchmarks.cases.model import Case, Result
from sundog.benchmarks.engines.model import Answer, NotForThisEngine

SQL_GROUPS = ("tpch", "tpcds")
Tables = Mapping[str, Any]
"""LazyFrames by table name."""


def make(cores: int, confs: Mapping[str, str]) -> PolarEngine:
    if pl.thread_pool_size() != cores:
        raise RuntimeError(f"Polars has {pl.thread_pool_size()} threads, not {cores}")
    return PolarEngine()


class PolarEngine:
    def __init__(self) -> None:
        self._tables: dict[str, Any] = {}

    def versions(self) -> dict[str, str]:
        return {"polars": version("polars")}

    def use(self, tables: Mapping[str, Path]) -> None:
        self._tables = {name: pl.scan_parquet(folder / "*.parquet") for name, folder in tables.items()}

    def run(self, case: Case) -> Answer:
        frame = self._from_sql(case) if case.group in SQL_GROUPS else self._from_expressions(case)
        if case.result is Result.DISCARDED:
            return Answer(rows=frame.height)
        table = frame.to_arrow()
        return Answer(table, table.num_rows)

    def _from_expressions(self, case: Case) -> Any:
        query = next((QUERIES[name] for name in (case.name, *case.aliases) if name in QUERIES), None)
        if query is None:
            raise NotForThisEngine("not written for Polars")
        return query(self._tables).collect()

    def _from_sql(self, case: Case) -> Any:
        try:
            query = pl.SQLContext(self._tables).execute(with_spark_nulls(case.sql_for("polars")))
        except (pl.exceptions.SQLInterfaceError, pl.exceptions.SQLSyntaxError) as problem:
            raise NotForThisEngine(f"Polars' SQL: {problem}") from problem
        return query.collect()

    def close(self) -> None:
        pass


def with_spark_nulls(sql: str) -> str:
    """The query with Spark's order of NULLs written out in its last ORDER BY: Polars has no setting for it."""
    begin = max((found.end() for found in re.finditer(r"\border by\s+", sql)), default=None)
    if begin is None or sql[:begin].count("(") != sql[:begin].count(")"):
        return sql
    limit = re.search(r"\s+limit \d+\s*$", sql)
    end = limit.start() if limit else len(sql.rstrip())
    keys = [key.strip() for key in _split_outside_parentheses(sql[begin:end])]
    ordered = [f"{key} nulls {'last' if key.endswith(' desc') else 'first'}" for key in keys]
    return sql[:begin] + ", ".join(ordered) + sql[end:]


def _split_outside_parentheses(text: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _top(table: str, limit: int, columns: list[str] | None = None) -> Callable[[Tables], Any]:
    def query(tables: Tables) -> Any:
        frame = tables[table] if columns is None else tables[table].select(columns)
        return frame.sort("l_orderkey", descending=True).head(limit)

    return query


def _hits_range(seconds: int, function: str, *, whole: bool = False) -> Callable[[Tables], Any]:
    """Polars' rolling functions take a sorted key and frames closed on both ends, as RANGE has them."""

    def query(tables: Tables) -> Any:
        column = pl.col("ResolutionWidth").cast(pl.Int64)
        rolling = getattr(column, f"rolling_{function}_by")("EventTime", f"{seconds}s", closed="both").alias("w")
        if whole:
            ordered = tables["hits"].select("WatchID", "EventTime", "ResolutionWidth").sort("EventTime")
            return ordered.with_columns(rolling)
        windowed = tables["hits"].select("EventTime", "ResolutionWidth").sort("EventTime").select(rolling)
        return windowed.select(pl.len().alias("row_count"), pl.col("w").sum().alias("sum_w"))

    return query


def _grouped(table: str, keys: list[str], *aggregates: Any, where: Any = None) -> Callable[[Tables], Any]:
    def query(tables: Tables) -> Any:
        frame = tables[table] if where is None else tables[table].filter(where)
        return frame.group_by(keys).agg(*aggregates)

    return query


def _best(grouped: Callable[[Tables], Any], key: str, columns: list[str] | None = None) -> Callable[[Tables], Any]:
    def query(tables: Tables) -> Any:
        frame = grouped(tables).sort(key, descending=True).head(10)
        return frame if columns is None else frame.select(columns)

    return query


def _rolled_up(grouped: Callable[[Tables], Any], *columns: str) -> Callable[[Tables], Any]:
    def query(tables: Tables) -> Any:
        return grouped(tables).select(
            pl.len().alias("row_count"), *(pl.col(name).sum().alias(f"s_{name}") for name in columns)
        )

    return query


def _h2o_window(key: str, **columns: Any) -> Callable[[Tables], Any]:
    def query(tables: Tables) -> Any:
        windowed = tables["large"].select(key, "v2").sort(key).select(**columns)
        return windowed.select(
            pl.len().alias("row_count"), *(pl.col(name).sum().alias(f"s_{name}") for name in columns)
        )

    return query


_NARROW = ["l_orderkey", "l_partkey", "l_suppkey"]
_COUNT = pl.len().alias("c")
_WIDTH = pl.col("ResolutionWidth").cast(pl.Int64)
_SEARCHED = pl.col("SearchPhrase") != ""
_VISITORS = pl.col("UserID").n_unique().alias("u")
_VISIT = [_COUNT, pl.col("Refresh").cast(pl.Int64).sum().alias("s"), _WIDTH.mean().alias("a")]


def _sums(*names: str) -> list[Any]:
    return [pl.col(name).cast(pl.Int64).sum() if name != "v3" else pl.col(name).sum() for name in names]


_TOP: dict[str, Callable[[Tables], Any]] = {
    f"topk/{prefix}{name}": _top("lineitem", limit, columns)
    for prefix in ("", "single-")
    for name, limit, columns in (("q1", 100, _NARROW), ("q2", 1000, _NARROW), ("q3", 100, None), ("q4", 1000, None))
}
_GROWN: dict[str, Callable[[Tables], Any]] = {
    f"topk/grow-{scale}x-{width}": _top("lineitem", 100, columns)
    for scale in (1, 4, 16)
    for width, columns in (("narrow", _NARROW), ("wide", None))
}
_WINDOWS: dict[str, Callable[[Tables], Any]] = {
    **{
        f"window/hits-range-{name}{suffix}": _hits_range(seconds, function, whole=bool(suffix))
        for name, seconds, function in (("10s", 10, "sum"), ("600s", 600, "sum"), ("600s-min", 600, "min"))
        for suffix in ("", "-rows")
    },
    "h2o/window-q1": _h2o_window("id3", total=pl.col("v2").sum().over(pl.lit(1))),
    "h2o/window-q2": _h2o_window(
        "id3", first_v2=pl.col("v2").first().over(pl.lit(1)), place=pl.int_range(1, pl.len() + 1)
    ),
    "h2o/window-q5": _h2o_window("id3", lagged=pl.col("v2").shift(1), led=pl.col("v2").shift(-1)),
    "h2o/window-q6": _h2o_window("id3", moving=pl.col("v2").rolling_mean(101, min_samples=1)),
    "h2o/window-q7": _h2o_window("id3", running=pl.col("v2").cum_sum()),
}
_CLICKBENCH: dict[int, Callable[[Tables], Any]] = {
    8: _best(_grouped("hits", ["RegionID"], _VISITORS), "u"),
    12: _best(_grouped("hits", ["SearchPhrase"], _COUNT, where=_SEARCHED), "c"),
    13: _best(_grouped("hits", ["SearchPhrase"], _VISITORS, where=_SEARCHED), "u"),
    15: _best(_grouped("hits", ["UserID"], _COUNT), "c"),
    16: _best(_grouped("hits", ["UserID", "SearchPhrase"], _COUNT), "c"),
    17: lambda tables: _grouped("hits", ["UserID", "SearchPhrase"], _COUNT)(tables).head(10),
    18: _best(
        lambda tables: (
            tables["hits"]
            .select("UserID", pl.col("EventTime").dt.minute().cast(pl.Int32).alias("m"), "SearchPhrase")
            .group_by("UserID", "m", "SearchPhrase")
            .agg(_COUNT)
        ),
        "c",
    ),
    31: _best(_grouped("hits", ["WatchID", "ClientIP"], *_VISIT, where=_SEARCHED), "c"),
    32: _best(_grouped("hits", ["WatchID", "ClientIP"], *_VISIT), "c"),
    33: _best(_grouped("hits", ["URL"], _COUNT), "c"),
    34: _best(
        lambda tables: _grouped("hits", ["URL"], _COUNT)(tables).with_columns(pl.lit(1).alias("one")),
        "c",
        ["one", "URL", "c"],
    ),
}
_AGGREGATES: dict[str, Callable[[Tables], Any]] = {
    "aggregate/hits-users": _rolled_up(_grouped("hits", ["UserID"], _COUNT), "c"),
    "aggregate/hits-pairs": _rolled_up(_grouped("hits", ["UserID", "SearchPhrase"], _COUNT), "c"),
    "aggregate/hits-unique": _rolled_up(
        lambda tables: _grouped(
            "hits", ["WatchID", "RegionID"], _COUNT, _WIDTH.sum().alias("s"), pl.col("EventTime").max().alias("m")
        )(tables).filter(pl.col("m").is_not_null()),
        "c",
        "s",
    ),
    "aggregate/hits-hot-key": _rolled_up(_grouped("hits", ["SearchPhrase"], _COUNT, _WIDTH.sum().alias("s")), "c", "s"),
    "aggregate/hits-few": _grouped("hits", ["RegionID"], _COUNT, _WIDTH.sum().alias("s")),
}
_GROUP_BY: dict[str, Callable[[Tables], Any]] = {
    "q1": _grouped("x", ["id1"], *_sums("v1")),
    "q2": _grouped("x", ["id1", "id2"], *_sums("v1")),
    "q3": _grouped("x", ["id3"], *_sums("v1"), pl.col("v3").mean()),
    "q4": _grouped("x", ["id4"], pl.col("v1", "v2", "v3").mean()),
    "q5": _grouped("x", ["id6"], *_sums("v1", "v2", "v3")),
    "q7": _grouped("x", ["id3"], (pl.col("v1").max() - pl.col("v2").min()).alias("range_v1_v2")),
    "q9": _grouped("x", ["id2", "id4"], (pl.corr("v1", "v2") ** 2).alias("r2")),
    "q10": _rolled_up(_grouped("x", ["id1", "id2", "id3", "id4", "id5", "id6"], pl.col("v3").sum(), _COUNT), "v3", "c"),
}

QUERIES: dict[str, Callable[[Tables], Any]] = {
    **_TOP,
    **_GROWN,
    **_WINDOWS,
    **{f"clickbench/q{number:02d}": query for number, query in _CLICKBENCH.items()},
    **_AGGREGATES,
    **{f"h2o/groupby-{name}": query for name, query in _GROUP_BY.items()},
}
