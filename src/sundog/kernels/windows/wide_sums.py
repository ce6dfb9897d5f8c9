"""128-bit sums and averages of decimals over frames, in two 64-bit halves.

`AVG(price) OVER (... ROWS 9 PRECEDING)` over decimal(20,2) needs more than 64 bits for its sum, and Spark's HALF_UP
rounding at the end. Numbers are two's complement, low half unsigned, as Arrow stores them. Sums are exact modulo 2^128;
the caller guarantees that they stay below 10^38.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sundog.kernels.compile import kernel

Positions = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_LOW32 = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


@kernel
def wide_totals(lows: Words, highs: Longs, total_lows: Words, total_highs: Longs) -> None:
    """The sums of the first i numbers; one longer than the numbers."""
    low, high = np.uint64(0), np.int64(0)
    total_lows[0] = low
    total_highs[0] = high
    for row in range(len(lows)):
        added = low + lows[row]
        high += highs[row] + (1 if added < low else 0)
        low = added
        total_lows[row + 1] = low
        total_highs[row + 1] = high


@kernel
def wide_frame_totals(
    total_lows: Words, total_highs: Longs, starts: Positions, stops: Positions, lows: Words, highs: Longs
) -> None:
    """The sum over each frame; 0 for an empty one."""
    for row in range(len(starts)):
        start, stop = starts[row], stops[row]
        if start >= stop:
            lows[row] = 0
            highs[row] = 0
            continue
        low = total_lows[stop] - total_lows[start]
        borrow = 1 if total_lows[stop] < total_lows[start] else 0
        lows[row] = low
        highs[row] = total_highs[stop] - total_highs[start] - borrow


@kernel
def wide_quotients(lows: Words, highs: Longs, counts: Longs, factor: int) -> None:
    """In place: each number times `factor` (at most 10^4) over its count (below 2^32), rounded HALF_UP; 0 over 0.

    Long division in digits of 32 bits: the remainder is below the count, so remainder and next digit fit 64 bits.
    """
    scale = np.uint64(factor)
    for row in range(len(lows)):
        count = np.uint64(counts[row])
        low, high = lows[row], np.uint64(highs[row])
        if count == 0:
            lows[row] = 0
            highs[row] = 0
            continue
        negative = highs[row] < 0
        if negative:
            low = ~low + np.uint64(1)
            high = ~high + np.uint64(1 if low == 0 else 0)
        carry = (low & _LOW32) * scale
        digit0 = carry & _LOW32
        carry = (low >> _SHIFT) * scale + (carry >> _SHIFT)
        digit1 = carry & _LOW32
        carry = (high & _LOW32) * scale + (carry >> _SHIFT)
        digit2 = carry & _LOW32
        carry = (high >> _SHIFT) * scale + (carry >> _SHIFT)
        digit3 = carry & _LOW32
        rest = (carry >> _SHIFT) % count
        rest = (rest << _SHIFT) | digit3
        digit3, rest = rest // count, rest % count
        rest = (rest << _SHIFT) | digit2
        digit2, rest = rest // count, rest % count
        rest = (rest << _SHIFT) | digit1
        digit1, rest = rest // count, rest % count
        rest = (rest << _SHIFT) | digit0
        digit0, rest = rest // count, rest % count
        low = (digit1 << _SHIFT) | digit0
        high = (digit3 << _SHIFT) | digit2
        if rest * np.uint64(2) >= count:
            low += np.uint64(1)
            high += np.uint64(1 if low == 0 else 0)
        if negative:
            low = ~low + np.uint64(1)
            high = ~high + np.uint64(1 if low == 0 else 0)
        lows[row] = low
        highs[row] = np.int64(high)
