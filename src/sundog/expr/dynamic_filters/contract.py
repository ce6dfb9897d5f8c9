"""The contract of dynamic filters: filters that become known while a query runs.

    publisher                                 filter             subscribers
    a top-k's k-th best row        ──►  Threshold  ──┐      ┌──► files, row groups, pages:  `may_hold(bounds)`
    a join's build side            ──►  KeyFilter  ──┴──►───┴──► rows:                      `passing(values)`

A filter is about the values of one expression. It may let too many rows pass, never too few: what it rules out could
not have changed the result. Its bound only tightens, and `generation` counts how often it has: a subscriber that has
tested a generation need not test again before the next. A state of a filter is frozen and picklable, and travels to
tasks.

A subscriber that cannot use a filter ignores it, and unknown values pass.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from sundog.expr.buffers import Bools
from sundog.expr.nodes import Expr
from sundog.expr.rank_columns import RankColumn


class SlotBounds(Protocol):
    """The possible values of an expression in some slots: files, row groups, or pages.

    An unknown bound is an open end. `nulls` and `values`: whether there may be NULLs and other values at all.
    """

    @property
    def low(self) -> RankColumn: ...

    @property
    def high(self) -> RankColumn: ...

    @property
    def nulls(self) -> Bools: ...

    @property
    def values(self) -> Bools: ...

    def __len__(self) -> int: ...


class DynamicFilter(Protocol):
    """One state of a filter over the values of `expr`."""

    @property
    def expr(self) -> Expr: ...

    @property
    def generation(self) -> int:
        """How often the bound has tightened; 0 as long as everything passes."""
        ...

    def may_hold(self, bounds: SlotBounds) -> Bools:
        """The slots in which a row may pass."""
        ...

    def passing(self, values: pa.Array) -> Bools | None:
        """The rows that may pass, by their values of `expr`; None for all of them."""
        ...
