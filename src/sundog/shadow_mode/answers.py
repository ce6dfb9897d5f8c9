"""Comparison of two answers to one query, as far as Spark promises anything about them.

order       rows are compared as a multiset. If the query sorts its result, the sort keys must also come in the same
            order; rows with equal keys may stand in any order among themselves
ties        of the rows that tie on the whole sort key at the end of a top-k (or at its offset), any may be chosen
floats      bit for bit, with all NaN alike. Where doubles were added up (sums, averages, variances), in an order that
            may differ: within TOLERANCE of the largest magnitude in the column
types       an int is not a float, and Decimal('1.0') is not Decimal('1.00')
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Any

TOLERANCE = 1e-9  # doubles carry 53 bits, 1e-16; a sum of ten million may lose a few thousand units of its last place
SHOWN_ROWS = 5

Values = tuple[Any, ...]
RowPair = tuple[Values | None, Values | None]


@dataclass(frozen=True)
class Rules:
    """How to compare the results of a query."""

    order: tuple[int, ...] = ()  # the columns that the rows are sorted by
    is_cut: bool = False  # a top-k: rows that tie at its ends are chosen freely
    is_rounded: bool = False  # doubles were added up


def differences(theirs: Sequence[Values], ours: Sequence[Values], rules: Rules) -> list[RowPair]:
    """Rows of one answer that the other does not have, in pairs; at most SHOWN_ROWS. Empty: the answers agree."""
    if rules.order and len(theirs) == len(ours):
        unsorted = [
            pair
            for pair in zip(theirs, ours, strict=True)
            if any(not _alike(pair[0][column], pair[1][column], rules, 0.0) for column in rules.order)
        ]
        if unsorted:
            return list(unsorted[:SHOWN_ROWS])
        if rules.is_cut and theirs:
            free = {_key(theirs[0], rules), _key(theirs[-1], rules)}
            theirs = [row for row in theirs if _key(row, rules) not in free]
            ours = [row for row in ours if _key(row, rules) not in free]
    return _unmatched(theirs, ours, rules)[:SHOWN_ROWS]


def _key(row: Values, rules: Rules) -> Values:
    return tuple(_canonical(row[column]) for column in rules.order)


def _unmatched(theirs: Sequence[Values], ours: Sequence[Values], rules: Rules) -> list[RowPair]:
    """The rest of both after removing equal rows; then, if sums were rounded, nearly equal ones."""
    left, right = ({_canonical(row): row for row in rows} for rows in (theirs, ours))
    counts = Counter(_canonical(row) for row in theirs)
    counts.subtract(Counter(_canonical(row) for row in ours))
    more = sorted((left[row] for row, count in counts.items() for _ in range(count)), key=_sort_key)
    less = sorted((right[row] for row, count in counts.items() for _ in range(-count)), key=_sort_key)
    pairs: list[RowPair] = list(zip_longest(more, less))
    if not rules.is_rounded:
        return pairs
    scales = _scales(theirs)
    return [pair for pair in pairs if not _rows_alike(pair, rules, scales)]


def _scales(rows: Iterable[Values]) -> list[float]:
    """The largest magnitude in each column of doubles; 0 for others."""
    return [
        max((abs(value) for value in column if isinstance(value, float) and math.isfinite(value)), default=0.0)
        for column in zip(*rows, strict=True)
    ]


def _rows_alike(pair: RowPair, rules: Rules, scales: list[float]) -> bool:
    one, other = pair
    if one is None or other is None or len(one) != len(other):
        return False
    return all(_alike(a, b, rules, scale) for a, b, scale in zip(one, other, scales, strict=True))


def _alike(one: Any, other: Any, rules: Rules, scale: float) -> bool:
    if rules.is_rounded and isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE * scale) or (
            math.isnan(one) and math.isnan(other)
        )
    return bool(_canonical(one) == _canonical(other))


def _canonical(value: Any) -> Any:
    """A value that is equal, and hashes equal, exactly if the values are the same."""
    match value:
        case float():
            return "float", b"" if math.isnan(value) else struct.pack("<d", value)
        case Decimal():
            return "Decimal", str(value)
        case tuple() | list():
            return type(value).__name__ if isinstance(value, list) else "row", tuple(map(_canonical, value))
        case dict():
            return "dict", tuple(sorted((repr(key), _canonical(item)) for key, item in value.items()))
        case bytearray():
            return "bytes", bytes(value)
        case _:
            return type(value).__name__, value


def _sort_key(row: Values) -> Values:
    """Doubles last, so that rows that differ in their last bits are next to each other."""
    floats = tuple((math.isnan(value), value) for value in row if isinstance(value, float))
    return tuple(repr(value) for value in row if not isinstance(value, float)), floats
