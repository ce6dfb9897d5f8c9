"""`python -m tests.fuzz.relational.run --seconds 600 --seed 1`: random queries over several tables, for the given time.

Of each query that differs, the smallest relation in it that differs as well is shown. `--case seed:number` runs one
again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import sundog
from tests.fuzz.actions import ACTIONS, UNORDERED
from tests.fuzz.compare import Answer, difference
from tests.fuzz.folders import active
from tests.fuzz.pair import error_name
from tests.fuzz.queries import Check
from tests.fuzz.relational.relations import DIRECTIONS, Drawer, Relation
from tests.fuzz.relational.tables import TABLES, Column, draw_tables
from tests.fuzz.run import start_session

QUERIES_PER_SEED = 25
DEPTHS = (1, 2, 2, 3, 3, 4)
ACTIONS_DRAWN = ("collect",) * 8 + ("toArrow",) * 4 + ("count", "CTAS", "write.parquet", "accelerate", "isEmpty")
_NO_QUERY = "no query: "  # an error before there was one
COSTS: tuple[dict[str, float], ...] = (
    {},
    {"task_bytes": 2048},
    {"task_bytes": 2048, "small_step_bytes": 0},
    {"task_bytes": 2048, "broadcast_bytes": 0, "small_step_bytes": 0},
    {"task_bytes": 2048, "broadcast_bytes": 0, "min_held_pruning": 1, "min_shared_reads": 1},
    {"task_bytes": 2048, "gather_groups": 0, "unsplit_exchange_rows": 0, "min_held_pruning": 1},
    {"task_bytes": 2048, "min_shared_reads": 1, "max_build_share": 1e-9, "few_slots": 1},
    {"task_bytes": 2048, "sort_memory_factor": 300},  # keys of PARTITION BY that fit no task of 1 MiB
    {"task_bytes": 2048, "sort_memory_factor": 3000, "sort_range_rows": 5},
    {"task_bytes": 2048, "footer_job_files": 1, "scan_run_rows": 4, "join_batch_rows": 3, "min_batch_rows": 1},
    {"task_bytes": 2048, "key_bits": 1, "key_strings": 1, "join_slots": 1, "direct_slots": 1, "min_held_pruning": 1},
)
ROWS_OF_SPARK = {"min_spark_rows_seconds": 0, "spark_few_groups": 1, "spark_many_groups_ns_per_row": 1e6}
ROWS_OF_SPARK |= {"spark_few_groups_ns_per_row": 1e6, "spark_window_ns_per_row": 1e6}
"""So that rows which only Spark can read are worth handing over."""


@dataclass(frozen=True)
class Query:
    name: str
    relation: Relation
    order: str
    check: Check
    action: str
    spark_confs: dict[str, str]
    sundog_confs: dict[str, str]

    @property
    def sql(self) -> str:
        return self.relation.sql if not self.order else f"SELECT * FROM ({self.relation.sql}) AS whole {self.order}"


def draw_query(seed: int, number: int, tables: dict[str, tuple[Column, ...]]) -> Query:
    rng = Random(f"relational {seed} {number}")
    relation = Drawer(rng, tables).draw(rng.choice(DEPTHS), is_root=True)
    order, check = "", Check()
    if rng.random() < 0.4:
        places = rng.sample(range(len(relation.columns)), rng.randint(1, min(3, len(relation.columns))))
        order = "ORDER BY " + ", ".join(f"{relation.columns[p].name} {rng.choice(DIRECTIONS)}" for p in places)
        cut = rng.random() < 0.6
        order += f" LIMIT {rng.choice((1, 5, 20))}" if cut else ""
        check = Check(order="keys", keys=tuple(places), cut=cut)
    action = rng.choice(ACTIONS_DRAWN)
    if check.cut and action in UNORDERED:
        action = "collect"
    return Query(f"{seed}:{number}", relation, order, check, action, _spark_confs(rng), _sundog_confs(rng))


def _spark_confs(rng: Random) -> dict[str, str]:
    def rarely(share: float, value: str, else_value: str) -> str:
        return value if rng.random() < share else else_value

    return {
        "spark.sql.ansi.enabled": rarely(0.4, "true", "false"),
        "spark.sql.session.timeZone": rng.choice(("UTC", "Europe/Berlin", "America/New_York")),
        "spark.sql.parquet.filterPushdown": "false",  # with it Spark itself loses NaN rows
        "spark.sql.adaptive.enabled": rarely(0.3, "true", "false"),
        "spark.sql.codegen.wholeStage": rarely(0.2, "true", "false"),
        "spark.sql.shuffle.partitions": rng.choice(("1", "2", "3")),
        "spark.sql.autoBroadcastJoinThreshold": rarely(0.2, "-1", "10485760"),
        "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": rarely(0.2, "0", "10GB"),
        "spark.sql.exchange.reuse": rarely(0.1, "false", "true"),
        "spark.sql.decimalOperations.allowPrecisionLoss": rarely(0.1, "false", "true"),
        "spark.sql.optimizer.windowGroupLimitThreshold": rarely(0.1, "-1", "1000"),
        "spark.sql.execution.arrow.pyspark.enabled": rarely(0.3, "true", "false"),
    }


def _sundog_confs(rng: Random) -> dict[str, str]:
    return {
        "spark.sundog.placement": rng.choice(("driver", "driver", "executors")),
        "spark.sundog.costs": json.dumps(rng.choice(COSTS) | rng.choice(({}, ROWS_OF_SPARK))),
        "spark.sundog.task.memoryBytes": rng.choice(("1g", "1g", "1m")),
        "spark.sundog.exchange.blockBytes": rng.choice(("4m", "1k")),
        "spark.sundog.decoder": rng.choice(("own", "own", "arrow")),
    }


@dataclass
class Tally:
    queries: int = 0
    accelerated: int = 0
    whole: int = 0
    errors: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        share, whole = self.accelerated / max(1, self.queries), self.whole / max(1, self.queries)
        lines = [f"{self.queries} queries, {share:.0%} accelerated, {whole:.0%} whole, {self.errors} raise"]
        lines += [f"  fallback {count:5}  {reason}" for reason, count in self.reasons.most_common(25)]
        lines += [f"  DIFFERS  {line}" for line in self.differences]
        return "\n".join(lines)


@dataclass(frozen=True)
class Found:
    """A difference, both answers, and the plan that gave ours."""

    what: str
    ours: Answer
    theirs: Answer
    plan: str

    def __str__(self) -> str:
        return f"{self.what}\nSpark  {self.theirs}\nsundog {self.ours}"


class Campaign:
    """`ours` has sundog enabled; both are new sessions of the same Spark."""

    def __init__(self, spark: Any, scratch: Path) -> None:
        self.ours, self.plain, self.scratch = spark.newSession(), spark.newSession(), scratch
        self.ours.conf.set("spark.sundog.onInternalError", "raise")
        sundog.enable(self.ours)
        self.tally = Tally()
        self._folder = scratch / "no tables yet"

    def run(self, seed: int, seconds: float) -> None:
        until = monotonic() + seconds
        while monotonic() < until:
            tables = self.tables(seed)
            for number in range(QUERIES_PER_SEED):
                found = self.compare(draw_query(seed, number, tables))
                if found is not None:
                    print(found, flush=True)
                if monotonic() >= until:
                    break
            print(f"after seed {seed}: {self.tally.queries} queries, {self.tally.accelerated} accelerated", flush=True)
            seed += 1

    def tables(self, seed: int) -> dict[str, tuple[Column, ...]]:
        """New tables, as views of both sessions: read once, since each reading is a job."""
        rng = Random(f"tables {seed}")
        folder = self.scratch / f"tables-{seed}"
        tables = draw_tables(rng, folder)
        sources = "" if rng.random() < 0.1 else "avro,csv,json,kafka,orc,parquet,text"
        only_sparks = rng.choice((*TABLES, "", "", "", ""))
        for session in (self.plain, self.ours):
            self._set(session, {"spark.sql.sources.useV1SourceList": sources})
            with active(session):
                for name in TABLES:
                    rows = session.read.parquet(str(folder / name))
                    if name == only_sparks:  # sundog reads no ORC
                        if session is self.plain:
                            rows.write.orc(str(folder / "orc"))
                        rows = session.read.schema(rows.schema).orc(str(folder / "orc"))
                    rows.createOrReplaceTempView(name)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = folder
        return tables

    def compare(self, query: Query) -> str | None:
        """What differs, with the smallest relation of the query that differs as well; None if nothing does."""
        found = self._difference(query, query.sql, query.check, count=True)
        if found is None:
            return None
        self.tally.differences.append(f"{query.name} {found.what[:200]}")
        text = f"=== {query.name}: {found}\n{query.sql}\n{query.action} {query.spark_confs} {query.sundog_confs}"
        text += f"\n{found.plan[:3000]}"
        for relation in sorted(query.relation.walk(), key=lambda relation: len(relation.sql)):
            smaller = self._difference(query, relation.sql, Check())
            if smaller is not None:
                return f"{text}\n--- smallest: {smaller}\n{relation.sql}\n{smaller.plan[:3000]}"
        return text

    def close(self) -> None:
        sundog.disable(self.ours)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _difference(self, query: Query, sql: str, check: Check, count: bool = False) -> Found | None:
        self._set(self.plain, query.spark_confs)
        self._set(self.ours, {**query.spark_confs, **query.sundog_confs})
        action = "collect" if query.action == "accelerate" else query.action
        theirs = self._answer(self.plain, sql, action)
        ours = self._answer(self.ours, sql, query.action)
        run = sundog.last_run() if ours.error is None or not ours.error.startswith(_NO_QUERY) else None
        if count:
            self._count(run, theirs)
        if query.action in UNORDERED:
            check = Check()
        without_limit = sql.rpartition(" LIMIT ")[0]
        what = difference(ours, theirs, check, lambda: self._answer(self.plain, without_limit, action))
        gave_up = [each for each in run.fallback_reasons if each.startswith(("EXECUTION", "INTERNAL"))] if run else []
        if what is None and gave_up and theirs.error is None:
            what = f"gave up: {gave_up[0][:300]}"
        return None if what is None else Found(what, ours, theirs, "" if run is None else run.plan)

    def _count(self, run: Any, theirs: Answer) -> None:
        self.tally.queries += 1
        self.tally.errors += theirs.error is not None
        if run is not None and run.accelerated:
            self.tally.accelerated += 1
            self.tally.whole += run.whole
        elif run is not None:
            self.tally.reasons.update(reason.split(" (at ")[0][:110] for reason in run.fallback_reasons[:1])

    def _answer(self, session: Any, sql: str, action: str) -> Answer:
        try:
            frame = session.sql(sql)
        except Exception as error:
            return Answer(error=_NO_QUERY + error_name(error), message=str(error))
        try:
            return ACTIONS[action](frame, self.scratch)
        except Exception as error:
            return Answer(error=error_name(error), message=str(error))

    def _set(self, session: Any, confs: dict[str, str]) -> None:
        for key, value in confs.items():
            if session.conf.get(key, None) != value:
                session.conf.set(key, value)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare sundog with plain Spark on random queries of several tables.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", help="seed:number, run once more")
    args = parser.parse_args()
    spark = start_session()
    with tempfile.TemporaryDirectory(prefix="sundog-relational-") as folder:
        campaign = Campaign(spark, Path(folder))
        if args.case:
            seed, number = map(int, args.case.split(":"))
            found = campaign.compare(draw_query(seed, number, campaign.tables(seed)))
            print(found or "no difference")
            return int(found is not None)
        campaign.run(args.seed, args.seconds)
    print(campaign.tally)
    return int(bool(campaign.tally.differences))


if __name__ == "__main__":
    sys.exit(main())
