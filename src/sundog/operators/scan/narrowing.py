"""The rows of a run of row groups, while the tests of a scan narrow them down.

    all rows ── test ──> most of them: a mask; the next column is decoded whole, and tested in all rows
                 └─────> few of them: their numbers; the next column is decoded for these rows only

So a WHERE, or the keys of a join, that leaves one row in a hundred has a hundredth of the other columns decoded, and no
page of them read that holds no such row. Strings without a dictionary are decoded whole, and copied for the rows that
stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sundog.columns.arrow import plain_text
from sundog.expr.buffers import Bools
from sundog.operators.costs import ScanCosts
from sundog.operators.filter import keep_rows
from sundog.parquet.decode.reader import FileReader


class Narrowing:
    """What is left of the rows of `row_groups`. `decoded` are columns of all rows that are known already."""

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
        """How many rows `columns` gives: those that are left, if they are few, else all."""
        return self._rows if self._few is None else len(self._few)

    def columns(self, names: Sequence[str], as_stored: frozenset[str]) -> list[pa.Array]:
        """The columns of the rows to test. Strings among `as_stored` may come as they are stored."""
        missing = [name for name in names if name not in self._decoded]
        late: dict[str, pa.Array] = {}
        if missing and self._few is not None:
            late = self._reader.read_rows(self._row_groups, missing, self._few)
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
            late.update(zip(whole, keep_rows(batch, mask).columns, strict=True))
        return [_in_form(late[name], name in as_stored) for name in names]

    def narrow(self, passing: Bools) -> None:
        """Leave the tested rows that pass, one flag for each of `tested_rows`."""
        if self._few is not None:
            self._few = self._few[passing]
            return
        self._mask = passing if self._mask is None else self._mask & passing
        if self.left * self._costs.rows_per_late_value <= self._rows:
            self._few = np.flatnonzero(self._mask)

    def kept(self, arrays: list[pa.Array], names: Sequence[str]) -> pa.RecordBatch:
        """The rows that are left of what `columns` gave."""
        batch = pa.record_batch(arrays, names=list(names))
        return batch if self._few is not None or self._mask is None else keep_rows(batch, self._mask)


def _in_form(column: pa.Array, as_stored: bool) -> pa.Array:
    """A column that another test may have asked for as it is stored."""
    return column if as_stored else plain_text(column)
