"""Queries with scalar subqueries, for `tests/front/test_subquery_shape.py`; `record.py` records their plans."""

from __future__ import annotations

QUERIES = {
    "subquery_filter": "SELECT grp, count(*) c FROM events WHERE num > (SELECT avg(num) FROM events) GROUP BY grp",
    "subquery_topk": "SELECT id, s FROM events WHERE s = (SELECT s FROM events WHERE id = 5) ORDER BY id LIMIT 10",
    "subquery_twice": """SELECT grp, count(*) c FROM events
        WHERE day = (SELECT max(day) FROM events) OR ts > (SELECT max(ts) FROM events WHERE flag) GROUP BY grp""",
    "subquery_merged": """SELECT grp, count(*) c FROM events
        WHERE num BETWEEN (SELECT avg(num) FROM events) AND (SELECT max(num) FROM events) GROUP BY grp""",
    "subquery_nested": """SELECT grp, count(*) c FROM events
        WHERE num > (SELECT min(num) FROM events WHERE small > (SELECT min(small) FROM events)) GROUP BY grp""",
    "subquery_having": """SELECT grp, sum(num) + (SELECT min(num) FROM events) n FROM events
        GROUP BY grp HAVING count(*) > (SELECT count(*) / 100 FROM events WHERE flag)""",
    "subquery_window": "SELECT id, sum(num - (SELECT min(num) FROM events)) OVER (ORDER BY seq) w FROM events",
    "subquery_join": """SELECT a.grp, count(*) c FROM events a JOIN events b
        ON a.id = b.seq AND a.num > (SELECT avg(num) FROM events) GROUP BY a.grp""",
    "subquery_correlated": """SELECT grp, count(*) c FROM events a
        WHERE num > (SELECT avg(num) FROM events b WHERE a.grp = b.grp) GROUP BY grp""",
    "subquery_of_sparks": (
        "SELECT grp, count(*) c FROM events WHERE s = (SELECT max(reverse(s)) FROM events) GROUP BY grp"
    ),
}
