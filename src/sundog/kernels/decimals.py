"""Columns of decimals as 128-bit integers: rescaling, arithmetic, conversion to doubles.

A decimal column is an array of (low, high) words, as Arrow holds it. An operand of one row stands for all rows (`step`
0 instead of 1). Results are rounded half away from zero, like Spark's. A row whose result has more digits than its
type, or whose intermediate result needs more than 256 bits, is marked in `undone`. Such rows are rare; the caller
computes them as Spark does. Rows with `valid` 0 are skipped; an empty `valid` means all.

Most decimals are prices and quantities, so each loop first checks whether 64 bits are enough: a product then takes 3 ns
a row instead of 12.

Powers of ten come in as words, `factor` (low, high) or `parts`: two one-word divisors one after the other, since
dividing by 10^25 is dividing by 10^19 and then by 10^6. Helpers get words, never arrays: an array that is passed on is
counted by numba each time, which took 20 ns a row.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sundog.kernels.compile import kernel
from sundog.kernels.wide_integers import (
    divide,
    divide_by_word,
    is_below,
    leading_zeros,
    magnitude,
    plus,
    product,
    shifted,
    with_sign,
)

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_MANTISSA_BITS = 53
_SHORT = np.int64(1 << 62)  # sums of two magnitudes below it fit 64 bits
_ROWS_AT_ONCE = 1024
_SHORT_PRODUCT = float(1 << 62)  # as a double, a product's error is far less than what is left above it


@kernel(inline=True)
def _is_short(low: Any, high: Any) -> bool:
    """Whether the low word alone is the value."""
    return bool(high == low >> 63)


@kernel(inline=True)
def _most(low: Any, high: Any) -> Any:
    """The magnitude from which on a product with the factor may not be short; 0 if always."""
    return _SHORT // np.int64(low) if high == _ZERO and low < np.uint64(_SHORT) else np.int64(0)


@kernel(inline=True)
def _cut(w0: Any, w1: Any, w2: Any, w3: Any, half_low: Any, half_high: Any, first: Any, second: Any) -> Any:
    """Fewer places: the number plus half of the divisor, by both parts of the divisor."""
    w0, carry = plus(w0, half_low, _ZERO)
    w1, carry = plus(w1, half_high, carry)
    w2, carry = plus(w2, _ZERO, carry)
    w0, w1, w2, w3 = divide_by_word(w0, w1, w2, w3 + carry, first)
    if second != _ONE:
        w0, w1, w2, w3 = divide_by_word(w0, w1, w2, w3, second)
    return w0, w1, w2, w3


@kernel
def widen(values: Any, valid: Any, factor: Any, limit: Any, out: Any, undone: Any) -> None:
    """More places: values x factor."""
    most, times = _most(factor[0], factor[1]), np.int64(factor[0])
    limit_low, limit_high = limit[0], limit[1]
    is_long = limit_high != _ZERO
    for row in range(values.shape[0]):
        if valid.size > 0 and valid[row] == 0:
            continue
        if _is_short(values[row, 0], values[row, 1]) and -most < values[row, 0] < most:
            value = values[row, 0] * times
            if is_long or np.uint64(abs(value)) < limit_low:
                out[row, 0], out[row, 1] = value, value >> 63
            else:
                undone[row] = 1
            continue
        low, high = magnitude(values[row, 0], values[row, 1])
        w0, w1, w2, w3 = product(low, high, factor[0], factor[1])
        if w2 != _ZERO or w3 != _ZERO:
            undone[row] = 1
        else:
            if is_below(w0, w1, limit_low, limit_high):
                out[row, 0], out[row, 1] = with_sign(w0, w1, values[row, 1] < 0)
            else:
                undone[row] = 1


@kernel
def narrow(values: Any, valid: Any, half: Any, parts: Any, limit: Any, out: Any, undone: Any) -> None:
    """Fewer places: values / (parts[0] x parts[1])."""
    limit_low, limit_high = limit[0], limit[1]
    for row in range(values.shape[0]):
        if valid.size > 0 and valid[row] == 0:
            continue
        low, high = magnitude(values[row, 0], values[row, 1])
        w0, w1, _, _ = _cut(low, high, _ZERO, _ZERO, half[0], half[1], parts[0], parts[1])
        if is_below(w0, w1, limit_low, limit_high):
            out[row, 0], out[row, 1] = with_sign(w0, w1, values[row, 1] < 0)
        else:
            undone[row] = 1


@kernel
def multiply(
    left: Any, left_step: int, right: Any, right_step: int, valid: Any, half: Any, parts: Any, limit: Any, out: Any,
    undone: Any,
) -> None:  # fmt: skip
    """left x right / (parts[0] x parts[1])."""
    is_whole = parts[0] == _ONE
    limit_low, limit_high = limit[0], limit[1]
    is_long = limit_high != _ZERO
    for row in range(out.shape[0]):
        if valid.size > 0 and valid[row] == 0:
            continue
        one, other = row * left_step, row * right_step
        a, b = left[one, 0], right[other, 0]
        if (
            is_whole
            and _is_short(a, left[one, 1])
            and _is_short(b, right[other, 1])
            and abs(np.float64(a) * np.float64(b)) < _SHORT_PRODUCT
        ):
            value = a * b
            if is_long or np.uint64(abs(value)) < limit_low:
                out[row, 0], out[row, 1] = value, value >> 63
            else:
                undone[row] = 1
            continue
        a0, a1 = magnitude(a, left[one, 1])
        b0, b1 = magnitude(b, right[other, 1])
        w0, w1, w2, w3 = product(a0, a1, b0, b1)
        if not is_whole:
            w0, w1, w2, w3 = _cut(w0, w1, w2, w3, half[0], half[1], parts[0], parts[1])
        if w2 != _ZERO or w3 != _ZERO:
            undone[row] = 1
        else:
            if is_below(w0, w1, limit_low, limit_high):
                out[row, 0], out[row, 1] = with_sign(w0, w1, (left[one, 1] < 0) != (right[other, 1] < 0))
            else:
                undone[row] = 1


@kernel
def add(
    left: Any, left_step: int, left_factor: Any, right: Any, right_step: int, right_factor: Any, is_minus: bool,
    valid: Any, half: Any, parts: Any, limit: Any, out: Any, undone: Any,
) -> None:  # fmt: skip
    """(left x left_factor ± right x right_factor) / (parts[0] x parts[1])."""
    top = np.uint64(1 << 62)
    is_whole = parts[0] == _ONE
    most_left, most_right = _most(left_factor[0], left_factor[1]), _most(right_factor[0], right_factor[1])
    left_times = np.int64(left_factor[0])
    right_times = -np.int64(right_factor[0]) if is_minus else np.int64(right_factor[0])
    limit_low, limit_high = limit[0], limit[1]
    is_long = limit_high != _ZERO
    for row in range(out.shape[0]):
        if valid.size > 0 and valid[row] == 0:
            continue
        one, other = row * left_step, row * right_step
        a, b = left[one, 0], right[other, 0]
        if (
            is_whole
            and _is_short(a, left[one, 1])
            and _is_short(b, right[other, 1])
            and -most_left < a < most_left
            and -most_right < b < most_right
        ):
            value = a * left_times + b * right_times
            if is_long or np.uint64(abs(value)) < limit_low:
                out[row, 0], out[row, 1] = value, value >> 63
            else:
                undone[row] = 1
            continue
        low, high = magnitude(left[one, 0], left[one, 1])
        a0, a1, a2, a3 = product(low, high, left_factor[0], left_factor[1])
        low, high = magnitude(right[other, 0], right[other, 1])
        b0, b1, b2, b3 = product(low, high, right_factor[0], right_factor[1])
        if a2 | a3 | b2 | b3 != _ZERO or a1 >= top or b1 >= top:
            undone[row] = 1
            continue
        is_negative = left[one, 1] < 0
        if is_negative == ((right[other, 1] < 0) != is_minus):
            w0, carry = plus(a0, b0, _ZERO)
            w1 = a1 + b1 + carry
        else:
            if is_below(a0, a1, b0, b1):
                a0, a1, b0, b1 = b0, b1, a0, a1
                is_negative = not is_negative
            w0 = a0 - b0
            w1 = a1 - b1 - (_ONE if a0 < b0 else _ZERO)
        if not is_whole:
            w0, w1, _, _ = _cut(w0, w1, _ZERO, _ZERO, half[0], half[1], parts[0], parts[1])
        if is_below(w0, w1, limit_low, limit_high):
            out[row, 0], out[row, 1] = with_sign(w0, w1, is_negative)
        else:
            undone[row] = 1


@kernel
def divide_columns(
    left: Any, left_step: int, factor: Any, right: Any, right_step: int, valid: Any, limit: Any, out: Any, undone: Any
) -> None:
    """left x factor / right; a divisor of zero must not be `valid`."""
    most, times = _most(factor[0], factor[1]), np.int64(factor[0])
    limit_low, limit_high = limit[0], limit[1]
    is_long = limit_high != _ZERO
    for row in range(out.shape[0]):
        if valid.size > 0 and valid[row] == 0:
            continue
        one, other = row * left_step, row * right_step
        a, b = left[one, 0], right[other, 0]
        if _is_short(a, left[one, 1]) and _is_short(b, right[other, 1]) and -most < a < most and -_SHORT < b < _SHORT:
            number, divisor = abs(a * times), abs(b)
            quotient = number // divisor
            rest = number - quotient * divisor
            if rest >= divisor - rest:
                quotient += 1
            value = quotient if (a < 0) == (b < 0) else -quotient
            if is_long or np.uint64(abs(value)) < limit_low:
                out[row, 0], out[row, 1] = value, value >> 63
            else:
                undone[row] = 1
            continue
        low, high = magnitude(left[one, 0], left[one, 1])
        w0, w1, w2, w3 = product(low, high, factor[0], factor[1])
        d0, d1 = magnitude(right[other, 0], right[other, 1])
        if not is_below(w2, w3, d0, d1):
            undone[row] = 1
            continue
        q0, q1, r0, r1 = divide(w0, w1, w2, w3, d0, d1)
        # The rest is at least half of the divisor if it is not below the divisor less the rest.
        h0 = d0 - r0
        h1 = d1 - r1 - (_ONE if d0 < r0 else _ZERO)
        if not is_below(r0, r1, h0, h1):
            q0, carry = plus(q0, _ONE, _ZERO)
            q1 += carry
        if is_below(q0, q1, limit_low, limit_high):
            out[row, 0], out[row, 1] = with_sign(q0, q1, (left[one, 1] < 0) != (right[other, 1] < 0))
        else:
            undone[row] = 1


@kernel
def remainder(
    left: Any, left_step: int, left_factor: Any, right: Any, right_step: int, right_factor: Any, valid: Any,
    limit: Any, out: Any, undone: Any,
) -> None:  # fmt: skip
    """(left x left_factor) % (right x right_factor), with the sign of the left; a zero on the right must not be
    `valid`."""
    most_left, most_right = _most(left_factor[0], left_factor[1]), _most(right_factor[0], right_factor[1])
    left_times, right_times = np.int64(left_factor[0]), np.int64(right_factor[0])
    limit_low, limit_high = limit[0], limit[1]
    is_long = limit_high != _ZERO
    for row in range(out.shape[0]):
        if valid.size > 0 and valid[row] == 0:
            continue
        one, other = row * left_step, row * right_step
        a, b = left[one, 0], right[other, 0]
        if (
            _is_short(a, left[one, 1])
            and _is_short(b, right[other, 1])
            and -most_left < a < most_left
            and -most_right < b < most_right
        ):
            rest = abs(a * left_times) % abs(b * right_times)
            value = -rest if a < 0 else rest
            if is_long or np.uint64(abs(value)) < limit_low:
                out[row, 0], out[row, 1] = value, value >> 63
            else:
                undone[row] = 1
            continue
        low, high = magnitude(left[one, 0], left[one, 1])
        a0, a1, a2, a3 = product(low, high, left_factor[0], left_factor[1])
        low, high = magnitude(right[other, 0], right[other, 1])
        b0, b1, b2, b3 = product(low, high, right_factor[0], right_factor[1])
        if a2 | a3 | b2 | b3 != _ZERO:
            undone[row] = 1
            continue
        _, _, r0, r1 = divide(a0, a1, _ZERO, _ZERO, b0, b1)
        if is_below(r0, r1, limit_low, limit_high):
            out[row, 0], out[row, 1] = with_sign(r0, r1, left[one, 1] < 0)
        else:
            undone[row] = 1


@kernel
def low_words(values: Any, out: Any) -> bool:
    """The low words of all rows, also under NULLs; whether they are the values. Stops soon if they are not."""
    count = out.shape[0]
    for first in range(0, count, _ROWS_AT_ONCE):
        beyond = np.int64(0)
        for row in range(first, min(first + _ROWS_AT_ONCE, count)):
            low = values[row, 0]
            out[row] = low
            beyond |= (low >> np.int64(63)) ^ values[row, 1]
        if beyond != 0:
            return False
    return True


@kernel
def to_doubles(values: Any, valid: Any, divisor: Any, exact_divisor: float, out: Any) -> None:
    """The nearest doubles to values / divisor, ties to even.

    `exact_divisor` is the divisor where it is a double, else 0: then one division of doubles rounds small numbers
    correctly. Of others the quotient is computed to at least 63 bits, and the rest tells a tie from what is just above.
    """
    exact = np.uint64(1 << _MANTISSA_BITS)
    divisor_bits = _bits_of(divisor[0], divisor[1])
    for row in range(values.shape[0]):
        if valid.size > 0 and valid[row] == 0:
            continue
        low, high = magnitude(values[row, 0], values[row, 1])
        if high == _ZERO and low <= exact and (exact_divisor != 0.0 or low == _ZERO):
            number: Any = np.float64(low) / (1.0 if low == _ZERO else exact_divisor)
            out[row] = -number if values[row, 1] < 0 else number
            continue
        places = max(0, 64 + divisor_bits - _bits_of(low, high))
        w0, w1, w2, w3 = low, high, _ZERO, _ZERO
        for _ in range(places // 64):
            w0, w1, w2, w3 = _ZERO, w0, w1, w2
        bits = np.uint64(places % 64)
        w3, w2, w1, w0 = shifted(w2, w3, bits), shifted(w1, w2, bits), shifted(w0, w1, bits), w0 << bits
        q0, q1, r0, r1 = divide(w0, w1, w2, w3, divisor[0], divisor[1])
        number = _rounded_mantissa(q0, q1, r0 != _ZERO or r1 != _ZERO, places)
        out[row] = -number if values[row, 1] < 0 else number


@kernel(inline=True)
def _bits_of(low: Any, high: Any) -> Any:
    """The number of bits of a number that is not zero."""
    if high != _ZERO:
        return 128 - np.int64(leading_zeros(high))
    return 64 - np.int64(leading_zeros(low))


@kernel(inline=True)
def _rounded_mantissa(low: Any, high: Any, has_rest: bool, places: int) -> float:
    """The double nearest to (high, low) x 2^-places, where `has_rest` says that something is cut off already."""
    drop = _bits_of(low, high) - _MANTISSA_BITS
    if drop > 64:
        kept, cut = high >> np.uint64(drop - 64), high & ((_ONE << np.uint64(drop - 64)) - _ONE)
        half = _ONE << np.uint64(drop - 65)
        has_rest = has_rest or low != _ZERO
    else:
        bits = np.uint64(drop)
        kept = shifted(low, high, np.uint64(64) - bits) if drop < 64 else high
        cut = low & ((_ONE << bits) - _ONE) if drop < 64 else low
        half = _ONE << np.uint64(drop - 1)
    if cut > half or (cut == half and (has_rest or kept & _ONE != _ZERO)):
        kept += _ONE
    return math.ldexp(np.float64(kept), drop - places)
