"""The rows of a run of row groups, as the tests of a scan leave fewer and fewer of them.

    all rows ── test ──> most are left: a mask; the next column is decoded whole, and all rows are tested
                 └─────> few are left: their numbers; the next column is decoded for these rows only

So if a WHERE, or the keys of a join, leave one row in a hundred, a hundredth of each other column is decoded, and no
page without such a row is read. Of strings without a dictionary only the lengths are read between these rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.arrow import in_plain_form
from sundog.expr.buffers import Bools
from sundog.operators.costs import ScanCosts
from sundog.operators.filter import keep_rows
from sundog.parquet.decode.reader import FileReader


class Narrowing:
    """The remaining rows of `row_groups`. `decoded`: columns of all rows that are decoded already."""

    def __init__(
        self,
        reader: FileReader,
        row_groups: Sequence[int],
        rows: int,
        costs: ScanCosts,
        decoded: dict[str, pa.Array] | None = None,
        few: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """`few`: the numbers of the rows that are left before any test, if they are few."""
        self._reader = reader
        self._row_groups = row_groups
        self._rows = rows
        self._costs = costs
        self._decoded = decoded or {}
        self._mask: Bools | None = None  # of all rows, while most are left
        self._few = few  # the numbers of those that are left
        self._late: dict[str, pa.Array] = {}  # columns of the few rows, which the next test or the result may read
        self._late_rows: dict[str, npt.NDArray[np.int64]] = {}  # the rows of each: the remaining ones, or more

    @property
    def left(self) -> int:
        if self._few is not None:
            return len(self._few)
        return self._rows if self._mask is None else int(np.count_nonzero(self._mask))

    @property
    def are_few(self) -> bool:
        return self._few is not None

    @property
    def tested_rows(self) -> int:
        """How many rows `columns` gives: the remaining ones if they are few, else all."""
        return self._rows if self._few is None else len(self._few)

    def columns(self, names: Sequence[str], as_stored: frozenset[str]) -> list[pa.Array]:
        """The columns of the rows to test. Strings among `as_stored` may come as they are stored."""
        missing = [name for name in names if name not in self._decoded]
        late: dict[str, pa.Array] = {}
        if missing and self._few is not None:
            late = self._late_columns(missing, self._few)
            missing = [name for name in missing if name not in late]
        if missing:
            read = self._reader.read(self._row_groups, missing, as_stored)
            self._decoded.update(zip(missing, read, strict=True))
        if self._few is None:
            return [_in_form(self._decoded[name], name in as_stored) for name in names]
        whole = [name for name in names if name not in late]
        if whole:
            mask = np.zeros(self._rows, np.bool_)
            mask[self._few] = True
            batch = pa.record_batch([self._decoded[name] for name in whole], names=whole)
            late.update(zip(whole, keep_rows(batch, mask, self._costs).columns, strict=True))
        return [_in_form(late[name], name in as_stored) for name in names]

    def _late_columns(self, names: Sequence[str], few: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
        """Columns that are decoded for the few rows only; a column that a test has read is not read again."""
        known = [name for name in names if name in self._late]
        unread = [name for name in names if name not in self._late]
        for name in known:
            if len(self._late_rows[name]) > len(few):
                batch = pa.record_batch([self._late[name]], names=[name])
                mask = np.isin(self._late_rows[name], few, assume_unique=True)
                self._late[name] = keep_rows(batch, mask, self._costs).column(0)
                self._late_rows[name] = few
        if unread:
            found = self._reader.read_rows(self._row_groups, unread, few)
            self._late.update(found)
            self._late_rows.update(dict.fromkeys(found, few))
        return {name: self._late[name] for name in names if name in self._late}

    def narrow(self, passing: Bools) -> None:
        """Keep the tested rows that pass; one flag for each of `tested_rows`."""
        if self._few is not None:
            self._few = self._few[passing]
            return
        self._mask = passing if self._mask is None else self._mask & passing
        if self.left * self._costs.rows_per_late_value <= self._rows:
            self._few = np.flatnonzero(self._mask)

    def kept(self, arrays: list[pa.Array], names: Sequence[str]) -> pa.RecordBatch:
        """The remaining rows, from what `columns` gave."""
        batch = pa.record_batch(arrays, names=list(names))
        return batch if self._few is not None or self._mask is None else keep_rows(batch, self._mask, self._costs)


def _in_form(column: pa.Array, as_stored: bool) -> pa.Array:
    """The column in plain form unless `as_stored`: another test may have decoded it as it is stored."""
    return column if as_stored else in_plain_form(column)
