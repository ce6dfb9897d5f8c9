"""bit_and, bit_or and bit_xor of two values, by group and over frames."""

from __future__ import annotations

from typing import Any

from sundog.kernels.compile import kernel

BIT_AND, BIT_OR, BIT_XOR = 0, 1, 2


@kernel(inline=True)
def combined_bits(left: Any, right: Any, operation: int) -> Any:
    if operation == BIT_AND:
        return left & right
    if operation == BIT_OR:
        return left | right
    return left ^ right
