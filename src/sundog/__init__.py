"""sundog: top-k, global windows and million-group aggregation, fast, on the Spark you already have.

    import sundog
    sundog.enable(spark)      # from now on eligible queries of this session run accelerated, with Spark's answers

Names are resolved at their first use, so that an executor's worker that needs one kernel does not import the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sundog.api import accelerate, disable, enable, explain
    from sundog.environment.java import session
    from sundog.errors import (
        ConfigError,
        ExecutorEnvironmentError,
        InternalError,
        SundogError,
        UnsupportedSessionError,
    )
    from sundog.run import Run, last_run
    from sundog.shadow_mode.report import ShadowReport, shadow_report

__version__ = "0.1.0"

_HOME = {
    "accelerate": "sundog.api",
    "disable": "sundog.api",
    "enable": "sundog.api",
    "explain": "sundog.api",
    "session": "sundog.environment.java",
    "Run": "sundog.run",
    "last_run": "sundog.run",
    "ShadowReport": "sundog.shadow_mode.report",
    "shadow_report": "sundog.shadow_mode.report",
    "ConfigError": "sundog.errors",
    "ExecutorEnvironmentError": "sundog.errors",
    "InternalError": "sundog.errors",
    "SundogError": "sundog.errors",
    "UnsupportedSessionError": "sundog.errors",
}

__all__ = [
    "ConfigError",
    "ExecutorEnvironmentError",
    "InternalError",
    "Run",
    "ShadowReport",
    "SundogError",
    "UnsupportedSessionError",
    "accelerate",
    "disable",
    "enable",
    "explain",
    "last_run",
    "session",
    "shadow_report",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'sundog' has no attribute {name!r}")
