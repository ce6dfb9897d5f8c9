"""The session that a Python object stands for."""

from __future__ import annotations

from typing import Any


def session_id(session: Any) -> str:
    """The JVM session's identity: several Python objects may stand for one session."""
    known: str | None = session.__dict__.get("_sundog_id")
    if known is None:
        known = str(session._jsparkSession.sessionUUID())
        session.__dict__["_sundog_id"] = known
    return known
