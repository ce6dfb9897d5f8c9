"""The groups of a partial aggregation: a hash table, and faster paths for keys with few values.

Known keys that are small numbers or entries of a dictionary find their groups in a table by value (`lasting_slots.py`).
New ones are distinguished by value before they are hashed, so that only the distinct ones are looked up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sundog.columns.key_layout import KeyLayout
from sundog.columns.key_table import Ids, KeyTable
from sundog.columns.vectors import Vector
from sundog.operators.aggregate.keys.batch_slots import direct_groups
from sundog.operators.aggregate.keys.lasting_slots import KnownRows, LastingSlots
from sundog.operators.costs import KeyTableCosts


class GroupTable(KeyTable):
    """Numbers groups 0, 1, 2, ... batch by batch."""

    def __init__(self, layout: KeyLayout, costs: KeyTableCosts) -> None:
        self._costs = costs
        self._known = LastingSlots(layout.dtypes, costs)  # set before `clear` of the base class runs
        super().__init__(layout)

    def clear(self) -> None:
        super().clear()
        self._known.forget()
        self.cheap = False

    def assign(self, keys: Sequence[Vector], length: int) -> Ids:
        """The group of each row. Sets `cheap`: whether most rows were distinguished without hashing."""
        known = self._known.rows_of(keys, length)
        if known is None:
            return self._find(keys, length)
        few = length // self._costs.direct_rows_per_new_key
        ids, missing = known.groups(few)
        if missing > few:
            return self._find(keys, length, known)
        if missing:
            rows = np.flatnonzero(ids < 0)
            ids[rows] = found = self.look_up([key.take(rows) for key in keys], len(rows))
            known.learn(found, rows)
        self.cheap = True
        return ids

    def _find(self, keys: Sequence[Vector], length: int, known: KnownRows | None = None) -> Ids:
        direct = direct_groups(keys, length, self._costs)
        self.cheap = direct is not None
        if direct is None:
            return self.look_up(keys, length)
        found = self.look_up([key.take(direct.founders) for key in keys], len(direct.founders))
        if known is not None:
            known.learn(found, direct.founders)
        return direct.ids(found)
