"""Errors of the query as pyspark raises them: same class, same condition, same SQL state, same text.

Expressions raise `SparkQueryError`, which is plain data (they run where there may be no pyspark session). Here it
becomes the exception that plain Spark would have raised, without the query context (the place in the SQL text), which
only Spark's analyser knows.
"""

from __future__ import annotations

import re

from pyspark.errors import ArithmeticException, DateTimeException, NumberFormatException, SparkRuntimeException
from pyspark.errors.exceptions.base import PySparkException

from sundog.expr.errors import ErrorKind, SparkQueryError
from sundog.versions import spark_version


class _WithState(PySparkException):  # type: ignore[misc]
    """A PySparkException with the JVM's SQL state: pyspark looks states up among Python's own conditions."""

    def getSqlState(self) -> str | None:  # noqa: N802
        state = spark_version().conditions.get(spark_version().condition_of(self) or "")
        return state[0] if state else None


class QueryArithmeticError(_WithState, ArithmeticException):  # type: ignore[misc]
    """Overflow, division by zero, a value outside of its type."""


class QueryNumberFormatError(_WithState, NumberFormatException):  # type: ignore[misc]
    """A string that is not a number."""


class QueryDateTimeError(_WithState, DateTimeException):  # type: ignore[misc]
    """A string that is not a date."""


class QueryRuntimeError(_WithState, SparkRuntimeException):  # type: ignore[misc]
    """Any other value that Spark rejects."""


_CLASSES: dict[ErrorKind, type[PySparkException]] = {
    ErrorKind.ARITHMETIC: QueryArithmeticError,
    ErrorKind.NUMBER_FORMAT: QueryNumberFormatError,
    ErrorKind.DATETIME: QueryDateTimeError,
    ErrorKind.RUNTIME: QueryRuntimeError,
}


def to_spark_exception(error: SparkQueryError) -> PySparkException:
    """The exception to raise `from error`. A condition that is not in the table has its parameters as text."""
    version, kind = spark_version(), _CLASSES[error.kind]
    condition = version.condition_names.get(error.condition, error.condition)
    if condition not in version.conditions:
        text = error.parameters.get("message") or str(error.parameters)
        return version.exception(kind, condition or None, text, None, error.parameters)
    state, template = version.conditions[condition]
    message = error.parameters.get("message", "")
    parameters = {**error.parameters, **({"message": version.messages.get(message, message)} if message else {})}
    if message in version.messages_without_alternative:
        parameters["alternative"] = ""
    text = re.sub(r"<(\w+)>", lambda match: parameters.get(match[1], match[0]), template)
    return version.exception(kind, condition, text, state, parameters)
