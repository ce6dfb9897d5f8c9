-- expect: accelerated
SELECT grp, count(*) c, sum(num) s FROM (SELECT grp, num FROM events UNION ALL SELECT grp, num FROM events WHERE num > 3) GROUP BY grp;
-- expect: accelerated
SELECT count(*) c FROM (SELECT id FROM events UNION ALL SELECT id FROM nothing UNION ALL SELECT id FROM events WHERE num > 3);
-- expect: accelerated
SELECT count(*) c FROM (SELECT num + 1 AS n FROM events WHERE num * 2 > 3 UNION ALL SELECT small FROM parted);
-- expect: accelerated
-- 3.5: fallback UNKNOWN_EXPRESSION
SELECT s, max(n) m, count(DISTINCT n) d FROM (SELECT s, num + 1 AS n FROM events UNION ALL SELECT upper(s), small FROM parted) GROUP BY s;
-- expect: accelerated
SELECT grp, num FROM events UNION SELECT grp, small FROM parted;
-- expect: accelerated
-- ordered: yes
SELECT id, num, s FROM (SELECT id, num, s FROM events UNION ALL SELECT id, num, s FROM parted WHERE flag) ORDER BY id DESC, num, s LIMIT 7;
-- expect: accelerated
SELECT id, k, sum(id) OVER (ORDER BY id RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) w FROM (SELECT id, 1 AS k FROM events UNION ALL SELECT id, 2 AS k FROM parted);
-- expect: accelerated
SELECT id, k, row_number() OVER (PARTITION BY id ORDER BY k) w FROM (SELECT id, 1 AS k FROM events UNION ALL SELECT id, 2 AS k FROM parted);
-- expect: accelerated
SELECT s, first(s) f, count(*) c FROM (SELECT s FROM events WHERE s IS NOT NULL UNION ALL SELECT CAST(num AS STRING) FROM events) GROUP BY s;
-- expect: accelerated
SELECT n, count(*) c FROM (SELECT num AS n FROM events UNION ALL SELECT e.num FROM events e JOIN parted p ON e.id = p.id) GROUP BY n;
-- expect: accelerated
SELECT k, sum(c) c FROM (SELECT grp AS k, count(*) c FROM events GROUP BY grp UNION ALL SELECT small, count(*) FROM events GROUP BY small UNION ALL SELECT num, 1L FROM events) GROUP BY k;
-- expect: accelerated
(SELECT id, s FROM events ORDER BY num, id LIMIT 5) UNION ALL (SELECT id, s FROM events ORDER BY d, id LIMIT 5);
-- expect: accelerated
SELECT x, y, count(*) c FROM (SELECT num x, small y FROM events UNION ALL SELECT grp, grp FROM events) GROUP BY x, y;
