"""The 43 queries of ClickBench over `hits`, numbered from 0 as published.

Written in SQL that Spark, DuckDB, DataFusion and Sail all read; only the regular expression of q28 differs. The
threshold of 100,000 rows in q27 and q28 is the published one for 100 million rows and selects little on a small table.
"""

from __future__ import annotations

from collections.abc import Mapping

from sundog.benchmarks.cases.model import Case, Check, DataRef, SameCount, SameKeys, SameRows, SameTop

_HITS = DataRef("hits")
_JULY = "CounterID = 62 and EventDate >= date '2013-07-01' and EventDate <= date '2013-07-31'"
_DOMAIN = r"^https?://(?:www\.)?([^/]+)/.*$"

_AGGREGATE_FIGURES = (8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 21, 22, 27, 30, 31, 32, 33, 34, 35)
"""The grouping queries, which `aggregate/hits-qNN` also names."""


def _domains(pattern_literal: str, replacement: str) -> str:
    return (
        f"select regexp_replace(Referer, {pattern_literal}, '{replacement}') as k, avg(length(Referer)) as l, "
        "count(*) as c, min(Referer) as r from hits where Referer <> '' group by k having count(*) > 100000 "
        "order by l desc limit 25"
    )


_QUERIES: list[tuple[str, Check]] = [
    ("select count(*) as c from hits", SameRows()),
    ("select count(*) as c from hits where AdvEngineID <> 0", SameRows()),
    ("select sum(AdvEngineID) as s, count(*) as c, avg(ResolutionWidth) as a from hits", SameRows()),
    ("select avg(UserID) as a from hits", SameRows()),
    ("select count(distinct UserID) as c from hits", SameRows()),
    ("select count(distinct SearchPhrase) as c from hits", SameRows()),
    ("select min(EventDate) as a, max(EventDate) as b from hits", SameRows()),
    (
        "select AdvEngineID, count(*) as c from hits where AdvEngineID <> 0 group by AdvEngineID order by count(*) "
        "desc",
        SameRows(),
    ),
    (
        "select RegionID, count(distinct UserID) as u from hits group by RegionID order by u desc limit 10",
        SameTop((1,)),
    ),
    (
        "select RegionID, sum(AdvEngineID) as s, count(*) as c, avg(ResolutionWidth) as a, "
        "count(distinct UserID) as u from hits group by RegionID order by c desc limit 10",
        SameTop((2,)),
    ),
    (
        "select MobilePhoneModel, count(distinct UserID) as u from hits where MobilePhoneModel <> '' "
        "group by MobilePhoneModel order by u desc limit 10",
        SameTop((1,)),
    ),
    (
        "select MobilePhone, MobilePhoneModel, count(distinct UserID) as u from hits where MobilePhoneModel <> '' "
        "group by MobilePhone, MobilePhoneModel order by u desc limit 10",
        SameTop((2,)),
    ),
    (
        "select SearchPhrase, count(*) as c from hits where SearchPhrase <> '' "
        "group by SearchPhrase order by c desc limit 10",
        SameTop((1,)),
    ),
    (
        "select SearchPhrase, count(distinct UserID) as u from hits where SearchPhrase <> '' "
        "group by SearchPhrase order by u desc limit 10",
        SameTop((1,)),
    ),
    (
        "select SearchEngineID, SearchPhrase, count(*) as c from hits where SearchPhrase <> '' "
        "group by SearchEngineID, SearchPhrase order by c desc limit 10",
        SameTop((2,)),
    ),
    ("select UserID, count(*) as c from hits group by UserID order by count(*) desc limit 10", SameTop((1,))),
    (
        "select UserID, SearchPhrase, count(*) as c from hits group by UserID, SearchPhrase "
        "order by count(*) desc limit 10",
        SameTop((2,)),
    ),
    ("select UserID, SearchPhrase, count(*) as c from hits group by UserID, SearchPhrase limit 10", SameCount()),
    (
        "select UserID, extract(minute from EventTime) as m, SearchPhrase, count(*) as c from hits "
        "group by UserID, m, SearchPhrase order by count(*) desc limit 10",
        SameTop((3,)),
    ),
    ("select UserID from hits where UserID = 435090932899640449", SameRows()),
    ("select count(*) as c from hits where URL like '%google%'", SameRows()),
    (
        "select SearchPhrase, min(URL) as u, count(*) as c from hits where URL like '%google%' and SearchPhrase <> '' "
        "group by SearchPhrase order by c desc limit 10",
        SameTop((2,)),
    ),
    (
        "select SearchPhrase, min(URL) as u, min(Title) as t, count(*) as c, count(distinct UserID) as d from hits "
        "where Title like '%Google%' and URL not like '%.google.%' and SearchPhrase <> '' "
        "group by SearchPhrase order by c desc limit 10",
        SameTop((3,)),
    ),
    ("select * from hits where URL like '%google%' order by EventTime limit 10", SameTop((2,))),
    ("select SearchPhrase from hits where SearchPhrase <> '' order by EventTime limit 10", SameCount()),
    (
        "select SearchPhrase from hits where SearchPhrase <> '' order by SearchPhrase limit 10",
        SameRows(ordered=True),
    ),
    (
        "select SearchPhrase from hits where SearchPhrase <> '' order by EventTime, SearchPhrase limit 10",
        SameRows(ordered=True),
    ),
    (
        "select CounterID, avg(length(URL)) as l, count(*) as c from hits where URL <> '' group by CounterID "
        "having count(*) > 100000 order by l desc limit 25",
        SameTop((1,)),
    ),
    (_domains(f"r'{_DOMAIN}'", "$1"), SameTop((1,))),
    (
        "select " + ", ".join(f"sum(ResolutionWidth + {n}) as s{n}" for n in range(90)) + " from hits",
        SameRows(),
    ),
    (
        "select SearchEngineID, ClientIP, count(*) as c, sum(Refresh) as s, avg(ResolutionWidth) as a from hits "
        "where SearchPhrase <> '' group by SearchEngineID, ClientIP order by c desc limit 10",
        SameTop((2,)),
    ),
    (
        "select WatchID, ClientIP, count(*) as c, sum(Refresh) as s, avg(ResolutionWidth) as a from hits "
        "where SearchPhrase <> '' group by WatchID, ClientIP order by c desc limit 10",
        SameTop((2,)),
    ),
    (
        "select WatchID, ClientIP, count(*) as c, sum(Refresh) as s, avg(ResolutionWidth) as a from hits "
        "group by WatchID, ClientIP order by c desc limit 10",
        SameTop((2,)),
    ),
    ("select URL, count(*) as c from hits group by URL order by c desc limit 10", SameTop((1,))),
    ("select 1 as one, URL, count(*) as c from hits group by 1, URL order by c desc limit 10", SameTop((2,))),
    (
        "select ClientIP, ClientIP - 1 as a, ClientIP - 2 as b, ClientIP - 3 as d, count(*) as c from hits "
        "group by ClientIP, ClientIP - 1, ClientIP - 2, ClientIP - 3 order by c desc limit 10",
        SameTop((4,)),
    ),
    (
        f"select URL, count(*) as PageViews from hits where {_JULY} and DontCountHits = 0 and Refresh = 0 "
        "and URL <> '' group by URL order by PageViews desc limit 10",
        SameTop((1,)),
    ),
    (
        f"select Title, count(*) as PageViews from hits where {_JULY} and DontCountHits = 0 and Refresh = 0 "
        "and Title <> '' group by Title order by PageViews desc limit 10",
        SameTop((1,)),
    ),
    (
        f"select URL, count(*) as PageViews from hits where {_JULY} and Refresh = 0 and IsLink <> 0 "
        "and IsDownload = 0 group by URL order by PageViews desc limit 10 offset 1000",
        SameKeys((1,)),
    ),
    (
        "select TraficSourceID, SearchEngineID, AdvEngineID, case when (SearchEngineID = 0 and AdvEngineID = 0) "
        "then Referer else '' end as Src, URL as Dst, count(*) as PageViews from hits "
        f"where {_JULY} and Refresh = 0 group by TraficSourceID, SearchEngineID, AdvEngineID, Src, Dst "
        "order by PageViews desc limit 10 offset 1000",
        SameKeys((5,)),
    ),
    (
        f"select URLHash, EventDate, count(*) as PageViews from hits where {_JULY} and Refresh = 0 "
        "and TraficSourceID in (-1, 6) and RefererHash = 3594120000172545465 group by URLHash, EventDate "
        "order by PageViews desc limit 10 offset 100",
        SameKeys((2,)),
    ),
    (
        f"select WindowClientWidth, WindowClientHeight, count(*) as PageViews from hits where {_JULY} "
        "and Refresh = 0 and DontCountHits = 0 and URLHash = 2868770270353813622 "
        "group by WindowClientWidth, WindowClientHeight order by PageViews desc limit 10 offset 10000",
        SameKeys((2,)),
    ),
    (
        "select date_trunc('minute', EventTime) as M, count(*) as PageViews from hits where CounterID = 62 "
        "and EventDate >= date '2013-07-14' and EventDate <= date '2013-07-15' and Refresh = 0 and DontCountHits = 0 "
        "group by date_trunc('minute', EventTime) order by date_trunc('minute', EventTime) limit 10 offset 1000",
        SameRows(ordered=True),
    ),
]

_DIALECTS: Mapping[int, Mapping[str, str]] = {
    28: {family: _domains(f"'{_DOMAIN}'", r"\1") for family in ("duckdb", "datafusion")}
    | {"sail": _domains(f"r'{_DOMAIN}'", r"$1")},
}

CASES: list[Case] = [
    Case(
        f"clickbench/q{number:02d}",
        _HITS,
        sql,
        check,
        dialects=_DIALECTS.get(number, {}),
        aliases=(f"aggregate/hits-q{number:02d}",) if number in _AGGREGATE_FIGURES else (),
    )
    for number, (sql, check) in enumerate(_QUERIES)
]
