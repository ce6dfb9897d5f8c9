"""`sundog bench --sweep`: each cost with other values, on tables of few rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sundog.benchmarks.cases.catalog import select
from sundog.benchmarks.data.catalog import find_data_set
from sundog.benchmarks.data.command import ensure_data
from sundog.benchmarks.sweep import COSTS, FACTORS, UnknownCostError, find_costs, sweep, swept
from sundog.plan.costs import DRIVER, SETTING


def test_a_misspelt_cost_is_told_the_nearest_name() -> None:
    assert find_costs(["bucket_bytes"]) == ["bucket_bytes"]
    with pytest.raises(UnknownCostError, match="Did you mean bucket_bytes"):
        find_costs(["buckets_bytes"])


@pytest.mark.parametrize("name", list(COSTS))
def test_every_value_of_a_sweep_is_one_that_the_setting_takes(name: str) -> None:
    for factor in FACTORS:
        assert getattr(DRIVER.changed_by({name: swept(name, factor)}), name) > 0


@pytest.mark.spark
def test_every_case_is_run_with_every_value(enabled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = select(["aggregate/hits-users", "aggregate/hits-few"], large=False)
    ensure_data(find_data_set("hits"), 1000, tmp_path / "hits", cores=1)
    given = []
    monkeypatch.setattr("sundog.benchmarks.sweep.SundogEngine.run", lambda self, case: given.append(seen(enabled)))
    names = ["bucket_bytes", "max_new_share"]
    found = list(sweep(enabled, names, cases, {case.data: tmp_path / "hits" for case in cases}, repeat=2))
    assert [(one.cost, one.case) for one in found] == [(name, case.name) for case in cases for name in names]
    assert all(len(one.seconds) == len(FACTORS) for one in found)
    assert given[:3] == [{"bucket_bytes": DRIVER.bucket_bytes * factor} for factor in FACTORS]
    assert len(given) == len(cases) * len(names) * len(FACTORS) * 3
    assert enabled.conf.get(SETTING, "") == ""


def seen(session: Any) -> dict[str, float]:
    """The costs that a query is planned with now."""
    return dict(json.loads(session.conf.get(SETTING)))
