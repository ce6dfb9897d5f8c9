"""Are two answers the same, as far as Spark determines them?

Types of values count, the sign of a zero counts, NaN equals NaN. Rows are compared in order where the query fixes the
order, as multisets where not; at the cut of a LIMIT the rows tied in the whole sort key are free, but each must be one
that the query without its LIMIT gives. Floats are equal bit by bit, except outputs marked inexact (sums, averages and
moments of floats, whose last bits depend on the order of addition): those within RELATIVE and ABSOLUTE. Errors are
compared by class and condition.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import groupby
from typing import Any

from tests.fuzz.queries import Check

RELATIVE = 1e-9
ABSOLUTE = 1e-5  # values are up to 1e3 and rows up to 1e4, and moments square them


@dataclass(frozen=True)
class Answer:
    """What an action gave: rows and their types, or one value, or an error."""

    types: str = ""
    rows: tuple[tuple[Any, ...], ...] = ()
    value: Any = None
    error: str | None = None  # class and condition
    message: str = field(default="", compare=False)

    def __str__(self) -> str:
        if self.error is not None:
            return f"raises {self.error}: {self.message[:300]}"
        if self.value is not None:
            return f"{self.value!r:.2000}"
        shown = "\n".join(f"    {row!r:.400}" for row in self.rows[:12])
        return f"{len(self.rows)} rows of {self.types}\n{shown}"


Unlimited = Callable[[], Answer]


def difference(ours: Answer, theirs: Answer, check: Check, unlimited: Unlimited | None = None) -> str | None:
    """What differs, in one line; None if nothing does. `unlimited` gives the oracle's answer without the LIMIT."""
    if ours.error or theirs.error:
        if ours.error == theirs.error:
            return None
        return f"error: {ours.error or 'none'} instead of {theirs.error or 'none'}"
    if ours.types != theirs.types:
        return f"types: {ours.types} instead of {theirs.types}"
    if ours.value is not None or theirs.value is not None:
        return None if repr(ours.value) == repr(theirs.value) else "value"
    if len(ours.rows) != len(theirs.rows):
        return f"rows: {len(ours.rows)} instead of {len(theirs.rows)}"
    mine, other = ([tuple(map(canonical, row)) for row in answer.rows] for answer in (ours, theirs))
    if check.order == "total":
        return _in_order(mine, other, check)
    if check.order == "keys":
        return _by_keys(mine, other, check, unlimited)
    return _as_multiset(mine, other, check)


Cell = tuple[Any, ...]
Row = tuple[Cell, ...]


def canonical(value: Any) -> Cell:
    """A value with its type, that equals another exactly if Spark's values are the same."""
    if value is None:
        return ("null",)
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else ("float", value, math.copysign(1.0, value))
    if isinstance(value, Decimal):
        # The JVM's rows come in engineering notation, which pads small values: -8E-10 as -800E-12.
        return ("decimal", str(Decimal(value.to_eng_string())))
    if isinstance(value, bytes | bytearray):
        return (type(value).__name__, bytes(value))
    return (type(value).__name__, repr(value))


def _same_cell(a: Cell, b: Cell, inexact: bool) -> bool:
    if a == b:
        return True
    if not inexact or a[0] != "float" or b[0] != "float":
        return False
    return bool(math.isclose(a[1], b[1], rel_tol=RELATIVE, abs_tol=ABSOLUTE))


def _same_row(a: Row, b: Row, check: Check) -> bool:
    return all(_same_cell(x, y, place in check.inexact) for place, (x, y) in enumerate(zip(a, b, strict=True)))


def _in_order(mine: list[Row], other: list[Row], check: Check) -> str | None:
    for number, (a, b) in enumerate(zip(mine, other, strict=True)):
        if not _same_row(a, b, check):
            return f"row {number}: {_shown(a)} instead of {_shown(b)}"
    return None


def _as_multiset(mine: list[Row], other: list[Row], check: Check) -> str | None:
    """Rows that match exactly cancel out; of the rest, those alike in all exact columns are paired within tolerance."""
    left, right = Counter(mine), Counter(other)
    extra, lacking = list((left - right).elements()), list((right - left).elements())
    for row in list(extra):
        partner = next((each for each in lacking if _same_row(row, each, check)), None) if check.inexact else None
        if partner is not None:
            lacking.remove(partner)
            extra.remove(row)
    if extra:
        return (
            f"{len(extra)} rows differ, e.g. {_shown(extra[0])} instead of "
            f"{_shown(lacking[0]) if lacking else 'nothing'}"
        )
    return None


def _by_keys(mine: list[Row], other: list[Row], check: Check, unlimited: Unlimited | None) -> str | None:
    def key(row: Row) -> Row:
        return tuple(_key_cell(row[place]) for place in check.keys)

    if [key(row) for row in mine] != [key(row) for row in other]:
        number = next(place for place, (a, b) in enumerate(zip(mine, other, strict=True)) if key(a) != key(b))
        return f"sort key of row {number}: {_shown(key(mine[number]))} instead of {_shown(key(other[number]))}"
    groups = [(list(a), list(b)) for (_, a), (_, b) in zip(groupby(mine, key), groupby(other, key), strict=True)]
    for number, (a, b) in enumerate(groups):
        found = _as_multiset(a, b, check)
        if found is not None and check.cut and number in (0, len(groups) - 1) and unlimited is not None:
            whole = [tuple(map(canonical, row)) for row in unlimited().rows]
            candidates = [row for row in whole if key(row) == key(a[0])]
            found = _contained(a, candidates, check)
        if found is not None:
            return found
    return None


def _contained(rows: list[Row], candidates: list[Row], check: Check) -> str | None:
    left = list(candidates)
    for row in rows:
        partner = next((each for each in left if _same_row(row, each, check)), None)
        if partner is None:
            return f"{_shown(row)} is not a row of the query without its LIMIT"
        left.remove(partner)
    return None


def _key_cell(cell: Cell) -> Cell:
    """Zeros tie in a sort."""
    return ("float", 0.0, 1.0) if cell[0] == "float" and cell[1] == 0 else cell


def _shown(row: Row) -> str:
    return repr(tuple(cell[1] if len(cell) > 1 else cell[0] for cell in row))[:300]
