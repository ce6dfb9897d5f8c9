"""Errors of DataFrames that `accelerate` has handed out, raised when somebody runs them, with or without sundog
enabled.

A row that is at fault fails a Python worker, for which pyspark raises PythonException, where plain Spark would raise
its ArithmeticException. No action of ours is there to put that right. So from the first `accelerate` on, pyspark's own
conversion of the JVM's errors is followed by ours: a PythonException that carries a signed error of the query becomes
the exception that Spark would have raised. All others are left as they are.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from pyspark.errors import PythonException
from pyspark.errors.exceptions import captured

from sundog.expr.errors import SparkQueryError
from sundog.front.spark_errors import to_spark_exception
from sundog.runtime.worker_errors import unwrap_worker_error

_lock = threading.Lock()


def translate_worker_errors() -> None:
    """Translate the workers' errors, for good: nobody knows how long a handed-out DataFrame is used."""
    with _lock:
        if not hasattr(captured.convert_exception, "__wrapped__"):
            captured.convert_exception = _translated(captured.convert_exception)


def _translated(convert: Any) -> Any:
    @functools.wraps(convert)
    def convert_exception(error: Any) -> Any:
        converted = convert(error)
        if isinstance(converted, PythonException):
            cause = unwrap_worker_error(converted)
            if isinstance(cause, SparkQueryError):
                return to_spark_exception(cause)
        return converted

    return convert_exception
