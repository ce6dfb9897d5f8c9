"""Integers of 128 and 256 bits as 64-bit words, lowest first, for decimals of up to 38 digits.

numba has no wider integers than 64 bits. Magnitudes are kept here, without a sign; the caller applies the sign.
Division is Knuth's algorithm D in words of 64 bits, as in Hacker's Delight (divlu), with a divisor of one or two words:
about 10 ns a quotient where Python's integers take microseconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundog.kernels.compile import kernel

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_HALF_BITS = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_BASE = np.uint64(1 << 32)
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel(inline=True)
def magnitude(low: Any, high: Any) -> Any:
    """|value| of a signed number of two words."""
    one, two = np.uint64(low), np.uint64(high)
    if high < 0:
        one = ~one + _ONE
        two = ~two + (_ONE if one == _ZERO else _ZERO)
    return one, two


@kernel(inline=True)
def with_sign(low: Any, high: Any, is_negative: bool) -> Any:
    """The inverse of `magnitude`, as signed words."""
    if is_negative:
        low = ~low + _ONE
        high = ~high + (_ONE if low == _ZERO else _ZERO)
    return np.int64(low), np.int64(high)


@kernel(inline=True)
def is_below(low: Any, high: Any, other_low: Any, other_high: Any) -> bool:
    return bool(high < other_high or (high == other_high and low < other_low))


@kernel(inline=True)
def product_of_words(one: Any, other: Any) -> Any:
    """64 x 64 -> 128 bits."""
    a0, a1 = one & _LOW_HALF, one >> _HALF_BITS
    b0, b1 = other & _LOW_HALF, other >> _HALF_BITS
    p01, p10 = a0 * b1, a1 * b0
    middle = ((a0 * b0) >> _HALF_BITS) + (p01 & _LOW_HALF) + (p10 & _LOW_HALF)
    return one * other, a1 * b1 + (p01 >> _HALF_BITS) + (p10 >> _HALF_BITS) + (middle >> _HALF_BITS)


@kernel(inline=True)
def product(a0: Any, a1: Any, b0: Any, b1: Any) -> Any:
    """128 x 128 -> 256 bits."""
    w0, w1 = product_of_words(a0, b0)
    if a1 == _ZERO and b1 == _ZERO:
        return w0, w1, _ZERO, _ZERO
    x0, x1 = product_of_words(a0, b1)
    y0, y1 = product_of_words(a1, b0)
    z0, z1 = product_of_words(a1, b1)
    w1, carry = plus(w1, x0, _ZERO)
    w2, carry = plus(x1, z0, carry)
    w3 = z1 + carry
    w1, carry = plus(w1, y0, _ZERO)
    w2, carry = plus(w2, y1, carry)
    return w0, w1, w2, w3 + carry


@kernel(inline=True)
def plus(one: Any, other: Any, carry: Any) -> Any:
    """The sum of two words and a carry of 0 or 1, and the next carry."""
    part = one + other
    total = part + carry
    return total, (_ONE if part < one or total < part else _ZERO)


@kernel(inline=True)
def minus(one: Any, other: Any, borrow: Any) -> Any:
    part = one - other
    total = part - borrow
    return total, (_ONE if one < other or part < borrow else _ZERO)


@kernel(inline=True)
def leading_zeros(word: Any) -> Any:
    """Count the leading zeros of a word that is not zero."""
    count = _ZERO
    for bits in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(64 - bits) == _ZERO:
            word <<= np.uint64(bits)
            count += np.uint64(bits)
    return count


@kernel(inline=True)
def shifted(low: Any, high: Any, bits: Any) -> Any:
    """Two words to the left by 0 to 63 bits: the upper one."""
    return (high << bits) | ((low >> _ONE) >> (np.uint64(63) - bits))


@kernel
def quotient_of_two(low: Any, high: Any, divisor: Any) -> Any:
    """(high, low) / divisor and the rest, for a divisor with its top bit set and above `high`."""
    d1, d0 = divisor >> _HALF_BITS, divisor & _LOW_HALF
    upper, lower = low >> _HALF_BITS, low & _LOW_HALF
    q1 = high // d1
    rest = high - q1 * d1
    while q1 >= _BASE or q1 * d0 > (rest << _HALF_BITS) + upper:
        q1 -= _ONE
        rest += d1
        if rest >= _BASE:
            break
    middle = (high << _HALF_BITS) + upper - q1 * divisor
    q0 = middle // d1
    rest = middle - q0 * d1
    while q0 >= _BASE or q0 * d0 > (rest << _HALF_BITS) + lower:
        q0 -= _ONE
        rest += d1
        if rest >= _BASE:
            break
    return (q1 << _HALF_BITS) + q0, (middle << _HALF_BITS) + lower - q0 * divisor


@kernel(inline=True)
def _step(w0: Any, w1: Any, w2: Any, d0: Any, d1: Any) -> Any:
    """(w2, w1, w0) / (d1, d0) and the rest, for a divisor with its top bit set and above (w2, w1)."""
    is_exact = True
    if w2 >= d1:
        quotient = _ALL_ONES
        rest = w1 + d1
        is_exact = rest >= d1
    else:
        quotient, rest = quotient_of_two(w1, w2, d1)
    p0, p1 = product_of_words(quotient, d0)
    while is_exact and is_below(w0, rest, p0, p1):
        quotient -= _ONE
        p0, borrow = minus(p0, d0, _ZERO)
        p1 -= borrow
        rest += d1
        is_exact = rest >= d1
    r0, borrow = minus(w0, p0, _ZERO)
    return quotient, r0, w1 - quotient * d1 - p1 - borrow


@kernel
def divide_by_word(w0: Any, w1: Any, w2: Any, w3: Any, divisor: Any) -> Any:
    """Four words / one: four words, the rest dropped."""
    if w1 == _ZERO and w2 == _ZERO and w3 == _ZERO:
        return w0 // divisor, _ZERO, _ZERO, _ZERO
    bits = leading_zeros(divisor)
    divisor <<= bits
    q3, q2 = _ZERO, _ZERO
    if w2 == _ZERO and w3 == _ZERO:
        rest = shifted(w1, _ZERO, bits)
    else:
        q3, rest = quotient_of_two(shifted(w2, w3, bits), shifted(w3, _ZERO, bits), divisor)
        q2, rest = quotient_of_two(shifted(w1, w2, bits), rest, divisor)
    q1, rest = quotient_of_two(shifted(w0, w1, bits), rest, divisor)
    q0, rest = quotient_of_two(w0 << bits, rest, divisor)
    return q0, q1, q2, q3


@kernel
def divide(w0: Any, w1: Any, w2: Any, w3: Any, d0: Any, d1: Any) -> Any:
    """Four words / two: quotient and rest of two words each. The divisor must be above (w3, w2)."""
    if w2 == _ZERO and w3 == _ZERO:
        if w1 == _ZERO and d1 == _ZERO:
            quotient = w0 // d0
            return quotient, _ZERO, w0 - quotient * d0, _ZERO
        if is_below(w0, w1, d0, d1):
            return _ZERO, _ZERO, w0, w1
    if d1 == _ZERO:
        bits = leading_zeros(d0)
        d0 <<= bits
        rest = shifted(w1, w2, bits)
        q1, rest = quotient_of_two(shifted(w0, w1, bits), rest, d0)
        q0, rest = quotient_of_two(w0 << bits, rest, d0)
        return q0, q1, rest >> bits, _ZERO
    bits = leading_zeros(d1)
    e0, e1 = d0 << bits, shifted(d0, d1, bits)
    q1, r0, r1 = _step(shifted(w0, w1, bits), shifted(w1, w2, bits), shifted(w2, w3, bits), e0, e1)
    q0, r0, r1 = _step(w0 << bits, r0, r1, e0, e1)
    return q0, q1, ((r0 >> bits) | ((r1 << _ONE) << (np.uint64(63) - bits))), r1 >> bits
