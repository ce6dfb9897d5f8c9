"""Top-k: the four queries of the row-group pruning proposal, and further ones.

`q1` to `q4` are the published ones over scrambled, disjoint row groups: narrow and wide, 100 and 1,000 rows. Around
them: a column that no statistics can help with, one file alone, a WHERE on another column, two keys, OFFSET, LIMIT
alone, a table that grows, and events by time.
"""

from __future__ import annotations

from sundog.benchmarks.cases.model import Case, DataRef, SameCount, SameRows, SameTop

_NARROW = "select l_orderkey, l_partkey, l_suppkey from lineitem order by l_orderkey desc limit {limit}"
_WIDE = "select * from lineitem order by l_orderkey desc limit {limit}"
_BY_FIRST = SameTop((0,))
_SCATTERED, _SINGLE, _HITS = DataRef("lineitem"), DataRef("lineitem_single"), DataRef("hits")

_PUBLISHED = {
    "q1": (_NARROW.format(limit=100), "three columns, 100 rows"),
    "q2": (_NARROW.format(limit=1000), "three columns, 1,000 rows"),
    "q3": (_WIDE.format(limit=100), "all columns, 100 rows"),
    "q4": (_WIDE.format(limit=1000), "all columns, 1,000 rows"),
}


def _grown(scale: int) -> list[Case]:
    data = DataRef("lineitem", scale)
    return [
        Case(f"topk/grow-{scale}x-{width}", data, sql, _BY_FIRST, large=scale > 1, about=about)
        for width, (sql, about) in (("narrow", _PUBLISHED["q1"]), ("wide", _PUBLISHED["q3"]))
    ]


CASES: list[Case] = [
    *(Case(f"topk/{name}", _SCATTERED, sql, _BY_FIRST, about=about) for name, (sql, about) in _PUBLISHED.items()),
    *(
        Case(f"topk/single-{name}", _SINGLE, sql, _BY_FIRST, about=f"one file, 300 row groups: {about}")
        for name, (sql, about) in _PUBLISHED.items()
    ),
    Case(
        "topk/where",
        _SCATTERED,
        "select * from lineitem where l_shipmode = 'RAIL' and l_quantity < 10 order by l_orderkey desc limit 100",
        _BY_FIRST,
        about="the WHERE is on other columns, whose statistics say nothing",
    ),
    Case(
        "topk/unsorted",
        _SCATTERED,
        "select l_extendedprice, l_orderkey from lineitem order by l_extendedprice desc limit 100",
        _BY_FIRST,
        about="every row group may hold a winner: nothing can be pruned",
    ),
    Case(
        "topk/unsorted-wide",
        _SCATTERED,
        "select l_extendedprice as price, * from lineitem order by l_extendedprice desc limit 100",
        _BY_FIRST,
    ),
    Case(
        "topk/two-keys",
        _SCATTERED,
        "select l_shipdate, l_orderkey, l_linenumber, l_comment from lineitem "
        "order by l_shipdate desc, l_orderkey, l_linenumber limit 100",
        SameRows(ordered=True),
        about="ties on the leading key stay alive",
    ),
    Case(
        "topk/offset",
        _SCATTERED,
        "select l_orderkey, l_linenumber, l_comment from lineitem "
        "order by l_orderkey desc, l_linenumber limit 100 offset 1000",
        SameRows(ordered=True),
    ),
    Case(
        "topk/limit-where",
        _SCATTERED,
        "select * from lineitem where l_orderkey > 1000 and l_shipmode = 'RAIL' limit 100",
        SameCount(),
        about="no ORDER BY: any hundred rows",
    ),
    Case(
        "topk/hits-narrow",
        _HITS,
        "select EventTime, UserID from hits order by EventTime desc limit 10",
        _BY_FIRST,
        about="the newest events of a table that is nearly in order of time",
    ),
    Case("topk/hits-wide", _HITS, "select EventTime as t, * from hits order by EventTime desc limit 10", _BY_FIRST),
    *_grown(1),
    *_grown(4),
    *_grown(16),
]
