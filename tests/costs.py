"""Other costs for a test: so that few rows are worth several tasks, or one strategy wins over another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sundog.plan.costs import SETTING


@contextmanager
def costs(session: Any, **numbers: float) -> Iterator[None]:
    """The session plans with these numbers, and with those that it had for the others."""
    before = session.conf.get(SETTING, "")
    session.conf.set(SETTING, json.dumps(json.loads(before or "{}") | numbers))
    try:
        yield
    finally:
        session.conf.set(SETTING, before)
