"""`make fuzz`: random cases against plain Spark for the given time; each difference with its seed, query and smallest
data.

    python -m tests.fuzz.run --seconds 600 --seed 1
    python -m tests.fuzz.run --case 17:4            one case again, with both answers

The tally at the end says how many cases ran accelerated and why the others did not: a generator whose cases mostly fall
back tests nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from tests.conftest import give_names_of_newer_versions
from tests.fuzz.case import Case, draw_case
from tests.fuzz.pair import Outcome, Pair
from tests.fuzz.shrink import shrink

CASES_PER_SEED = 16
TOGETHER = 5  # one seed in five runs its cases in several threads at once
SHOWN_ROWS = 12


@dataclass
class Tally:
    cases: int = 0
    accelerated: int = 0
    errors: int = 0
    freedoms: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    gave_up: dict[str, str] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # seeds at which the net itself failed

    def add(self, outcome: Outcome) -> None:
        self.cases += 1
        self.accelerated += outcome.accelerated
        self.errors += outcome.theirs.error is not None
        if outcome.freedom is not None:
            self.freedoms[outcome.freedom] += 1
        if not outcome.accelerated:
            for reason in outcome.reasons[:1] or ["no reason"]:
                self.reasons[reason.split(" (at ")[0][:110]] += 1
        if outcome.gave_up is not None:
            self.gave_up.setdefault(outcome.gave_up[:160], outcome.case.name)
        if outcome.difference is not None:
            self.differences.append(f"{outcome.case.name} {outcome.difference[:150]}")

    def __str__(self) -> str:
        share = self.accelerated / max(1, self.cases)
        lines = [f"{self.cases} cases, {share:.0%} accelerated, {self.errors} raise, {len(self.differences)} differ"]
        lines += [f"  documented freedom {name}: {count}" for name, count in self.freedoms.items()]
        lines += [f"  fallback {count:5}  {reason}" for reason, count in self.reasons.most_common(25)]
        lines += [f"  gave up  {name}  {reason}" for reason, name in self.gave_up.items()]
        lines += [f"  DIFFERS  {line}" for line in self.differences]
        lines += [f"  the net itself failed at seeds {', '.join(self.broken)}"] if self.broken else []
        return "\n".join(lines)


def describe(outcome: Outcome) -> str:
    """All that is needed to see a case again."""
    case, plain = outcome.case, outcome.theirs
    rows = case.data.rows
    shown = "\n".join(f"    {column.name} {column.dtype}: {_cells(rows[column.name])}" for column in case.data.columns)
    return "\n".join(
        [
            f"=== case {case.name}: {outcome.difference or outcome.gave_up or 'no difference'}",
            f"query    {case.query.sql}",
            f"action   {case.action}; accelerated: {outcome.accelerated}; {'; '.join(outcome.reasons)[:600]}",
            f"confs    {case.spark_confs}",
            f"sundog   {case.sundog_confs}",
            f"files    {case.layout}",
            f"data     {rows.num_rows} rows\n{shown}",
            f"Spark    {plain}",
            f"sundog   {outcome.ours}",
        ]
    )


def _cells(column: Any) -> str:
    head = column.slice(0, SHOWN_ROWS)
    try:
        text = repr(head.to_pylist())
    except UnicodeDecodeError:
        text = repr(head.cast("binary").to_pylist())
    return text[:900] + (" …" if len(column) > SHOWN_ROWS else "")


def shrink_case(pair: Pair, found: Outcome, seconds: float) -> Outcome:
    """The smallest case that differs in the same way, and both answers to it."""

    def kind(outcome: Outcome) -> str:
        return (outcome.difference or outcome.gave_up or "").split(":")[0].split(",")[0].lstrip("0123456789 ")

    def still_differs(case: Case) -> bool:
        outcome = pair.run(case)
        return (outcome.difference or outcome.gave_up) is not None and kind(outcome) == kind(found)

    return pair.run(shrink(found.case, still_differs, seconds))


@dataclass
class Campaign:
    """Cases of one seed after the other."""

    pair: Pair
    shrink_seconds: float
    save: Path | None
    cases: int = CASES_PER_SEED
    tally: Tally = field(default_factory=Tally)
    seen: set[str] = field(default_factory=set)

    def run(self, seed: int, seconds: float) -> None:
        """Until time is up or the user stops it."""
        until = monotonic() + seconds
        try:
            while monotonic() < until:
                try:
                    self._together(seed) if seed % TOGETHER == 0 else self._one_by_one(seed, until)
                except Exception:
                    self.tally.broken.append(str(seed))
                    print(f"=== seed {seed}: the net itself failed\n{traceback.format_exc()}", flush=True)
                seed += 1
        except KeyboardInterrupt:
            print(f"stopped at seed {seed}")

    def _one_by_one(self, seed: int, until: float) -> None:
        for number in range(self.cases):
            case = draw_case(seed, number)
            if self.save is not None:
                (self.save / "current").write_text(case.name)  # should the process die, the case is known
            outcome = self.pair.run(case)
            self.tally.add(outcome)
            if outcome.difference is not None or outcome.gave_up is not None:
                self._report(outcome)
            if monotonic() >= until:
                return

    def _report(self, outcome: Outcome) -> None:
        """Print it, of each kind the first one as small as it gets."""
        text = describe(outcome)
        if self.shrink_seconds and _signature(outcome) not in self.seen:
            smallest = shrink_case(self.pair, outcome, self.shrink_seconds)
            if smallest.difference or smallest.gave_up:
                text = f"{describe(smallest)}\nas drawn: {text}"
        self.seen.add(_signature(outcome))
        print(text, flush=True)
        if self.save is not None:
            (self.save / f"{outcome.case.name.replace(':', '-')}.txt").write_text(text)

    def _together(self, seed: int) -> None:
        """What differs is run again alone: if it differs no more, the threads are to blame."""
        for outcome in self.pair.run_together([draw_case(seed, number) for number in range(self.cases // 2)]):
            alone = self.pair.run(outcome.case) if outcome.difference is not None else outcome
            if alone.freedom is not None:
                continue
            self.tally.add(outcome)
            if outcome.difference is not None:
                print(f"{describe(outcome)}\n    alone: {alone.difference or 'no difference'}", flush=True)


def _signature(outcome: Outcome) -> str:
    """Alike for most members of one bug: only the first of them is made smaller."""
    text = f"{outcome.difference or outcome.gave_up} {outcome.ours.message[:60]}"
    return re.sub(r"\d+|/\S+", "", text)[:90]


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare sundog with plain Spark on random cases.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=CASES_PER_SEED, help="for each seed, over the same files")
    parser.add_argument("--case", help="seed:number, run once more")
    parser.add_argument("--shrink", type=float, default=60, help="seconds to spend on each difference; 0: none")
    parser.add_argument("--save", type=Path, help="folder for one text per difference")
    args = parser.parse_args()
    if args.save is not None:
        args.save.mkdir(parents=True, exist_ok=True)
    spark = start_session()
    with tempfile.TemporaryDirectory(prefix="sundog-fuzz-") as folder:
        pair = Pair(spark, Path(folder))
        if args.case:
            seed, number = map(int, args.case.split(":"))
            case = draw_case(seed, number)
            outcome = pair.run(case)
            print(describe(outcome))
            if args.shrink and (outcome.difference or outcome.gave_up):
                print(describe(shrink_case(pair, outcome, args.shrink)))
            return int(outcome.difference is not None)
        campaign = Campaign(pair, args.shrink, args.save, args.cases)
        campaign.run(args.seed, args.seconds)
    print(campaign.tally)
    return int(bool(campaign.tally.differences or campaign.tally.broken))


def start_session() -> Any:
    from sundog.environment.java import session

    give_names_of_newer_versions()
    warehouse = tempfile.mkdtemp(prefix="sundog-fuzz-warehouse-")
    return session(
        "sundog-fuzz",
        "local[2]",
        {
            "spark.driver.memory": "2g",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.warehouse.dir": warehouse,
            "spark.sundog.onInternalError": "raise",
            "spark.sundog.learn": "false",
        },
    )


if __name__ == "__main__":
    sys.exit(main())
