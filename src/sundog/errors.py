"""Errors of sundog itself that a user can meet.

Errors of the *query* (a division by zero, an overflow) are not here: they are Spark's own exceptions, with Spark's
error condition, because Spark is the oracle for errors as well as for rows. Here are errors about sundog: a wrong
setting, a missing package, a bug. Each message says what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SundogError(Exception):
    """Base class of sundog's errors."""


class ConfigError(SundogError, ValueError):
    """A `spark.sundog.*` setting has a value that cannot be used. Change the setting named in the message."""

    @classmethod
    def bad_value(cls, key: str, value: str, expected: str) -> ConfigError:
        return cls(f"{key}={value!r} is not {expected}.")

    @classmethod
    def unknown_key(cls, key: str, known: Iterable[str]) -> ConfigError:
        near = difflib.get_close_matches(key, list(known), n=1)
        hint = f" Did you mean {near[0]}?" if near else " `sundog doctor --settings` lists them."
        return cls(f"{key} is not a sundog setting.{hint}")


class UnsupportedSessionError(SundogError, TypeError):
    """The session or DataFrame is of a kind that sundog cannot accelerate (Spark Connect, streaming)."""

    @classmethod
    def remote(cls) -> UnsupportedSessionError:
        return cls(
            "This Spark Connect session's server is not in this process's JVM, so sundog can neither read its "
            "plans nor "
            "run on its executors. Use a session whose server is here: SparkSession.builder.remote('local[*]'), or "
            "config('spark.api.mode', 'connect') with a master; or a classic session: sundog.session(), or "
            "SparkSession.builder without .remote()."
        )

    @classmethod
    def connect_of(cls, version: str) -> UnsupportedSessionError:
        return cls(
            f"This is a Spark Connect session of Spark {version}, and sundog reads the plans of Connect from Spark "
            f"4.0 on. "
            "Use a classic session: sundog.session(), or SparkSession.builder without .remote()."
        )


class EnvironmentProblem(SundogError):
    """Java, a package or a folder that sundog needs is missing. `sundog doctor` shows the whole picture."""


class ExecutorEnvironmentError(EnvironmentProblem):
    """The executors' Python lacks a package that sundog needs there. The message names executor and package."""


class InternalError(SundogError, AssertionError):
    """A bug: an invariant of sundog was broken. No query should ever raise this: please report it with the query.

    Raised instead of a wrong answer, e.g. if a window's output does not have exactly as many rows as its input.
    """
