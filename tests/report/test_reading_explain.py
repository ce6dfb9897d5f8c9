"""docs/reading-explain.md speaks of metrics, costs and reasons that exist."""

from __future__ import annotations

import re
from pathlib import Path

from sundog.metrics import METRICS
from sundog.plan.costs import COST_FIELDS
from sundog.support import Code

PAGE = (Path(__file__).parents[2] / "docs" / "reading-explain.md").read_text(encoding="utf-8")


def test_every_counter_exists() -> None:
    shown = re.findall(r"^([a-z_]+)=\d+$", PAGE, re.MULTILINE)
    explained = re.findall(r"`([a-z]+_[a-z_]+)(?:=\d+)?`", PAGE)
    assert len(shown) > 20
    assert {*shown, *explained} - {"dynamic_rg_pruning", "event_time", "dense_rank"} <= set(METRICS)


def test_every_cost_exists() -> None:
    shown = re.findall(r"^([a-z_]+)=[\d.,]+  \(", PAGE, re.MULTILINE)
    assert shown
    assert set(shown) <= set(COST_FIELDS)


def test_every_reason_exists() -> None:
    codes = re.findall(r"^\* ([A-Z_]+):", PAGE, re.MULTILINE)
    assert codes
    assert set(codes) <= {code.name for code in Code}
