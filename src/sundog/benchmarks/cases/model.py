"""A case: the query in Spark's SQL, in another engine's where that differs, and what counts as the same answer.

Two correct engines may differ: SQL does not say which of several rows tied at a LIMIT comes back, and the last bits of
a sum of doubles depend on the order of adding. A case's check demands exactly what SQL promises and no more.

Results of millions of rows would distort times: carrying them into Python can take longer than computing them, and each
engine does it differently. So the main form of such a query is wrapped in an aggregate that needs every value
(`count(*)`, `sum`). The published form is a case of its own, with its rows discarded: Spark writes them to its `noop`
sink, the others stream or build Arrow batches and drop them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True)
class SameRows:
    """Every row; in this order too if `ordered`."""

    ordered: bool = False


@dataclass(frozen=True)
class SameTop:
    """An ORDER BY … LIMIT: the columns `keys` row by row, and whole rows except those tied with the last one.

    With fewer rows than `limit`, nothing was cut off: then every row.
    """

    keys: tuple[int, ...]
    limit: int | None = None


@dataclass(frozen=True)
class SameOrder:
    """An ORDER BY that leaves ties: the columns `keys` row by row, and every row."""

    keys: tuple[int, ...]


@dataclass(frozen=True)
class SameKeys:
    """An ORDER BY … LIMIT … OFFSET with ties at both ends: the columns `keys` row by row."""

    keys: tuple[int, ...]


@dataclass(frozen=True)
class SameCount:
    """A LIMIT without a total order: any rows, but the right number of them."""


Check = SameRows | SameTop | SameOrder | SameKeys | SameCount


class Result(Enum):
    FETCHED = "fetched"
    """All rows come to Python as an Arrow table, within the measured time, and are compared."""
    DISCARDED = "discarded"
    """All rows are computed and discarded; nothing is compared."""


class Overhead(Enum):
    """Measurements that are not a query on an engine but a property of sundog."""

    INELIGIBLE = "extra seconds per action of a query that sundog declines"
    PLANNING = "seconds that sundog plans before an eligible query runs"


@dataclass(frozen=True)
class DataRef:
    """A data set, possibly at several times the requested size."""

    name: str
    scale: int = 1


@dataclass(frozen=True)
class Case:
    name: str
    data: DataRef
    sql: str
    check: Check = SameRows()
    dialects: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
    result: Result = Result.FETCHED
    overhead: Overhead | None = None
    aliases: tuple[str, ...] = ()
    large: bool = False
    """Needs much disk or time; runs only with `--large`."""
    about: str = ""

    @property
    def group(self) -> str:
        return self.name.split("/")[0]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    def sql_for(self, family: str) -> str:
        return self.dialects.get(family, self.sql)


def rolled_up(query: str, *columns: str) -> str:
    """One row that needs all values of a query that would return millions."""
    sums = ", ".join(f"sum({column}) as sum_{column}" for column in columns)
    return f"select count(*) as row_count, {sums} from ({query}) t"
