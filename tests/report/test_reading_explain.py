"""docs/reading-explain.md speaks of counters and reasons that there are."""

from __future__ import annotations

import re
from pathlib import Path

from sundog.metrics import METRICS
from sundog.support import Code

PAGE = (Path(__file__).parents[2] / "docs" / "reading-explain.md").read_text(encoding="utf-8")


def test_every_counter_exists() -> None:
    shown = re.findall(r"^([a-z_]+)=\d+$", PAGE, re.MULTILINE)
    explained = re.findall(r"`([a-z]+_[a-z_]+)(?:=\d+)?`", PAGE)
    assert len(shown) > 20
    assert {*shown, *explained} - {"dynamic_rg_pruning", "event_time"} <= set(METRICS)


def test_every_reason_exists() -> None:
    codes = re.findall(r"^\* ([A-Z_]+):", PAGE, re.MULTILINE)
    assert codes
    assert set(codes) <= {code.name for code in Code}
