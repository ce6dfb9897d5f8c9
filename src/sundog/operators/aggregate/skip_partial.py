"""The probe that stops the first phase when it no longer reduces, and tries again later.

Grouping before the exchange pays where it makes the rows fewer: each row that is not sent saves the exchange and the
second phase, each row that is looked up in vain is lost time. Which of the two it is depends on the data alone, so it
is measured: the share of groups among the rows of the last batches. A share above `skip_ratio` ends grouping for a
while; the while doubles each time, so that data which never reduces is hardly looked at, and data that begins to
reduce (sorted input, a hot key that comes late) is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PROBE_ROWS = 1 << 16
FIRST_PAUSE_ROWS = 1 << 20


@dataclass
class SkipProbe:
    skip_ratio: float
    _left: int = 0
    _pause: int = field(default_factory=lambda: FIRST_PAUSE_ROWS)
    _rows: int = 0
    _groups: int = 0
    _trusted: bool = False

    @property
    def skipping(self) -> bool:
        return self._left > 0

    @property
    def probing(self) -> bool:
        """Whether it is still open if grouping pays, so that a few rows should be tried before many."""
        return not self.skipping and not self._trusted

    def skipped(self, rows: int) -> None:
        """Rows have been passed on without grouping."""
        self._left -= rows

    def grouped(self, rows: int, groups: int) -> None:
        """So many rows have made so many groups."""
        self._rows += rows
        self._groups += groups
        if self._rows < PROBE_ROWS:
            return
        self._trusted = self._groups <= self.skip_ratio * self._rows
        if self._trusted:
            self._pause = FIRST_PAUSE_ROWS
        else:
            self._left = self._pause
            self._pause *= 2
        self._rows = self._groups = 0
