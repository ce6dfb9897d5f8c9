"""What the smoke test runs on every Spark: SQL over the views that `conftest.py` makes."""

from __future__ import annotations

from pyspark.sql import types

from tests.oracle.needs import HAS_FILTERED_FRAMES

SHAPES = {
    "top-k": "SELECT id, s, d FROM events WHERE num > 3 AND s LIKE 'a%' ORDER BY d DESC NULLS LAST, id LIMIT 5",
    "top-k of all columns": "SELECT * FROM events ORDER BY num DESC, id LIMIT 40",
    "top-k with an offset": "SELECT id, num + 1 AS e FROM events ORDER BY num, id LIMIT 5 OFFSET 2",
    "limit over a scan": "SELECT count(*) FROM (SELECT id FROM events LIMIT 5)",
    "aggregate by key": (
        "SELECT grp, count(*) c, sum(num), avg(dec), min(s), max(ts), sum(wide) FROM events GROUP BY grp"
    ),
    "aggregate without keys": (
        "SELECT count(*), sum(big), min(day), max(f), count(DISTINCT s) FROM events WHERE num > 0"
    ),
    "many groups": "SELECT id % 1500 k, s, count(*) c, sum(num) n, min(day) d FROM events GROUP BY id % 1500, s",
    "distinct": "SELECT DISTINCT s, flag FROM events",
    "rollup": "SELECT s, flag, grouping(s), count(*) FROM events GROUP BY ROLLUP(s, flag)",
    "several distincts": "SELECT grp, count(DISTINCT s), sum(DISTINCT num), max(d) FROM events GROUP BY grp",
    "filter in an aggregate": (
        "SELECT grp, sum(num) FILTER (WHERE flag), count(*) FILTER (WHERE s = 'a') FROM events GROUP BY grp"
    ),
    "having and order": (
        "SELECT grp, count(*) c FROM events GROUP BY grp HAVING count(*) > 2 ORDER BY c DESC, grp LIMIT 7"
    ),
    "moments": "SELECT grp, var_pop(num), stddev(num), covar_samp(num, seq) FROM events GROUP BY grp",
    "picks": "SELECT max_by(s, id), min_by(day, id), bit_xor(num), bool_or(flag), any_value(id) IS NULL FROM events",
    "range window": "SELECT id, sum(num) OVER (ORDER BY seq RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) w FROM events",
    "range window of time": (
        "SELECT id, count(*) OVER (ORDER BY ntz RANGE BETWEEN INTERVAL '60' SECOND PRECEDING AND CURRENT ROW) w "
        "FROM events"
    ),
    "rows window": "SELECT id, sum(num) OVER (ORDER BY seq ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING) w FROM events",
    "places": (
        "SELECT id, row_number() OVER (ORDER BY seq) n, rank() OVER (ORDER BY grp) r, ntile(7) OVER (ORDER "
        "BY seq) t FROM events"
    ),
    "shifts": "SELECT id, lag(num) OVER (ORDER BY seq) l, lead(s, 2) OVER (ORDER BY seq) m FROM events",
    "partitioned window": (
        "SELECT id, sum(num) OVER (PARTITION BY grp ORDER BY seq) w, row_number() OVER "
        "(PARTITION BY grp ORDER BY seq) n FROM events"
    ),
    "partition columns": "SELECT small, sum(num), max(day) FROM parted WHERE small > 0 GROUP BY small",
    "below a join": (
        "SELECT a.id, b.s FROM (SELECT id FROM events ORDER BY num, id LIMIT 20) a JOIN events b ON a.id = b.id"
    ),
    "join and aggregate": (
        "SELECT a.s, count(*) c, sum(b.num) n FROM events a JOIN events b ON a.id = b.seq AND a.num > "
        "b.num GROUP BY a.s"
    ),
    "outer joins": (
        "SELECT a.grp, count(b.id) c, count(c.id) d FROM events a LEFT JOIN events b ON a.id = b.seq AND b.num > 5 "
        "LEFT JOIN (SELECT id, seq FROM events WHERE flag) c ON a.id = c.id GROUP BY a.grp"
    ),
    "semi and anti join": (
        "SELECT grp, count(*) c FROM events a WHERE id IN (SELECT seq FROM events WHERE num > 3) "
        "AND NOT EXISTS (SELECT 1 FROM events b WHERE a.id = b.seq AND b.flag) GROUP BY grp"
    ),
    "null-aware anti join": (
        "SELECT grp, count(*) c FROM events WHERE num NOT IN (SELECT small FROM events WHERE small > 5) GROUP BY grp"
    ),
    "join below a top-k": (
        "SELECT a.id, b.s FROM events a RIGHT JOIN events b ON a.id = b.seq AND a.s = b.s ORDER BY b.num, b.id LIMIT 9"
    ),
    "join of shapes": (
        "SELECT t.s, g.c FROM (SELECT id, grp, s FROM events ORDER BY num, id LIMIT 5) t "
        "JOIN (SELECT grp, count(*) c FROM events GROUP BY grp) g ON t.grp = g.grp"
    ),
    "window over rows of Spark's": "SELECT id, sum(id) OVER (ORDER BY id) w FROM range(3000)",
    "union": "SELECT grp, num FROM events UNION SELECT grp, small FROM parted",
    "union below groups": (
        "SELECT grp, count(*) c FROM (SELECT grp, num FROM events UNION ALL SELECT small, num FROM parted) GROUP BY grp"
    ),
    "intersect": "SELECT day, flag FROM events INTERSECT SELECT day, flag FROM events WHERE num > 0",
    "except": "SELECT id, s FROM events WHERE num > 900 EXCEPT SELECT seq, s FROM events",
    "scalar subquery": (
        "SELECT grp, sum(num) + (SELECT min(num) FROM events) n FROM events WHERE num > (SELECT avg(num) FROM events) "
        "GROUP BY grp"
    ),
    "sort of a scan": "SELECT id, s, d FROM events ORDER BY d DESC NULLS LAST, id",
    "order without a limit": "SELECT grp, s, count(*) c FROM events GROUP BY grp, s ORDER BY c DESC, grp, s",
    "values": (
        "SELECT v.name, count(*) c FROM events e JOIN (VALUES (1, 'one'), (2, 'two'), (NULL, 'none')) v(k, name) "
        "ON e.small = v.k GROUP BY v.name"
    ),
    "cross join": "SELECT count(*) n, sum(a.num) s FROM events a CROSS JOIN (SELECT id FROM events WHERE id < 3) b",
    "full join": (
        "SELECT e.grp, p.small, count(*) n FROM events e FULL OUTER JOIN events p ON e.id = p.num "
        "GROUP BY e.grp, p.small"
    ),
    "existence join": (
        "SELECT grp, count(*) n FROM events e WHERE id IN (SELECT num FROM events) OR num > 5 GROUP BY grp"
    ),
    "join with rows of Spark's": "SELECT c.name, count(*) n FROM events e JOIN csv c ON e.id = c.id GROUP BY c.name",
    "groups of rows of Spark's": "SELECT g, name, count(*) n, sum(id) s FROM csv GROUP BY g, name",
    "partitioned window over rows of Spark's": (
        "SELECT g, id, sum(id) OVER (PARTITION BY g ORDER BY id ROWS 5 PRECEDING) w FROM csv"
    ),
    "ranks of at most two": (
        "SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY grp ORDER BY seq) n FROM events) WHERE n <= 2"
    ),
    "places among all": (
        "SELECT id, dense_rank() OVER (ORDER BY grp DESC) r, percent_rank() OVER (ORDER BY grp) p, "
        "cume_dist() OVER (ORDER BY grp) c FROM events"
    ),
    "picks over frames": (
        "SELECT id, first_value(s) OVER w f, last_value(s) IGNORE NULLS OVER w l, nth_value(num, 2) OVER w n, "
        "any_value(d) OVER w a FROM events WINDOW w AS (ORDER BY seq ROWS BETWEEN 4 PRECEDING AND 3 FOLLOWING)"
    ),
    "shifts over nulls": (
        "SELECT id, lag(s) IGNORE NULLS OVER (ORDER BY seq) a, lead(num, 3, -1) IGNORE NULLS OVER (ORDER BY seq) b "
        "FROM events"
    ),
    "frames to the end": (
        "SELECT id, sum(num) OVER (ORDER BY seq ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) a, "
        "max(s) OVER (ORDER BY seq RANGE BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING) b, count(num) OVER () c "
        "FROM events"
    ),
    "range of numbers, downwards": (
        "SELECT id, min(d) OVER (ORDER BY num DESC RANGE BETWEEN 10 PRECEDING AND 20 FOLLOWING) m FROM events"
    ),
    "range of decimals, downwards": (
        "SELECT id, sum(num) OVER (ORDER BY dec DESC RANGE BETWEEN 10.00 PRECEDING AND 20.00 FOLLOWING) m FROM events"
    ),
    "range of dates": "SELECT id, max(num) OVER (ORDER BY day RANGE BETWEEN 3 PRECEDING AND 1 FOLLOWING) x FROM events",
    "range of timestamps": (
        "SELECT id, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW) c "
        "FROM events"
    ),
    "range of floats": (
        "SELECT id, count(s) OVER (ORDER BY d RANGE BETWEEN 2.5 PRECEDING AND 2.5 FOLLOWING) c, "
        "max(num) OVER (ORDER BY f RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) e FROM events"
    ),
    "statistics": (
        "SELECT grp, regr_slope(num, seq), regr_intercept(num, seq), regr_r2(num, seq), regr_sxx(num, seq), "
        "regr_sxy(num, seq), regr_syy(num, seq), regr_avgx(num, seq), regr_avgy(num, seq), regr_count(num, seq), "
        "covar_pop(num, seq), var_samp(num), stddev_pop(num) FROM events GROUP BY grp"
    ),
    "sums that try, and bits": (
        "SELECT grp, try_sum(big), try_avg(dec), try_sum(wide), bit_and(num), bit_or(num), count_if(flag), "
        "bool_and(flag), every(num > 3) FROM events GROUP BY grp"
    ),
    "aggregates over frames": (
        "SELECT id, covar_pop(num, small) OVER w b, stddev(num) OVER w c, try_sum(num) OVER w d, "
        "try_avg(dec) OVER w e, bit_or(num) OVER w f, max_by(s, num) OVER w g "
        "FROM events WINDOW w AS (ORDER BY id ROWS 9 PRECEDING)"
    ),
    "groups by an interval": "SELECT iv, count(*) c, max(iv) m, sum(iv) s, avg(iv) a FROM nested GROUP BY iv",
    "top-k by an interval": "SELECT iv, id FROM nested ORDER BY iv DESC, id LIMIT 9",
    "field of a struct": "SELECT st.a, count(*) c FROM nested GROUP BY st.a",
    "first and last": "SELECT s, first(id), last(num), first(d, true), last(ts, true) FROM events GROUP BY s",
    "void": "SELECT v, count(*) c FROM (SELECT NULL v, id FROM events) GROUP BY v",
    "void beside a top-k": "SELECT id, NULL v FROM events ORDER BY num, id LIMIT 9",
}

if HAS_FILTERED_FRAMES:
    SHAPES["filter in a window"] = (
        "SELECT id, sum(num) FILTER (WHERE flag) OVER (ORDER BY seq ROWS 5 PRECEDING) c FROM events"
    )

ORDERED = {
    "top-k", "top-k of all columns", "top-k with an offset", "having and order", "join below a top-k",
    "sort of a scan", "order without a limit", "top-k by an interval", "void beside a top-k",
}  # fmt: skip
"""Their rows must come in Spark's order: no two of them are equal in all sort keys."""

DECLINED = {
    "a struct as it is": ("SELECT id, st FROM nested ORDER BY num, id LIMIT 9", "UNSUPPORTED_TYPE"),
    "an array as it is": ("SELECT id, ar FROM nested ORDER BY num, id LIMIT 9", "UNSUPPORTED_TYPE"),
    "a map as it is": ("SELECT id, mp FROM nested ORDER BY num, id LIMIT 9", "UNSUPPORTED_TYPE"),
    "groups by a struct": ("SELECT st, count(*) c FROM nested GROUP BY st", "UNSUPPORTED_TYPE"),
    "groups by months": ("SELECT count(*) n FROM (SELECT ym, count(*) c FROM nested GROUP BY ym)", "UNSUPPORTED_TYPE"),
    "maximum of void": ("SELECT grp, max(NULL) v, count(*) c FROM events GROUP BY grp", "UNSUPPORTED_TYPE"),
    "a filter alone": ("SELECT id, s FROM events WHERE num > 3", "NOT_A_SHAPE"),
    "lists over frames": (
        "SELECT id, collect_list(num) OVER (PARTITION BY grp ORDER BY seq) w FROM events",
        "FUNCTION",
    ),
    "first of no order": ("SELECT id, first_value(s) OVER (PARTITION BY id) w FROM events", "FRAME"),
    "a function of Spark's": ("SELECT id, greatest(num, 1) g FROM events ORDER BY id LIMIT 5", "UNKNOWN_EXPRESSION"),
}
"""SQL that stays on Spark as a whole, and the code of the reason."""

DECLINED_TYPES: dict[str, tuple[str, dict[str, set[str]]]] = {
    "months": (
        "SELECT id, make_ym_interval(1, cast(id AS int)) x FROM range(20)",
        {
            "SELECT id FROM made ORDER BY x DESC, id LIMIT 5": {"UNSUPPORTED_TYPE"},
            "SELECT count(m) n FROM (SELECT id % 3 k, max(x) m FROM made GROUP BY id % 3)": {"UNSUPPORTED_TYPE"},
        },
    )
}
"""Types that sundog does not carry, as far as this Spark has them: a column `x` of each, and queries with the codes of
which a reason has one."""

if hasattr(types, "VariantType"):  # 4.0, and so are collations
    DECLINED_TYPES["variant"] = (
        "SELECT id, parse_json(concat('{\"a\": ', id, '}')) x FROM range(20)",
        {
            "SELECT id, to_json(x) j FROM made ORDER BY id LIMIT 5": {"UNKNOWN_EXPRESSION"},
            # 4.0 reads it as it is, later ones as fields of a struct.
            "SELECT id, count(x) c FROM made GROUP BY id": {"UNSUPPORTED_TYPE", "UNKNOWN_EXPRESSION"},
        },
    )
    DECLINED_TYPES["collated"] = (
        "SELECT id, concat(if(id % 2 = 0, 'a', 'A'), id % 3) COLLATE UTF8_LCASE x FROM range(20)",
        {
            "SELECT id, x FROM made ORDER BY id LIMIT 5": {"UNSUPPORTED_TYPE"},
            "SELECT upper(x) k, count(*) c FROM made GROUP BY x": {"COLLATION"},
            "SELECT id FROM made WHERE x = 'A1' ORDER BY id LIMIT 5": {"COLLATION"},
        },
    )
if hasattr(types, "TimeType"):  # 4.1
    DECLINED_TYPES["time"] = (
        "SELECT id, make_time(cast(id % 4 AS int), 1, 2.5) x FROM range(20)",
        {
            "SELECT id, x FROM made ORDER BY id LIMIT 5": {"UNSUPPORTED_TYPE"},
            "SELECT x, count(*) c FROM made GROUP BY x": {"UNSUPPORTED_TYPE"},
            "SELECT max(x) m FROM made": {"UNSUPPORTED_TYPE"},
        },
    )

KEYS = ["tiny", "small", "num", "big", "f", "d", "dec", "wide", "s", "bin", "flag", "day", "ts", "ntz"]

EXPRESSIONS = [
    "num + 1", "big - 1", "num * num", "d / 3", "big div 7", "num % 7", "-num", "abs(num)", "dec + dec", "dec * 2",
    "dec / 3", "try_add(num, 1)", "try_divide(big, num)", "num > 3 AND NOT flag", "num IN (1, 2, NULL)",
    "s LIKE 'a_%'", "s IN ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'zebra')", "length(s)",
    "substring(s, 2, 2)", "concat(s, 'x')", "coalesce(s, 'none')",
    "CASE WHEN num > 0 THEN 'p' WHEN num < 0 THEN 'n' END", "nullif(num, 3)", "cast(num AS bigint)",
    "cast(num AS double)", "cast(big AS string)", "cast(dec AS int)", "cast(num AS decimal(12,2))",
    "cast(day AS string)", "year(day)", "month(day)", "dayofweek(day)", "weekofyear(day)", "hour(ts)", "minute(ts)",
    "date_trunc('hour', ts)", "trunc(day, 'month')", "date_add(day, 3)", "datediff(day, date'2024-01-01')",
    "ts + INTERVAL 90 MINUTES", "cast(ts AS date)", "cast(day AS timestamp)", "power(d, 2)", "isnan(d)", "d <=> NULL",
    "CAST(s AS binary)",
    "round(num, -1)", "round(dec, 1)", "round(d, 2)", "regexp_replace(s, '[ab]+', 'x')",
    "regexp_extract(s, '(a)(b)?', 1)", "s RLIKE 'a|z'", "quarter(day)", "weekday(day)",
    "dayofyear(day)", "second(ts)", "extract(second from ts)",
    "extract(yearofweek from day)", "contains(s, 'b')", "startswith(s, 'a')", "endswith(s, 'b')", "left(s, 2)",
    "right(s, 2)", "date_sub(day, 3)", "day - INTERVAL 3 DAYS", "if(flag, num, small)", "try_subtract(num, big)",
    "try_multiply(num, 2)", "try_cast(s AS int)", "s LIKE '%b'", "s LIKE '%b%'", "d BETWEEN 1 AND 7",
    "ntz + INTERVAL 1 HOUR", "cast(d AS decimal(10,2))", "cast(ntz AS date)", "cast(ts AS string)",
    "cast(flag AS int)", "cast(f AS double)", "bin = X'61'", "tiny + small", "wide + 1", "wide / 3", "f * 2", "s < 'b'",
    "s || 'x'", "dec % 3", "cast(tiny AS decimal(5,1))",
]  # fmt: skip

# Raise under ANSI; without it they are NULL or wrap around.
RAISING = {
    "divide": ("num / (num - num)", "DIVIDE_BY_ZERO"),
    "overflow": ("big * 9223372036854775807", "ARITHMETIC_OVERFLOW"),
    "cast": ("cast(big AS int)", "CAST_OVERFLOW"),
    "text": ("cast(s AS int)", "CAST_INVALID_INPUT"),
}

WHOLE = "SELECT id, d, s, dec, day, ts, ntz, bin, flag, f FROM events ORDER BY num DESC, id LIMIT 40"
"""A query that sundog computes as a whole."""

SUBTREE = "SELECT id, reverse(s) AS s FROM (SELECT id, s FROM events ORDER BY num, id LIMIT 20)"
"""A query of which Spark computes the rest: `reverse` is Spark's."""
