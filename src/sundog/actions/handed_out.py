"""Errors of DataFrames that `accelerate` has returned, raised whenever they are run, with or without sundog enabled.

A failing row fails a Python worker, for which pyspark raises PythonException where plain Spark would raise its
ArithmeticException. No action of sundog is there to correct that. So from the first `accelerate` on, pyspark's own
conversion of JVM errors is followed by sundog's: a PythonException with a signed error of the query becomes the
exception that Spark would have raised. All others are unchanged.
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
    """Translate the errors of workers, for good: a returned DataFrame may be used at any time."""
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
