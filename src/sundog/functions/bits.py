"""bit_and, bit_or and bit_xor of integers."""

from __future__ import annotations

from functools import partial

from sundog.columns.vectors import Bytes, Vector
from sundog.expr.calls import AggregateCall
from sundog.functions.declaration import Function, same_integer
from sundog.functions.grouped import Groups, OneValue, grown
from sundog.kernels.groups.by_group import BIT_AND, BIT_OR, BIT_XOR, combine_bits_by_group


class GroupedBits(OneValue):
    def __init__(self, call: AggregateCall, *, operation: int) -> None:
        super().__init__(call)
        self._operation = operation

    def _take_in(self, vector: Vector, valid: Bytes, groups: Groups) -> None:
        self._values = grown(self._values, groups.count, -1 if self._operation == BIT_AND else 0)
        combine_bits_by_group(groups.ids, vector.values, valid, self._operation, self._values)


def _bits(name: str, *, catalyst: str, operation: int, ignores_duplicates: bool) -> Function:
    return Function(
        name=name,
        catalyst=catalyst,
        result=same_integer,
        grouped=partial(GroupedBits, operation=operation),
        ignores_duplicates=ignores_duplicates,
    )


FUNCTIONS = (
    _bits("bit_and", catalyst="BitAndAgg", operation=BIT_AND, ignores_duplicates=True),
    _bits("bit_or", catalyst="BitOrAgg", operation=BIT_OR, ignores_duplicates=True),
    _bits("bit_xor", catalyst="BitXorAgg", operation=BIT_XOR, ignores_duplicates=False),
)
