"""sum and avg of decimals, with Spark's result types and its two ways to overflow.

    sum(decimal(p,s))   decimal(min(p+10, 38), s)
    avg(decimal(p,s))   decimal(min(p+4, 38), min(s+4, 38)), from such a sum and a count

A sum that leaves its type at any row is lost: ARITHMETIC_OVERFLOW under ANSI, else NULL. An average whose sum is fine
may still have too many digits for its own type: NUMERIC_VALUE_OUT_OF_RANGE under ANSI, else NULL. Only arguments of
more than 28 digits can come to that.

Without GROUP BY, Spark holds the sum against its type once for each of its tasks and once at the end: what is too long in
the middle of a task may come back. Where its tasks begin is not known here. So a sum of one group whose values are so large
that some order of them may leave the type is handed back to Spark (`_DecimalSums.depends_on_tasks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa

from sundog.columns.vectors import Bytes, Ints, Vector, both, full_mask, nulls
from sundog.expr.calls import AggregateCall
from sundog.expr.errors import SparkQueryError
from sundog.functions.grouped import Accumulator, Groups, NullState, counted, grown, mask_of
from sundog.functions.sums.integers import COUNT, FLAG, GroupCounts, single_counts
from sundog.functions.sums.overflow import decimal_sum_overflow
from sundog.kernels.by_group_decimals import divide_decimals, sum_decimals_by_group
from sundog.support import Code, Declined

_MOST_DIGITS = 38
_LARGEST_FAST_COUNT = 2**32 - 1
_LARGEST_MAGNITUDE = 1e38 / 2**16  # of one task's rows, so that no part of those of 65,536 tasks leaves 38 digits


def sum_type(dtype: pa.DataType) -> pa.DataType:
    return pa.decimal128(min(dtype.precision + 10, _MOST_DIGITS), dtype.scale)


def limit(digits: int) -> tuple[np.uint64, np.uint64]:
    """10^digits as (low, high) words."""
    value = 10**digits
    return np.uint64(value & 0xFFFFFFFFFFFFFFFF), np.uint64(value >> 64)


def unscaled(words: Ints) -> int:
    """The number that two words hold."""
    return (int(words[1]) << 64) | (int(words[0]) & 0xFFFFFFFFFFFFFFFF)


class _DecimalSums:
    """128-bit sums of all groups, and which of them are lost."""

    def __init__(self, dtype: pa.DataType) -> None:
        self.dtype = dtype
        self.null_state = NullState()
        self._sums = np.zeros((0, 2), np.int64)
        self._overflowed = np.zeros(0, np.uint8)
        self._magnitude = 0.0
        self._told = False
        self.groups = 0

    def weigh(self, values: Vector, valid: Bytes | None, groups: Groups) -> None:
        """Note how large the rows of a single group are; call it before `add`, for rows only."""
        if groups.count != 1 or self.dtype.precision < _MOST_DIGITS or values.all_null:
            return
        words = values.values if valid is None else values.values[valid != 0]
        low, high = words[:, 0].view(np.uint64).astype(np.float64), words[:, 1].astype(np.float64)
        self._magnitude += float(np.abs(high * 2.0**64 + low).sum())

    @property
    def depends_on_tasks(self) -> bool:
        """Whether a part of the rows of the only group may add up to more than the type holds."""
        return self.groups == 1 and (self._told or self._magnitude >= _LARGEST_MAGNITUDE)

    def check_tasks(self) -> None:
        if self.depends_on_tasks:
            sentence = "a sum of decimals may leave its type on the way, where Spark's answer depends on its tasks"
            raise Declined.because(Code.CAN_RAISE, sentence, "Aggregate")

    def add(self, values: Vector, valid: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        self._sums = grown(self._sums, groups.count, 0)
        self._overflowed = grown(self._overflowed, groups.count, 0)
        self.null_state.mark(valid, groups)
        low, high = limit(self.dtype.precision)
        sum_decimals_by_group(groups.ids, values.values, mask_of(valid), low, high, self._sums, self._overflowed)

    def mark_lost(self, flags: Vector, groups: Groups) -> None:
        if not flags.all_null:
            lost = flags.values & full_mask(flags)
            self._overflowed[groups.ids[lost != 0]] = 1

    def mark_large(self, flags: Vector) -> None:
        """Take over what other tasks say of the size of their rows."""
        self._told |= not flags.all_null and bool((flags.values & full_mask(flags)).any())

    @property
    def lost(self) -> Bytes:
        return self._overflowed[: self.groups]

    def state(self) -> list[Vector]:
        """A lost sum is written as zero, which its type holds; the flag tells."""
        sums = self._sums[: self.groups]
        if self.lost.any():
            sums = np.where(self.lost[:, None] != 0, 0, sums)
        return [Vector(self.dtype, self.groups, sums, self.null_state.valid()), Vector(FLAG, self.groups, self.lost)]

    def large(self) -> Vector:
        """The state that `mark_large` takes; NULL, which costs nothing, where there is nothing to say."""
        if not self.depends_on_tasks:
            return nulls(FLAG, self.groups)
        return Vector(FLAG, self.groups, np.ones(self.groups, np.uint8))

    def kept(self) -> Bytes | None:
        """Validity after losses; None where there are all."""
        return both(self.null_state.valid(), (self.lost == 0).view(np.uint8) if self.lost.any() else None)

    @property
    def values(self) -> Ints:
        return self._sums[: self.groups]


class SumDecimals(Accumulator):
    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._sums = _DecimalSums(call.dtype)

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (self.call.dtype, FLAG, FLAG)

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        valid = counted(args, rows)
        self._sums.weigh(args[0], valid, groups)
        self._sums.add(args[0], valid, groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        return [
            Vector(self.call.dtype, length, args[0].values, counted(args, rows)),
            nulls(FLAG, length),
            nulls(FLAG, length),
        ]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.groups = groups.count
        self._sums.add(states[0], counted(states[:1], None), groups)
        self._sums.mark_lost(states[1], groups)
        self._sums.mark_large(states[2])

    def state(self) -> list[Vector]:
        return [*self._sums.state(), self._sums.large()]

    def evaluate(self) -> Vector:
        self._sums.check_tasks()
        if self._sums.lost.any() and self.call.ansi and self.call.function == "sum":
            raise decimal_sum_overflow("sum")
        return Vector(self.call.dtype, self.groups, self._sums.values, self._sums.kept())


class AverageDecimals(Accumulator):
    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._sums = _DecimalSums(sum_type(call.args[0].dtype))
        self._counts = GroupCounts()

    @property
    def state_types(self) -> tuple[pa.DataType, ...]:
        return (self._sums.dtype, FLAG, COUNT, FLAG)

    @property
    def count_columns(self) -> frozenset[int]:
        return frozenset({2})

    def update(self, args: Sequence[Vector], rows: Bytes | None, groups: Groups) -> None:
        self.groups = groups.count
        valid = counted(args, rows)
        self._sums.weigh(args[0], valid, groups)
        self._sums.add(args[0], valid, groups)
        self._counts.update(valid, groups)

    def singles(self, args: Sequence[Vector], rows: Bytes | None, length: int) -> list[Vector]:
        valid = counted(args, rows)
        sums = Vector(self._sums.dtype, length, args[0].values, valid)
        return [sums, nulls(FLAG, length), single_counts(valid, length), nulls(FLAG, length)]

    def merge(self, states: Sequence[Vector], groups: Groups) -> None:
        self.groups = groups.count
        self._sums.add(states[0], counted(states[:1], None), groups)
        self._sums.mark_lost(states[1], groups)
        self._counts.merge(states[2], groups)
        self._sums.mark_large(states[3])

    def state(self) -> list[Vector]:
        counts = Vector(COUNT, self.groups, self._counts.values[: self.groups])
        return [*self._sums.state(), counts, self._sums.large()]

    def evaluate(self) -> Vector:
        self._sums.check_tasks()
        raises = self.call.ansi and self.call.function == "avg"
        if raises and self._sums.lost.any():
            raise decimal_sum_overflow("avg")
        counts = self._counts.values[: self.groups]
        quotients = np.zeros((self.groups, 2), np.int64)
        too_long = np.zeros(self.groups, np.uint8)
        factor = 10 ** (self.call.dtype.scale - self._sums.dtype.scale)
        low, high = limit(self.call.dtype.precision)
        fast = np.clip(counts, 1, _LARGEST_FAST_COUNT)
        divide_decimals(self._sums.values, fast, factor, low, high, quotients, too_long)
        for group in np.flatnonzero(counts > _LARGEST_FAST_COUNT):
            quotients[group], too_long[group] = self._divide_exactly(int(group), int(counts[group]), factor)
        valid = both(self._sums.kept(), (counts > 0).view(np.uint8))
        failed = too_long & mask_of(valid)
        if failed.any():
            if raises:
                raise self._out_of_range(int(np.flatnonzero(failed)[0]))
            valid = both(valid, (too_long == 0).view(np.uint8))
        return Vector(self.call.dtype, self.groups, quotients, None if valid is None or valid.all() else valid)

    def _divide_exactly(self, group: int, count: int, factor: int) -> tuple[tuple[int, int], bool]:
        """For a group of more rows than the kernel's divisor holds."""
        dividend = unscaled(self._sums.values[group]) * factor
        size = (2 * abs(dividend) + count) // (2 * count)
        quotient = size if dividend >= 0 else -size
        words = quotient.to_bytes(16, "little", signed=True)
        low, high = (int.from_bytes(part, "little", signed=True) for part in (words[:8], words[8:]))
        return (low, high), size >= 10**self.call.dtype.precision

    def _out_of_range(self, group: int) -> SparkQueryError:
        """The quotient with the 39 decimals that Spark computes and shows."""
        places = _MOST_DIGITS + 1
        total = unscaled(self._sums.values[group])
        digits = abs(total) * 10 ** (places - self._sums.dtype.scale) // int(self._counts.values[group])
        value = Decimal((int(total < 0), tuple(map(int, str(digits))), -places))
        return SparkQueryError.decimal_out_of_range(value, self.call.dtype)
