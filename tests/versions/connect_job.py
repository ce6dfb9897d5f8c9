"""A Spark Connect session in a process of its own, since a classic one cannot be beside it: runs queries, writes
`results.json`.

    python connect_job.py FOLDER [PART ...]
    CONNECT_API_MODE_MASTER='local-cluster[1,2,1024]' python connect_job.py FOLDER shapes_on_executors

The session is from `remote("local[2]")`, or with a master for it by the setting `spark.api.mode`.

Each query is run on plain Connect and with sundog enabled. What comes out is only compared here; `test_connect.py` says
what is expected of it.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

os.environ["SPARK_TESTING"] = "1"  # a free port instead of 15002
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYSPARK_PYTHON"] = sys.executable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sundog
from sundog.environment.java import ensure_java

ROWS = 4_000
PARTS = [
    *("shapes", "actions", "dataframes", "functions", "errors", "settings", "declined", "explains", "sessions"),
    *("writes", "interrupts", "elsewhere", "disabled"),
]
TOP_K = "SELECT * FROM events ORDER BY id DESC LIMIT 7"
WINDOW = "SELECT id, sum(n) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) s FROM events"
GROUPS = "SELECT g, count(*) c, sum(n) s, max(d) d, min(at) at FROM events GROUP BY g"
SUBTREE = f"SELECT g % 10 k, sort_array(collect_list(c)) l FROM (SELECT g, c FROM ({GROUPS})) GROUP BY g % 10"
EMPTY = "SELECT * FROM events WHERE id < 0 ORDER BY id LIMIT 3"
RAISES = "SELECT g, sum(n / (n - n)) x FROM events GROUP BY g"


def write_events(folder: Path) -> str:
    random = np.random.default_rng(7)
    path = str(folder / "events.parquet")
    table = pa.table(
        {
            "id": pa.array(random.permutation(ROWS)),
            "g": pa.array(random.integers(0, 300, ROWS)),
            "n": pa.array(random.integers(-100, 100, ROWS).astype("int32")),
            "d": pa.array([None if i % 7 == 0 else i for i in range(ROWS)], pa.decimal128(12, 2)),
            "at": pa.array(random.integers(0, 1 << 50, ROWS), pa.timestamp("us", "UTC")),
            "local": pa.array(random.integers(0, 1 << 50, ROWS), pa.timestamp("us")),
            "day": pa.array(random.integers(0, 20_000, ROWS).astype("int32"), pa.date32()),
            "s": pa.array([f"text {i % 99}" for i in range(ROWS)]),
            "raw": pa.array([str(i % 99).encode() for i in range(ROWS)]),
            "yes": pa.array([i % 3 == 0 for i in range(ROWS)]),
            "f": pa.array(random.random(ROWS)),
        }
    )
    pq.write_table(table, path, row_group_size=500)
    return path


def rows(values: list[Any]) -> list[str]:
    """Rows with the exact type of each value, in an order of their own."""
    return sorted(repr([(type(value).__name__, value) for value in row]) for row in values)


def text_of(action: Callable[[], object]) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed):
        action()
    return printed.getvalue()


def pandas_of(frame: Any) -> str:
    table = frame.toPandas()
    return repr((list(map(str, table.dtypes)), rows(table.values.tolist())))


def arrow_of(frame: Any) -> str:
    table = frame.toArrow()
    return repr((str(table.schema), rows(list(zip(*[c.to_pylist() for c in table.columns], strict=True)))))


ACTIONS: dict[str, Callable[[Any], Any]] = {
    "collect": lambda frame: rows(frame.collect()),
    "toPandas": pandas_of,
    "toArrow": arrow_of,
    "toLocalIterator": lambda frame: rows(list(frame.toLocalIterator())),
    "count": lambda frame: frame.count(),
    "isEmpty": lambda frame: frame.isEmpty(),
    "show": lambda frame: text_of(lambda: frame.orderBy(frame.columns[0]).show(4, truncate=6)),
    "schema of rows": lambda frame: repr(frame._to_table()[1]),
    "batches": lambda frame: str(frame._to_table()[0].schema),
}
ORDERED: dict[str, Callable[[Any], Any]] = {
    "take": lambda frame: rows(frame.take(3)),
    "head": lambda frame: rows([frame.head()]),
    "first": lambda frame: rows([frame.first()]),
    "tail": lambda frame: rows(frame.tail(2)),
    "show vertical": lambda frame: text_of(lambda: frame.show(3, vertical=True)),
}


class Job:
    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.path = write_events(folder)
        self.results: dict[str, Any] = {}
        spark.read.parquet(self.path).createOrReplaceTempView("events")

    def compare(self, name: str, run: Callable[[], Any], accelerated: bool | None = True) -> None:
        """`accelerated` None: whether sundog takes it does not matter, only the answer."""
        sundog.disable(self.spark)
        theirs = outcome(run)
        sundog.enable(self.spark)
        ours = outcome(run)
        last = sundog.last_run()
        same = theirs == ours
        ok = same and accelerated in (None, last.accelerated) and last.internal_error is None
        self.results[name] = {
            "ok": ok,
            "accelerated": last.accelerated,
            "placement": last.placement,
            "reasons": last.fallback_reasons,
            "difference": "" if same else f"{str(theirs)[:600]} != {str(ours)[:600]}",
        }

    def shapes(self) -> None:
        self.shapes_on("driver")
        self.shapes_on("executors")

    def shapes_on_executors(self) -> None:
        from sundog.actions.connect.session import classic_session

        self.shapes_on("executors")
        self.results["master"] = {"ok": True, "master": classic_session(self.spark).sparkContext.master}

    def shapes_on(self, placement: str) -> None:
        self.spark.conf.set("spark.sundog.placement", placement)
        for name, sql in (("top-k", TOP_K), ("window", WINDOW), ("aggregate", GROUPS), ("subtree", SUBTREE)):
            self.compare(f"{name} on {placement}", lambda sql=sql: rows(self.spark.sql(sql).collect()))
        self.spark.conf.unset("spark.sundog.placement")

    def actions(self) -> None:
        for name, action in {**ACTIONS, **ORDERED}.items():
            self.compare(f"{name} of top-k", lambda a=action: a(self.spark.sql(TOP_K)))
        for name in ("collect", "toPandas", "toArrow", "count", "isEmpty", "batches"):
            self.compare(f"{name} of no rows", lambda a=ACTIONS[name]: a(self.spark.sql(EMPTY)), None)
        self.compare("count of aggregate", lambda: self.spark.sql(GROUPS).count())
        self.compare("toLocalIterator of subtree", lambda: rows(list(self.spark.sql(SUBTREE).toLocalIterator())))

    def dataframes(self) -> None:
        from pyspark.sql import functions as f

        events = self.spark.table("events")
        self.compare(
            "DataFrame calls",
            lambda: rows(events.where("yes").groupBy("g").agg(f.sum("n"), f.avg("f")).orderBy("g").limit(5).collect()),
        )
        self.compare("parameters", lambda: rows(self.spark.sql(TOP_K.replace("7", ":k"), {"k": 3}).collect()))
        deep = events
        for step in range(60):
            deep = deep.withColumn(f"c{step}", f.col("n") + step)
        self.compare("a chain of 60 calls", lambda: rows(deep.orderBy("id").limit(2).collect()), None)

    def functions(self) -> None:
        from pyspark.sql import functions as f

        seen = self.folder / "seen"
        doubled = f.udf(lambda value: value * 2, "long")

        def each(row: Any) -> None:
            with seen.open("a") as file:
                file.write(f"{row['g']} {row['c']}\n")

        def foreach() -> list[str]:
            seen.write_text("")
            self.spark.sql(GROUPS).foreach(each)
            return sorted(seen.read_text().splitlines())

        def foreach_partition() -> list[str]:
            seen.write_text("")
            self.spark.sql(GROUPS).foreachPartition(lambda part: [each(row) for row in part])
            return sorted(seen.read_text().splitlines())

        self.compare("udf", lambda: rows(self.spark.sql(GROUPS).select("g", doubled("c")).collect()))
        self.compare("foreach", foreach)
        self.compare("foreachPartition", foreach_partition)
        self.compare("isEmpty of a udf", lambda: self.spark.sql(GROUPS).select(doubled("c")).isEmpty(), None)

    def errors(self) -> None:
        for placement in ("driver", "executors"):
            self.spark.conf.set("spark.sundog.placement", placement)
            self.compare(f"division by zero on {placement}", lambda: self.spark.sql(RAISES).collect(), False)
        self.spark.conf.unset("spark.sundog.placement")
        self.compare("a missing column", lambda: self.spark.table("events").orderBy("nope").limit(1).collect(), False)

    def settings(self) -> None:
        self.spark.conf.set("spark.sql.ansi.enabled", "false")
        self.compare("without ANSI", lambda: rows(self.spark.sql(RAISES).collect()))
        self.spark.conf.unset("spark.sql.ansi.enabled")
        for zone, names in (
            ("America/Los_Angeles", ("collect", "toPandas", "batches", "show")),
            ("+05:30", ("toArrow",)),
        ):
            self.spark.conf.set("spark.sql.session.timeZone", zone)
            for name in names:
                self.compare(f"{name} in {zone}", lambda a=ACTIONS[name]: a(self.spark.sql(TOP_K)))
        self.spark.conf.unset("spark.sql.session.timeZone")
        self.spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
        self.compare("large strings", lambda: ACTIONS["batches"](self.spark.sql(TOP_K)), False)
        self.spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
        self.spark.conf.set("spark.sundog.topk.enabled", "false")
        self.compare("top-k switched off", lambda: rows(self.spark.sql(TOP_K).collect()), False)
        self.spark.conf.unset("spark.sundog.topk.enabled")
        self.spark.conf.set("spark.sundog.mode", "shadow")
        self.compare("shadow", lambda: rows(self.spark.sql(GROUPS).collect()), False)
        self.compare("shadow iterator", lambda: rows(list(self.spark.sql(GROUPS).toLocalIterator())), False)
        self.spark.conf.unset("spark.sundog.mode")
        report = sundog.shadow_report(self.spark)
        self.results["shadow report"] = {
            "ok": (report.compared, report.agreed) == (2, 2),
            "difference": repr(report)[:300],
        }

    def declined(self) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        def observed() -> Any:
            observation = Observation("o")
            frame = self.spark.table("events").observe(observation, f.count("*").alias("c")).orderBy("id").limit(2)
            return rows(frame.collect()), observation.get

        self.compare("observe", observed, False)
        self.compare(
            "checkpoint", lambda: rows(self.spark.sql(GROUPS).localCheckpoint().orderBy("g").limit(3).collect()), False
        )
        self.compare("describe", lambda: rows(self.spark.table("events").describe("n").collect()), False)
        self.compare("catalog", lambda: sorted(table.name for table in self.spark.catalog.listTables()), None)

    def writes(self) -> None:
        path = str(self.folder / "written")

        files, table = lambda: self.spark.read.parquet(path), lambda: self.spark.table("made")
        writes = {
            "parquet": (lambda df: df.write.mode("overwrite").parquet(path), files),
            "partitions": (
                lambda df: df.where("g < 4").write.partitionBy("g").format("parquet").mode("overwrite").save(path),
                files,
            ),
            "noop": (lambda df: df.write.format("noop").mode("append").save(), files),
            "saveAsTable": (
                lambda df: df.write.mode("overwrite").bucketBy(2, "g").sortBy("g").saveAsTable("made"),
                table,
            ),
            "saveAsTable append": (
                lambda df: df.write.mode("append").bucketBy(2, "g").sortBy("g").saveAsTable("made"),
                table,
            ),
            "drop": (lambda df: self.spark.sql("DROP TABLE made"), files),
            "writeTo": (lambda df: df.writeTo("made").using("parquet").create(), table),
            "insertInto": (lambda df: df.write.insertInto("made", overwrite=True), table),
        }
        for place in ("driver", "executors"):
            self.spark.conf.set("spark.sundog.placement", place)
            answers: dict[bool, dict[str, Any]] = {}
            for enabled in (False, True):
                (sundog.enable if enabled else sundog.disable)(self.spark)
                self.spark.sql("DROP TABLE IF EXISTS made")
                answers[enabled] = {}
                for name, (write, read) in writes.items():
                    write(self.spark.sql(GROUPS))
                    run = sundog.last_run() if enabled else None
                    answers[enabled][name] = rows(read().collect())
                    if run is not None:
                        same = answers[False][name] == answers[True][name]
                        ok = same and (name == "drop" or (run.action == "write" and run.accelerated))
                        self.results[f"{name} on {place}"] = {
                            "ok": ok,
                            "reasons": run.fallback_reasons,
                            "difference": "" if same else "other rows",
                        }
        self.spark.conf.unset("spark.sundog.placement")
        self.compare("a write that exists", lambda: self.spark.sql(GROUPS).write.parquet(path), False)
        self.compare(
            "a write over what it reads",
            lambda: self.spark.table("made").groupBy("g").count().write.mode("overwrite").saveAsTable("made"),
            False,
        )
        self.compare("a write that raises", lambda: self.spark.sql(RAISES).write.mode("overwrite").parquet(path), False)

    def explains(self) -> None:
        frame = self.spark.sql(TOP_K)
        self.results["explain"] = {"ok": "TopK" in sundog.explain(frame), "difference": sundog.explain(frame)[:300]}
        analyzed = sundog.explain(frame, analyze=True)
        self.results["explain analyze"] = {
            "ok": "row_groups" in analyzed or "row groups" in analyzed,
            "difference": analyzed[:600],
        }
        printed = text_of(frame.explain)
        self.results["df.explain"] = {
            "ok": "== Physical Plan ==" in printed and "TopK" in printed,
            "difference": printed[:600],
        }
        sundog.disable(self.spark)
        for placement in ("driver", "executors"):
            self.spark.conf.set("spark.sundog.placement", placement)
            made = sundog.accelerate(self.spark.sql(GROUPS))
            run = sundog.last_run()
            same = rows(made.where("c > 3").collect()) == rows(self.spark.sql(GROUPS).where("c > 3").collect())
            again = rows(made.collect()) == rows(self.spark.sql(GROUPS).collect())
            self.results[f"accelerate on {placement}"] = {
                "ok": same and again and run.accelerated and type(made) is type(frame),
                "difference": f"{same} {again} {run.fallback_reasons}",
            }
        self.spark.conf.unset("spark.sundog.placement")

    def sessions(self) -> None:
        """Two sessions in one server: each has its views, and only one is enabled."""
        from pyspark.sql.connect.session import SparkSession

        sundog.enable(self.spark)
        other = SparkSession.builder.remote(self.spark.client._builder.endpoint.join(("sc://", ""))).create()
        other.read.parquet(self.path).where("id < 100").createOrReplaceTempView("events")
        self.spark.sql(TOP_K).collect()
        before = sundog.last_run()
        plain = rows(other.sql(TOP_K).collect())
        untouched = sundog.last_run() is before
        sundog.enable(other)
        accelerated = rows(other.sql(TOP_K).collect())
        ok = untouched and sundog.last_run().accelerated and plain == accelerated
        ours = rows(self.spark.sql(TOP_K).collect())
        sundog.disable(other)
        other.sql(TOP_K).collect()
        ok = ok and sundog.last_run().accelerated and ours != plain
        self.results["two sessions"] = {"ok": ok, "difference": f"{untouched} {plain == accelerated} {ours != plain}"}

    def interrupts(self) -> None:
        """An operation is interrupted by its tag while it runs: by the server, and, once planned, by sundog."""
        from sundog.actions.connect.session import NearSession

        self.spark.udf.register("slow", _slow, "boolean")
        plan = NearSession.frame

        def plan_slowly(near: NearSession, relation: Any) -> Any:
            time.sleep(2)
            return plan(near, relation)

        sundog.disable(self.spark)
        plain = self.interrupted("SELECT count(*) FROM events WHERE slow(g)")
        sundog.enable(self.spark)
        NearSession.frame = plan_slowly  # type: ignore[method-assign]
        ours = self.interrupted(TOP_K)
        NearSession.frame = plan  # type: ignore[method-assign]
        reasons = sundog.last_run().fallback_reasons
        ok = plain == ours and plain[1] == 1 and any("CANCELLED" in reason for reason in reasons)
        self.results["interrupt"] = {"ok": ok, "difference": f"{plain} {ours} {reasons}"}

    def interrupted(self, sql: str) -> tuple[Any, int]:
        operations: list[str] = []

        def interrupt() -> None:
            give_up = time.monotonic() + 60
            while not operations and time.monotonic() < give_up:  # until it has begun
                time.sleep(1)
                operations.extend(self.spark.interruptTag("t"))

        thread = threading.Thread(target=interrupt)
        thread.start()
        frame = self.spark.sql(sql)
        self.spark.addTag("t")
        found = outcome(frame.collect)
        self.spark.removeTag("t")
        thread.join()
        return found, len(operations)

    def elsewhere(self) -> None:
        """Another process is a client of this server, over loopback: no JVM is near it."""
        endpoint = f"sc://{self.spark.client._builder.endpoint}"
        program = [sys.executable, "-c", _CLIENT, endpoint, self.path]
        done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            self.results["elsewhere"] = {"ok": False, "difference": done.stderr[-1500:]}
            return
        said, count = json.loads(done.stdout.splitlines()[-1])
        ok = "not in this process's JVM" in said and "remote('local[*]')" in said and count == ROWS
        self.results["elsewhere"] = {"ok": ok, "difference": f"{said} {count}"}

    def disabled(self) -> None:
        sundog.enable(self.spark)
        self.spark.sql(TOP_K).collect()
        before = sundog.last_run()
        sundog.disable(self.spark)
        self.spark.sql(TOP_K).collect()
        from pyspark.sql.connect.client import SparkConnectClient

        ok = before.accelerated and sundog.last_run() is before
        own = SparkConnectClient._execute_and_fetch.__module__ == "pyspark.sql.connect.client.core"
        own = own and not hasattr(SparkConnectClient._execute_and_fetch, "__wrapped__")
        self.results["disable"] = {"ok": ok and own, "difference": f"{ok} {own}"}


_CLIENT = """
import json, sys
from pyspark.sql import SparkSession
import sundog

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
said = "nothing"
try:
    sundog.enable(spark)
except sundog.UnsupportedSessionError as error:
    said = str(error)
print(json.dumps([said, spark.read.parquet(sys.argv[2]).count()]))
"""


def _slow(value: int) -> bool:
    import time

    time.sleep(0.01)
    return value >= 0


def outcome(run: Callable[[], Any]) -> Any:
    """What a call gives, or the class and condition of what it raises."""
    try:
        return run()
    except Exception as error:
        condition = getattr(error, "getCondition", getattr(error, "getErrorClass", lambda: None))()
        return f"{type(error).__module__}.{type(error).__name__} {condition} {str(error).splitlines()[0][:120]}"


def main() -> None:
    ensure_java()
    from pyspark.sql import SparkSession

    master = os.environ.get("CONNECT_API_MODE_MASTER")
    if master is None:
        builder = SparkSession.builder.remote("local[2]")
    else:
        builder = SparkSession.builder.config("spark.api.mode", "connect").master(master)
    spark = (
        builder.config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(Path(sys.argv[1]) / "warehouse"))
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sundog.onInternalError", "raise")
        .config("spark.sundog.learn", "false")
        .getOrCreate()
    )
    job = Job(spark, Path(sys.argv[1]))
    parts = sys.argv[2:] or PARTS
    for part in parts:
        started = time.perf_counter()
        getattr(job, part)()
        job.results[f"seconds of {part}"] = round(time.perf_counter() - started, 2)
        (job.folder / "results.json").write_text(json.dumps(job.results))
    spark.stop()


if __name__ == "__main__":
    main()
