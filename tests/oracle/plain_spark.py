"""The oracle itself: a session with sundog on, for a while without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def plain_spark(session: Any) -> Iterator[None]:
    session.conf.set("spark.sundog.enabled", "false")
    try:
        yield
    finally:
        session.conf.set("spark.sundog.enabled", "true")
