"""The oracle: a session in which sundog is switched off for a while."""

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
