"""The tests that the rows of a scan must pass: the conjuncts of its WHERE, and the keys of joins above it.

Each test reads its own columns, which are decoded for the remaining rows only (`narrowing.py`). So the order matters: a
test on a column of numbers that drops nine rows in ten comes before one on strings. A task orders its tests by what
they have dropped so far. A key filter that drops too few rows to pay for itself is no longer tested; the join drops
these rows anyway.

If the WHERE can raise an error, it is tested first, as a whole, on all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from sundog.columns.key_sets import rows_passing
from sundog.columns.stored_text import StoredPredicate
from sundog.expr.buffers import Bools
from sundog.expr.dynamic_filters.key_set import KeyFilter, KeySet
from sundog.expr.nodes import Expr
from sundog.expr.raising import can_raise
from sundog.operators.costs import ScanCosts
from sundog.types import is_text


class RowTest(Protocol):
    """One test, with counts of what it did so far in this task."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def as_stored(self) -> frozenset[str]:
        """The columns whose strings it takes in any form."""
        ...

    @property
    def is_of_join(self) -> bool: ...

    @property
    def pays(self) -> bool: ...

    @property
    def share(self) -> float:
        """The share of the tested rows that passed."""
        ...

    def passing(self, batch: pa.RecordBatch) -> Bools:
        """The rows that pass, given a batch of `columns`."""
        ...


class _Counted:
    """Counts the rows that pass. `expected`: the assumed share until some were tested."""

    def __init__(self, expected: float) -> None:
        self.tested = 0
        self.passed = 0
        self._expected = expected

    @property
    def share(self) -> float:
        return self.passed / self.tested if self.tested else self._expected

    def count(self, mask: Bools) -> Bools:
        self.tested += len(mask)
        self.passed += int(np.count_nonzero(mask))
        return mask


class PredicateTest(_Counted):
    """A conjunct of the WHERE, or several."""

    is_of_join = False
    pays = True

    def __init__(self, predicate: StoredPredicate, costs: ScanCosts) -> None:
        super().__init__(costs.assumed_passing_share)
        self._predicate = predicate
        self.columns = predicate.columns
        self.as_stored = predicate.as_stored

    def passing(self, batch: pa.RecordBatch) -> Bools:
        return self.count(self._predicate.mask(batch))


class KeyFilterTest(_Counted):
    """The keys of a join above the scan."""

    is_of_join = True

    def __init__(self, wanted: KeyFilter, keys: KeySet, costs: ScanCosts) -> None:
        super().__init__(min(costs.assumed_passing_share, keys.density))
        self._filter = wanted
        self._costs = costs
        self.columns = (wanted.column,)
        self.as_stored = frozenset(self.columns)

    @property
    def pays(self) -> bool:
        return self.tested < self._costs.key_filter_probe_rows or self.share <= self._costs.max_key_filter_share

    def passing(self, batch: pa.RecordBatch) -> Bools:
        return self.count(rows_passing(self._filter, batch.column(0)))


class RowTests:
    """The tests of one task. Not shared between threads."""

    def __init__(
        self, predicate: Expr | None, filters: Sequence[KeyFilter], schema: pa.Schema, costs: ScanCosts
    ) -> None:
        """`schema` has the columns of all tests."""
        self._predicate_raises = predicate is not None and can_raise(predicate)
        steps = [] if predicate is None else StoredPredicate.of(predicate).steps
        self._of_predicate = [PredicateTest(step, costs) for step in steps]
        self._of_joins = [KeyFilterTest(each, each.keys, costs) for each in filters if each.keys is not None]
        self._texts = frozenset(field.name for field in schema if is_text(field.type))
        self._costs = costs
        self.given_up = 0  # filters by keys that were left out of the last run

    def of_run(self, all_match: bool) -> list[RowTest]:
        """The tests to make now, in their order. `all_match`: statistics prove the WHERE for all rows."""
        first: list[RowTest] = [] if all_match else [*self._of_predicate]
        joins = [test for test in self._of_joins if test.pays]
        self.given_up = len(self._of_joins) - len(joins)
        if self._predicate_raises:
            return first + sorted(joins, key=self._rank)
        return sorted([*first, *joins], key=self._rank)

    def _rank(self, test: RowTest) -> float:
        """Cost of the test divided by the share of rows that it drops; lower comes first."""
        cost = self._costs.string_test_factor if self._texts.intersection(test.columns) else 1.0
        return cost / max(1 - test.share, 1e-9)
