"""The places of the pages of a column chunk, and which of them hold given rows. Reads nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class PageMap:
    """The places of the pages of a column chunk. Page i has rows first_rows[i] up to first_rows[i + 1]."""

    dictionary: tuple[int, int] | None  # offset and length, header included
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    first_rows: npt.NDArray[np.int64]
    uses_dictionary: npt.NDArray[np.bool_]  # a writer may abandon its dictionary in the middle of a chunk

    def dictionary_for(self, pages: npt.NDArray[np.int64]) -> tuple[int, int] | None:
        """The dictionary page, if one of these pages refers to it."""
        return self.dictionary if bool(self.uses_dictionary[pages].any()) else None

    def pages_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The pages that hold the (ascending) rows."""
        return np.unique(np.searchsorted(self.first_rows, rows, side="right") - 1)

    def rows_of(self, pages: npt.NDArray[np.int64]) -> int:
        return int(np.diff(self.first_rows)[pages].sum())

    def moved(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The numbers of the (ascending) rows among the rows of their pages alone."""
        kept = np.zeros(len(self.lengths), np.int64)
        chosen = self.pages_of(rows)
        kept[chosen] = np.diff(self.first_rows)[chosen]
        first = np.cumsum(kept) - kept
        page = np.searchsorted(self.first_rows, rows, side="right") - 1
        found: npt.NDArray[np.int64] = rows - self.first_rows[page] + first[page]
        return found

    def bytes_of(self, pages: npt.NDArray[np.int64]) -> int:
        """The bytes to read and decode for these pages."""
        dictionary = self.dictionary_for(pages)
        return int(self.lengths[pages].sum()) + (dictionary[1] if dictionary else 0)
