"""Rows of a scan against the keys of joins above it, before their other columns are decoded.

The filter that drops most is tested first, and one that drops too little to pay for itself is no longer tested. What it
would have dropped, the join drops.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sundog.columns.key_sets import may_have_partner
from sundog.expr.buffers import Bools
from sundog.expr.dynamic_filters.key_set import KeyFilter, KeySet

_JUDGED_ROWS = 1 << 16
_MAX_PASSING_SHARE = 0.75  # testing and copying what is left costs more than probing rows that find no partner


class _Test:
    """One filter and what it did so far in this task."""

    def __init__(self, column: str, keys: KeySet) -> None:
        self.column = column
        self.keys = keys
        self.tested = 0
        self.passed = 0

    @property
    def share(self) -> float:
        return self.passed / self.tested if self.tested else 1.0

    @property
    def pays(self) -> bool:
        return self.tested < _JUDGED_ROWS or self.share <= _MAX_PASSING_SHARE


class KeyFilterTests:
    """The filters of one task. Not shared between threads."""

    def __init__(self, filters: Sequence[KeyFilter]) -> None:
        self._tests = [_Test(each.column, each.keys) for each in filters if each.keys is not None]

    @property
    def columns(self) -> list[str]:
        """The columns to decode before others; empty if no test pays."""
        return list(dict.fromkeys(test.column for test in self._tests if test.pays))

    def mask(self, columns: dict[str, pa.Array], rows: int) -> Bools:
        """The rows that may have a partner in every join, judged by the given columns."""
        mask = np.ones(rows, np.bool_)
        for test in sorted(self._tests, key=lambda test: test.share):
            if test.pays and test.column in columns:
                own = may_have_partner(test.keys, columns[test.column])
                test.tested += rows
                test.passed += int(np.count_nonzero(own))
                mask &= own
        return mask
