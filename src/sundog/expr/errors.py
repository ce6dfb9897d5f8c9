"""Errors that rows cause, as plain data: Spark's error condition, its parameters and its kind, without pyspark.

`SELECT a / b` under ANSI fails with DIVIDE_BY_ZERO on plain Spark, and must do so with sundog. Expressions run on
executors and driver threads; their errors travel back as plain data, and `front/spark_errors.py` turns them into the
exceptions that pyspark would have raised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from sundog.types import spark_name

_ANSI_CONF = '"spark.sql.ansi.enabled"'
_SUFFIX = {8: "Y", 16: "S", 32: "", 64: "L"}


class ErrorKind(Enum):
    """The pyspark exception class that an error becomes."""

    ARITHMETIC = "arithmetic"
    NUMBER_FORMAT = "number_format"
    DATETIME = "datetime"
    RUNTIME = "runtime"


class SparkQueryError(Exception):
    """An error in the query's data. `condition` is Spark's error condition, e.g. ARITHMETIC_OVERFLOW."""

    def __init__(self, condition: str, parameters: Mapping[str, str], kind: ErrorKind) -> None:
        super().__init__(condition, dict(parameters), kind)
        self.condition = condition
        self.parameters = dict(parameters)
        self.kind = kind

    def __str__(self) -> str:
        return f"[{self.condition}] {self.parameters}"

    @classmethod
    def overflow(cls, try_function: str = "", bits: int = 64) -> SparkQueryError:
        """An integer of `bits` bits leaves its type. The message is Java's; some Spark versions have another."""
        return cls._overflow({32: "integer overflow", 64: "long overflow"}.get(bits, "overflow"), try_function)

    @classmethod
    def rounding_overflow(cls) -> SparkQueryError:
        """An integer rounded before the point leaves its type; the message has the words of java.math.BigDecimal."""
        return cls._overflow("Overflow", "")

    @classmethod
    def integral_divide_overflow(cls) -> SparkQueryError:
        return cls._overflow("Overflow in integral divide", "try_divide")

    @classmethod
    def decimal_sum_overflow(cls, try_function: str) -> SparkQueryError:
        """By group, a sum of decimals has more digits than its type, by itself or inside an average."""
        return cls._overflow("Overflow in sum of decimals", try_function)

    @classmethod
    def _overflow(cls, message: str, try_function: str) -> SparkQueryError:
        alternative = f" Use '{try_function}' to tolerate overflow and return NULL instead." if try_function else ""
        parameters = {"message": message, "alternative": alternative, "config": _ANSI_CONF}
        return cls("ARITHMETIC_OVERFLOW", parameters, ErrorKind.ARITHMETIC)

    @classmethod
    def small_integer_overflow(cls, left: int, symbol: str, right: int, name: str) -> SparkQueryError:
        parameters = {"value1": f"{left}S", "symbol": symbol, "value2": f"{right}S", "functionName": f"`{name}`"}
        return cls("BINARY_ARITHMETIC_OVERFLOW", parameters, ErrorKind.ARITHMETIC)

    @classmethod
    def divide_by_zero(cls) -> SparkQueryError:
        return cls("DIVIDE_BY_ZERO", {"config": _ANSI_CONF}, ErrorKind.ARITHMETIC)

    @classmethod
    def remainder_by_zero(cls) -> SparkQueryError:
        return cls("REMAINDER_BY_ZERO", {"config": _ANSI_CONF}, ErrorKind.ARITHMETIC)

    @classmethod
    def decimal_out_of_range(cls, value: Decimal, dtype: pa.DataType) -> SparkQueryError:
        parameters = {
            "value": format(value, "f"),
            "precision": str(dtype.precision),
            "scale": str(dtype.scale),
            "config": _ANSI_CONF,
        }
        return cls("NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", parameters, ErrorKind.ARITHMETIC)

    @classmethod
    def cast_overflow(cls, value: str, source: pa.DataType, target: pa.DataType) -> SparkQueryError:
        parameters = {
            "value": value,
            "sourceType": _sql_type(source),
            "targetType": _sql_type(target),
            "ansiConfig": _ANSI_CONF,
        }
        return cls("CAST_OVERFLOW", parameters, ErrorKind.ARITHMETIC)

    @classmethod
    def cast_invalid_input(
        cls, text: str, target: pa.DataType, kind: ErrorKind = ErrorKind.NUMBER_FORMAT
    ) -> SparkQueryError:
        quoted = text.replace("\\", "\\\\").replace("'", "\\'")
        parameters = {
            "expression": f"'{quoted}'",
            "sourceType": '"STRING"',
            "targetType": _sql_type(target),
            "ansiConfig": _ANSI_CONF,
        }
        return cls("CAST_INVALID_INPUT", parameters, kind)

    @classmethod
    def java_overflow(cls) -> SparkQueryError:
        """Java's own exception, which Spark raises without a condition: an instant outside of 64 bits."""
        return cls("", {"message": "long overflow"}, ErrorKind.ARITHMETIC)


def _sql_type(dtype: pa.DataType) -> str:
    return f'"{spark_name(dtype).upper()}"'


def sql_value(value: Any, dtype: pa.DataType) -> str:
    """A value as Spark writes it in messages: 5000000000L, 1.5D, 12.30BD."""
    if pa.types.is_integer(dtype):
        return f"{value}{_SUFFIX[dtype.bit_width]}"
    if pa.types.is_floating(dtype):
        suffix = "D" if pa.types.is_float64(dtype) and math.isfinite(value) else ""
        return f"{_java_double(value if suffix else dtype.to_pandas_dtype()(value))}{suffix}"
    if pa.types.is_decimal(dtype):
        return f"{value}BD"
    return str(value)


def _java_double(value: Any) -> str:
    """A number nearly as Java prints it; programs look at the condition, not at this text."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value != 0 and not 1e-3 <= abs(value) < 1e7:
        digits, exponent = np.format_float_scientific(value, trim="0").split("e")
        return f"{digits}E{int(exponent)}"
    return str(np.format_float_positional(value, trim="0"))
