"""The errors that an aggregate itself can raise, as Spark raises them. Which one depends on function and type."""

from __future__ import annotations

import pyarrow as pa

from sundog.expr.errors import ErrorKind, SparkQueryError

_ANSI_CONF = '"spark.sql.ansi.enabled"'


def _overflow(message: str, function: str) -> SparkQueryError:
    parameters = {
        "message": message,
        "alternative": f" Use '{function}' to tolerate overflow and return NULL instead.",
        "config": _ANSI_CONF,
    }
    return SparkQueryError("ARITHMETIC_OVERFLOW", parameters, ErrorKind.ARITHMETIC)


def sum_overflow(dtype: pa.DataType) -> SparkQueryError:
    """A sum of integers or intervals left its type. Intervals raise also with ANSI off."""
    if pa.types.is_duration(dtype):
        parameters = {"functionName": "`try_add`"}
        return SparkQueryError("INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION", parameters, ErrorKind.ARITHMETIC)
    return _overflow("overflow", "try_add")


def decimal_sum_overflow(function: str) -> SparkQueryError:
    """A sum of decimals, on its own or inside an average, has more digits than its type."""
    return _overflow("Overflow in sum of decimals", f"try_{function}")
