"""The engines by name. Their code is imported only in the process that runs them, and may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module

from sundog.benchmarks.engines.model import Cluster, Engine, EngineUnavailable
from sundog.errors import SundogError

PLAIN_SPARK = "spark"
LABEL_MARK = "@"
"""`sundog@3.5` is sundog in the interpreter that `--python 3.5=PATH` names."""


class UnknownEngineError(SundogError, ValueError):
    """An engine's name is not in the list. `sundog bench --list` shows it."""

    @classmethod
    def of(cls, name: str) -> UnknownEngineError:
        near = get_close_matches(name, ENGINES, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(ENGINES)}."
        return cls(f"There is no engine {name!r}. {hint}")


@dataclass(frozen=True)
class EngineSpec:
    """`family` says whose SQL the engine speaks; `maker` is `module:function`, called with the cores and `confs`.
    Makers of the module `spark` also take a cluster."""

    name: str
    family: str
    maker: str
    packages: tuple[str, ...]
    about: str
    confs: Mapping[str, str] = field(default_factory=dict)

    def make(self, cores: int, cluster: Cluster | None = None) -> Engine:
        module, function = self.maker.split(":")
        if cluster is not None and module != "spark":
            raise EngineUnavailable("it does not run on a standalone cluster of Spark")
        arguments = (cores, self.confs) if cluster is None else (cores, self.confs, cluster)
        engine: Engine = getattr(import_module(f"sundog.benchmarks.engines.{module}"), function)(*arguments)
        return engine


def _declare(*specs: EngineSpec) -> dict[str, EngineSpec]:
    return {spec.name: spec for spec in specs}


_MEASURED = {"spark.sundog.learn": "false"}  # so that queries slower than on Spark stay visible

ENGINES: dict[str, EngineSpec] = _declare(
    EngineSpec("spark", "spark", "spark:plain", ("pyspark",), "Spark as it comes"),
    EngineSpec(
        "spark-segment-tree",
        "spark",
        "spark:plain",
        ("pyspark",),
        "Spark with segment trees for sliding windows",
        {"spark.sql.window.segmentTree.enabled": "true"},
    ),
    EngineSpec("sundog", "sundog", "spark:accelerated", ("pyspark",), "sundog, choosing where to run", _MEASURED),
    EngineSpec(
        "sundog-driver",
        "sundog",
        "spark:accelerated",
        ("pyspark",),
        "sundog on driver threads",
        {**_MEASURED, "spark.sundog.placement": "driver"},
    ),
    EngineSpec(
        "sundog-executors",
        "sundog",
        "spark:accelerated",
        ("pyspark",),
        "sundog on Spark's executors",
        {**_MEASURED, "spark.sundog.placement": "executors"},
    ),
    EngineSpec(
        "sundog-processes",
        "sundog",
        "spark:accelerated",
        ("pyspark",),
        "sundog on executors, one process each",
        {**_MEASURED, "spark.sundog.placement": "executors", "spark.sundog.executor.process": "executor"},
    ),
    EngineSpec(
        "sundog-static",
        "sundog",
        "spark:accelerated",
        ("pyspark",),
        "sundog with statistics used once, at the start",
        {**_MEASURED, "spark.sundog.topk.dynamicPruning.enabled": "false"},
    ),
    EngineSpec("duckdb", "duckdb", "duck:make", ("duckdb",), "DuckDB"),
    EngineSpec("datafusion", "datafusion", "fusion:make", ("datafusion",), "Apache DataFusion"),
    EngineSpec(
        "polars", "polars", "polar:make", ("polars",), "Polars; TPC in its SQL, of the rest the main cases by hand"
    ),
    EngineSpec("sail", "sail", "sail:make", ("pysail", "grpc"), "Sail, through Spark Connect"),
    EngineSpec("comet", "spark", "comet:make", ("pyspark",), "Comet, in Spark 3.5; needs --python comet=PATH"),
    EngineSpec("comet-off", "spark", "comet:make_without", ("pyspark",), "Comet's Spark 3.5 without Comet"),
    EngineSpec("decode", "decode", "decode:make", ("pyarrow",), "only decoding the needed columns: the floor"),
)


def find_engine(name: str) -> EngineSpec:
    """The engine of this name, with or without a label of its interpreter: `sundog@3.5` is sundog."""
    engine = name.partition(LABEL_MARK)[0]
    if engine not in ENGINES:
        raise UnknownEngineError.of(engine)
    return ENGINES[engine]


def label_of(name: str) -> str:
    """The label of an engine's interpreter: `3.5` of `sundog@3.5`; empty without one."""
    return name.partition(LABEL_MARK)[2]


def plain_spark_beside(name: str) -> str:
    """The engine that this one is compared with: plain Spark in the same interpreter."""
    return "".join((PLAIN_SPARK, *name.partition(LABEL_MARK)[1:]))
