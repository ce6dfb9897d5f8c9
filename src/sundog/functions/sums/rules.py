"""Spark's rules for sum and avg, the same by group and over frames: result types, overflow, rounding.

| argument | sum | avg | out of range |
|---|---|---|---|
| integers | bigint | double | sum: raises under ANSI, else wraps around |
| float, double | double | double | |
| decimal(p,s) | decimal(p+10,s) | decimal(p+4,s+4), half up | raises under ANSI, else NULL |
| interval day to second | itself | itself, half up | raises |

try_sum and try_avg give NULL in all these cases. Precisions and scales are at most 38.

Sums are compared with their range at different times. Integers: at every row, in the order of rows. Decimals by group:
at every row, too; over a frame the sum is exact and only the result is compared. So the errors differ as well: by group
the sum of decimals overflowed (`SparkQueryError.decimal_sum_overflow`), over a frame the result does not fit
(`SparkQueryError.decimal_out_of_range`).
"""

from __future__ import annotations

from decimal import Decimal
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.expr.calls import AggregateCall, WindowCall
from sundog.expr.errors import ErrorKind, SparkQueryError
from sundog.expr.nodes import DecimalToUnscaled

MAX_DIGITS = 38
_SHOWN_PLACES = MAX_DIGITS + 1
_LOW64 = 2**64 - 1
Longs = npt.NDArray[np.int64]


def sum_type(dtype: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal(dtype):
        return pa.decimal128(min(dtype.precision + 10, MAX_DIGITS), dtype.scale)
    if pa.types.is_integer(dtype):
        return pa.int64()
    if pa.types.is_duration(dtype):
        return dtype
    return pa.float64() if pa.types.is_floating(dtype) else None


def average_type(dtype: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal(dtype):
        return pa.decimal128(min(dtype.precision + 4, MAX_DIGITS), min(dtype.scale + 4, MAX_DIGITS))
    if pa.types.is_duration(dtype):
        return dtype
    return pa.float64() if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) else None


class OutOfRange(Enum):
    """What happens to a sum or average that its type cannot hold."""

    RAISES = "raises"
    WRAPS = "wraps around"
    IS_NULL = "is NULL"


def out_of_range(call: AggregateCall | WindowCall, forgiving: bool) -> OutOfRange:
    """The rule of the table above; `forgiving` for try_sum and try_avg."""
    dtype = call.args[0].dtype
    if forgiving:
        return OutOfRange.IS_NULL
    if call.ansi or pa.types.is_duration(dtype):
        return OutOfRange.RAISES
    return OutOfRange.IS_NULL if pa.types.is_decimal(dtype) else OutOfRange.WRAPS


def sum_can_leave_its_type(call: AggregateCall | WindowCall) -> bool:
    """Whether a sum of fewer than 2^32 values of the argument may raise."""
    argument = call.args[0]
    dtype = argument.dtype
    if pa.types.is_duration(dtype):
        return True
    if pa.types.is_decimal(dtype):
        return call.ansi and dtype.precision + 10 > MAX_DIGITS
    if isinstance(argument, DecimalToUnscaled):
        return call.ansi and argument.child.dtype.precision > 8
    return call.ansi and bool(pa.types.is_int64(dtype))


def integer_overflow(dtype: pa.DataType) -> SparkQueryError:
    """A sum of integers or intervals left 64 bits."""
    if pa.types.is_duration(dtype):
        parameters = {"functionName": "`try_add`"}
        return SparkQueryError("INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION", parameters, ErrorKind.ARITHMETIC)
    return SparkQueryError.overflow("try_add")


def half_up(sums: Longs, counts: Longs) -> Longs:
    """Quotients, rounded half away from zero. Also for -2^63, whose absolute value is no int64."""
    divisors = np.maximum(counts, 1).view(np.uint64)
    whole, rest = np.divmod(np.where(sums < 0, -sums, sums).view(np.uint64), divisors)
    size = (whole + (rest >= divisors - rest)).view(np.int64)
    result: Longs = np.where(sums < 0, -size, size)
    return result


def exact_half_up(dividend: int, divisor: int) -> int:
    """The same for numbers of any length."""
    size = (2 * abs(dividend) + divisor) // (2 * divisor)
    return size if dividend >= 0 else -size


def fits(unscaled: int, dtype: pa.DataType) -> bool:
    return bool(abs(unscaled) < 10**dtype.precision)


def words_of(unscaled: int) -> tuple[int, int]:
    """Low and high word of a 128-bit number, the low one unsigned."""
    return unscaled & _LOW64, unscaled >> 64


def unscaled_of(low: int, high: int) -> int:
    """The number of two words; the low one may be given signed."""
    return (high << 64) | (low & _LOW64)


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """The decimal as Spark shows it in an error. Made from digits: Decimal's arithmetic would round to 28 of them."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def quotient_shown(total: int, count: int, scale: int) -> Decimal:
    """An average of decimals as Spark shows it in an error: with 39 places, truncated."""
    digits = abs(total) * 10 ** (_SHOWN_PLACES - scale) // count
    return decimal_of(-digits if total < 0 else digits, _SHOWN_PLACES)
