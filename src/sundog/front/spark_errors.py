"""An error of the query as pyspark raises it: same class, same condition, same SQL state, same text.

Expressions raise `SparkQueryError`, which is plain data (they run where there is no pyspark session to speak of). Here,
at the border to the user, it becomes the exception that plain Spark would have raised, without the query context (the
place in the SQL text), which only Spark's analyser knows.
"""

from __future__ import annotations

import re

from pyspark.errors import ArithmeticException, DateTimeException, NumberFormatException, SparkRuntimeException
from pyspark.errors.exceptions.base import PySparkException

from sundog.expr.errors import ErrorKind, SparkQueryError


class _WithState(PySparkException):  # type: ignore[misc]
    """pyspark looks the SQL state up among Python's own conditions; these are the JVM's."""

    def getSqlState(self) -> str | None:  # noqa: N802
        state = CONDITIONS.get(self.getCondition() or "")
        return state[0] if state else None


class QueryArithmeticError(_WithState, ArithmeticException):  # type: ignore[misc]
    """Overflow, division by zero, a value outside of its type."""


class QueryNumberFormatError(_WithState, NumberFormatException):  # type: ignore[misc]
    """A string that is not a number."""


class QueryDateTimeError(_WithState, DateTimeException):  # type: ignore[misc]
    """A string that is not a date."""


class QueryRuntimeError(_WithState, SparkRuntimeException):  # type: ignore[misc]
    """Any other value that cannot be."""


_CLASSES: dict[ErrorKind, type[PySparkException]] = {
    ErrorKind.ARITHMETIC: QueryArithmeticError,
    ErrorKind.NUMBER_FORMAT: QueryNumberFormatError,
    ErrorKind.DATETIME: QueryDateTimeError,
    ErrorKind.RUNTIME: QueryRuntimeError,
}
_BYPASS = 'If necessary set <config> to "false" to bypass this error'
# Condition -> (SQL state, text), as Spark 4.3's error-conditions.json has them.
CONDITIONS: dict[str, tuple[str, str]] = {
    "ARITHMETIC_OVERFLOW": ("22003", f"<message>.<alternative> {_BYPASS}."),
    "BINARY_ARITHMETIC_OVERFLOW": (
        "22003",
        "<value1> <symbol> <value2> caused overflow. Use <functionName> to ignore overflow problem and return NULL.",
    ),
    "CAST_INVALID_INPUT": (
        "22018",
        "The value <expression> of the type <sourceType> cannot be cast to <targetType> because it is malformed. "
        "Correct the value as per the syntax, or change its target type. "
        "Use `try_cast` to tolerate malformed input and return NULL instead.",
    ),
    "CAST_OVERFLOW": (
        "22003",
        "The value <value> of the type <sourceType> cannot be cast to <targetType> due to an overflow. "
        "Use `try_cast` to tolerate overflow and return NULL instead.",
    ),
    "DIVIDE_BY_ZERO": (
        "22012",
        f"Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead. {_BYPASS}.",
    ),
    "INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION": (
        "22015",
        "Integer overflow while operating with intervals. "
        "Use <functionName> to tolerate overflow and return NULL instead.",
    ),
    "REMAINDER_BY_ZERO": (
        "22012",
        f"Remainder by zero. Use `try_mod` to tolerate divisor being 0 and return NULL instead. {_BYPASS}.",
    ),
    "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION": (
        "22003",
        f" <value> cannot be represented as Decimal(<precision>, <scale>). {_BYPASS}, and return NULL instead.",
    ),
    "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION": (
        "22003",
        "The <roundedValue> rounded half up from <originalValue> cannot be represented as Decimal(<precision>, <scale>).",
    ),
}


def to_spark_exception(error: SparkQueryError) -> PySparkException:
    """The exception to raise `from error`. A condition that is not in the table gets its parameters as text."""
    kind = _CLASSES[error.kind]
    if error.condition not in CONDITIONS:
        return kind(error.parameters.get("message") or str(error.parameters), error.condition or None, error.parameters)
    state, template = CONDITIONS[error.condition]
    text = re.sub(r"<(\w+)>", lambda match: error.parameters.get(match[1], match[0]), template)
    return kind(f"{text} SQLSTATE: {state}", error.condition, error.parameters)
