"""`SkipProbe`: skips the partial aggregation while it does not reduce, and tries again later.

Grouping before the exchange pays if it reduces the rows. A row of a known group saves the exchange and the final
aggregation a row; a row that makes a new group has cost time for nothing. Which rows are more frequent depends on the
data alone, so it is measured: the share of new groups among the rows of a window. The first window says little, since
the table starts empty (100,000 keys look like a million then), unless nearly all of its rows are new. After any later
window, a share above `max_new_share` stops grouping for a number of rows, which doubles each time. So data that never
reduces is hardly grouped, and data that begins to reduce (sorted input, a hot key that comes late) is noticed.

Tasks of one process share a hint: after grouping did not pay in one of them, the first window of the next ones is
smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sundog.operators.costs import GroupingCosts

_DOES_NOT_REDUCE = "grouping before the exchange does not reduce"


@dataclass
class SkipProbe:
    """Decides in one task whether rows are grouped. `hints` are shared by the tasks of a stage in this process."""

    costs: GroupingCosts
    hints: set[str] = field(default_factory=set)
    _left: int = 0
    _rows: int = 0
    _new: int = 0
    _windows: int = 0

    def __post_init__(self) -> None:
        self._pause = self.costs.first_skip_rows
        self.window = self.costs.skip_probe_rows
        if _DOES_NOT_REDUCE in self.hints:
            self.window, self._windows = min(self.window, self.costs.hinted_probe_rows), 1

    @property
    def skipping(self) -> bool:
        return self._left > 0

    @property
    def probing(self) -> bool:
        """Whether it is still unknown if grouping pays, so that few rows should be grouped before many."""
        return not self.skipping and self._windows < 2

    def skipped(self, rows: int) -> None:
        """Rows have been passed on without grouping."""
        self._left -= rows
        if self._left <= 0:
            self._windows = 0

    def grouped(self, rows: int, new: int, cheap: bool) -> None:
        """`rows` were grouped, and `new` of them made a new group. `cheap` grouping pays even if it reduces little."""
        self._rows += rows
        self._new += new
        if self._rows < self.window:
            return
        self.window = self.costs.skip_probe_rows
        share = self._new / self._rows
        self._rows = self._new = 0
        self._windows += 1
        limit = self.costs.max_new_share_direct if cheap else self.costs.max_new_share
        if share > (self.costs.max_new_share_at_first if self._windows == 1 else limit):
            self._left = self._pause
            self._pause *= 2
            self.hints.add(_DOES_NOT_REDUCE)
        elif self._windows > 1:
            self._pause = self.costs.first_skip_rows
