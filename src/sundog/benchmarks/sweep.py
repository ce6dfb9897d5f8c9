"""`--sweep`: how much a cost matters, by cases with a quarter of its value, the value and four times the value.

A number in `plan/costs.py` is well chosen if neither neighbour is faster. If all are alike, its exact value does not
matter. The values take turns, so that a machine that becomes slower is slower for all of them. Measured on driver
threads is the processor time of this process alone, without the JVM and others on the machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from sundog.benchmarks.cases.model import Case, DataRef
from sundog.benchmarks.data.catalog import find_data_set
from sundog.benchmarks.engines.spark import SundogEngine
from sundog.errors import SundogError
from sundog.plan.costs import COST_FIELDS, DRIVER, SETTING

FACTORS = (0.25, 1.0, 4.0)


class UnknownCostError(SundogError, ValueError):
    """A cost's name is not in the list. `sundog.explain(df, costs=True)` shows it."""

    @classmethod
    def of(cls, name: str) -> UnknownCostError:
        near = get_close_matches(name, COSTS, n=1)
        return cls(f"There is no cost {name!r}." + (f" Did you mean {near[0]}?" if near else ""))


COSTS = COST_FIELDS


@dataclass(frozen=True)
class Swept:
    """Processor seconds of a case, for each of `FACTORS`."""

    cost: str
    value: float
    case: str
    seconds: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        times = {f"x {factor:g}": round(seconds, 4) for factor, seconds in zip(FACTORS, self.seconds, strict=True)}
        return {"cost": self.cost, "value": self.value, "case": self.case, **times}


def find_costs(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in COSTS:
            raise UnknownCostError.of(name)
    return list(names)


def swept(name: str, factor: float) -> float:
    """A cost times `factor`. A quarter of a number of tasks or row groups is at least one: zero would be refused."""
    value = getattr(DRIVER, name)
    return max(1, value * factor) if isinstance(value, int) else value * factor


def sweep(
    spark: Any, names: Sequence[str], cases: Sequence[Case], folders: Mapping[DataRef, Path], repeat: int
) -> Iterator[Swept]:
    """Each cost with each case. `spark` is an enabled session; its setting of costs is lost."""
    engine = SundogEngine(spark)
    spark.conf.set("spark.sundog.placement", "driver")
    spark.conf.set("spark.sundog.learn", "false")
    for case in cases:
        engine.use(find_data_set(case.data.name).folders(folders[case.data]))
        for name in names:
            runs: list[list[float]] = [[] for _ in FACTORS]
            for _ in range(repeat + 1):  # the first one warms up
                for factor, seconds in zip(FACTORS, runs, strict=True):
                    spark.conf.set(SETTING, json.dumps({name: swept(name, factor)}))
                    start = process_time()
                    engine.run(case)
                    seconds.append(process_time() - start)
            yield Swept(name, getattr(DRIVER, name), case.name, tuple(median(each[1:]) for each in runs))
    spark.conf.unset(SETTING)
