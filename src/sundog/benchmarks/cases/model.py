"""One case: the query in Spark's words, in another engine's words where they differ, and what "the same answer" means.

Two correct engines may differ: which of several rows tied at a LIMIT comes back is nobody's promise, and the last bits
of a sum of doubles depend on the order of adding. A case's check asks for exactly what SQL promises and no more.

Results of millions of rows are a trap: the time to carry them into Python can hide the time to compute them, and each
engine carries them differently. So the main form of such a query is wrapped in an aggregate that needs every value
(`count(*)`, `sum`), which all engines can be compared by. The form as published is kept as a case of its own, with its
rows thrown away: Spark writes them to its `noop` sink, the others stream or build Arrow batches and drop them.
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
    """A LIMIT without a total order: any rows will do, so many of them."""


Check = SameRows | SameTop | SameOrder | SameKeys | SameCount


class Result(Enum):
    FETCHED = "fetched"
    """All rows come to Python as an Arrow table, inside the measured time, and are compared."""
    DISCARDED = "discarded"
    """All rows are computed and thrown away; nothing is compared."""


class Probe(Enum):
    """Measurements that are not a query on an engine but a property of sundog."""

    INELIGIBLE = "extra seconds per action of a query that sundog declines"
    PLANNING = "seconds that sundog plans before an eligible query runs"


@dataclass(frozen=True)
class DataRef:
    """A data set, possibly several times the size that was asked for."""

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
    probe: Probe | None = None
    aliases: tuple[str, ...] = ()
    large: bool = False
    """Needs more disk or time than one would expect; only run when asked for by `--large`."""
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
