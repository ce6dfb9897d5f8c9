"""GROUP BY over millions of groups, all groups wanted: the work that ClickBench's LIMIT 10 lets an engine avoid.

ClickBench's and db-benchmark's grouping questions are in `clickbench.py` and `h2o.py`, also under `aggregate/…` names.
"""

from __future__ import annotations

from sundog.benchmarks.cases.model import Case, DataRef, rolled_up

_HITS = DataRef("hits")

CASES: list[Case] = [
    Case(
        "aggregate/hits-users",
        _HITS,
        rolled_up("select UserID, count(*) as c from hits group by UserID", "c"),
        about="17.6 % of rows are groups",
    ),
    Case(
        "aggregate/hits-pairs",
        _HITS,
        rolled_up("select UserID, SearchPhrase, count(*) as c from hits group by UserID, SearchPhrase", "c"),
        about="24 % of rows are groups; a string key",
    ),
    Case(
        "aggregate/hits-unique",
        _HITS,
        rolled_up(
            "select WatchID, RegionID, count(*) as c, sum(ResolutionWidth) as s, max(EventTime) as m "
            "from hits group by WatchID, RegionID having max(EventTime) is not null",
            "c",
            "s",
        ),
        about="every row is a group: a partial aggregation cannot reduce the rows",
    ),
    Case(
        "aggregate/hits-hot-key",
        _HITS,
        rolled_up(
            "select SearchPhrase, count(*) as c, sum(ResolutionWidth) as s from hits group by SearchPhrase", "c", "s"
        ),
        about="seven of eight rows fall on one group",
    ),
    Case(
        "aggregate/hits-few",
        _HITS,
        "select RegionID, count(*) as c, sum(ResolutionWidth) as s from hits group by RegionID",
        about="nine thousand groups, where Spark's own code is good",
    ),
]
