-- expect: accelerated
SELECT p.small, count(*) c, sum(e.num) s FROM events e JOIN events p ON e.id = p.id GROUP BY p.small;
-- expect: accelerated
SELECT e.grp, count(p.id) c, count(*) n FROM events e LEFT JOIN events p ON e.id = p.num GROUP BY e.grp;
-- expect: accelerated
SELECT e.grp, count(p.id) c, count(*) n FROM events p RIGHT JOIN events e ON e.id = p.num AND p.flag GROUP BY e.grp;
-- expect: accelerated
SELECT e.grp, p.small, count(*) n FROM events e FULL OUTER JOIN events p ON e.id = p.num GROUP BY e.grp, p.small;
-- expect: accelerated
SELECT e.grp, p.small, count(*) n, count(e.id) l, count(p.id) r FROM events e FULL OUTER JOIN events p ON e.id = p.num AND e.num > p.id GROUP BY e.grp, p.small;
-- expect: accelerated
SELECT grp, count(*) n FROM events WHERE id IN (SELECT num FROM events WHERE flag) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) n FROM events WHERE id NOT IN (SELECT num FROM events) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) n FROM events WHERE id NOT IN (SELECT num FROM events WHERE num IS NOT NULL) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) n FROM events e WHERE EXISTS (SELECT 1 FROM events p WHERE p.num = e.id AND p.id > e.num) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) n FROM events e WHERE NOT EXISTS (SELECT 1 FROM events p WHERE p.num = e.id AND p.id > e.num) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) n FROM events e WHERE e.id IN (SELECT num FROM events) OR e.num > 5 GROUP BY grp;
-- expect: accelerated
SELECT a.grp, count(*) n FROM events a JOIN events b ON a.num <=> b.num WHERE b.id < 40 GROUP BY a.grp;
-- expect: accelerated
SELECT a.s, count(*) n, max(b.s) m FROM events a JOIN events b ON a.s = b.s AND a.num = b.num WHERE b.id < 200 GROUP BY a.s;
-- expect: accelerated
SELECT a.grp, count(*) n FROM events a JOIN events b ON a.id = b.id JOIN events c ON b.num = c.num JOIN events d ON c.id = d.id WHERE c.id < 50 AND d.flag GROUP BY a.grp;
-- expect: accelerated
SELECT count(*) n, sum(a.num) s FROM events a CROSS JOIN (SELECT id FROM events WHERE id < 3) b;
-- expect: accelerated
SELECT count(*) n FROM events a JOIN (SELECT num, id FROM events WHERE id < 5) b ON a.num < b.num;
-- expect: accelerated
SELECT count(*) n FROM events a LEFT JOIN nothing b ON a.id = b.id;
-- expect: accelerated
SELECT count(*) n FROM nothing a JOIN events b ON a.id = b.id;
-- expect: accelerated
-- ordered: yes
SELECT e.id, e.num, p.small, p.s FROM events e JOIN events p ON e.id = p.id WHERE p.small > 1 ORDER BY e.id DESC, p.small LIMIT 11;
-- expect: accelerated
SELECT e.id, row_number() OVER (PARTITION BY p.small ORDER BY e.id) r FROM events e JOIN events p ON e.id = p.id;
-- expect: accelerated
SELECT n, count(*) c FROM (SELECT e.grp n, max(e.num) m FROM events e JOIN events p ON e.id = p.id GROUP BY e.grp) JOIN events q ON m = q.num GROUP BY n;
-- expect: accelerated
SELECT grp, num FROM events INTERSECT SELECT grp, num FROM events;
-- expect: accelerated
SELECT grp, num FROM events EXCEPT SELECT grp, num FROM events WHERE num > 3;
-- expect: accelerated
SELECT p.day, count(*) c FROM events e JOIN parted p ON e.day = p.day WHERE e.id = 17 GROUP BY p.day;
-- expect: accelerated
SELECT a.amount, count(*) n FROM (SELECT cast(num AS DOUBLE) / 0.5D amount FROM events) a JOIN (SELECT cast(small AS DOUBLE) * 2 amount FROM events) b ON a.amount = b.amount GROUP BY a.amount;
-- expect: accelerated
SELECT a.grp, count(*) c, sum(b.num) n FROM events a JOIN events b ON a.id = b.seq GROUP BY a.grp;
-- expect: accelerated
SELECT a.grp, count(*) c FROM events a JOIN events b ON b.seq = a.id AND a.s <=> b.s AND a.num > b.num AND a.small = 3 GROUP BY a.grp;
-- expect: accelerated
SELECT a.grp, count(b.id) c, max(b.s) m FROM events a LEFT JOIN events b ON a.id = b.seq AND a.num > 5 AND b.num > 5 GROUP BY a.grp;
-- expect: accelerated
-- ordered: yes
SELECT * FROM (SELECT id, s FROM events WHERE num > 0) a RIGHT JOIN events b ON a.id = b.seq ORDER BY b.d, b.id LIMIT 15;
-- expect: accelerated
SELECT grp, count(*) c FROM events WHERE id IN (SELECT seq FROM events WHERE num > 3) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) c FROM events a WHERE NOT EXISTS (SELECT 1 FROM events b WHERE a.id = b.seq AND a.num <> b.num) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) c FROM events WHERE num NOT IN (SELECT small FROM events) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) c FROM events WHERE num NOT IN (SELECT small FROM events WHERE small IS NOT NULL) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) c FROM events WHERE num NOT IN (SELECT small FROM nothing) GROUP BY grp;
-- expect: fallback UNSUPPORTED_TYPE
SELECT grp, count(*) c FROM events WHERE d NOT IN (SELECT d FROM events WHERE d > 0) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) c FROM events WHERE num > 100 OR id IN (SELECT seq FROM events WHERE num > 3) GROUP BY grp;
-- expect: accelerated
SELECT a.small, count(*) c FROM events a JOIN events b ON a.d = b.d AND a.f <=> b.f GROUP BY a.small;
-- expect: accelerated
-- 3.5: fallback UNKNOWN_EXPRESSION
SELECT a.grp, count(*) c FROM events a JOIN events b ON a.num + 1 = b.num AND upper(a.s) = b.s GROUP BY a.grp;
-- expect: accelerated
SELECT c.s, count(*) n FROM events a JOIN events b ON a.id = b.seq JOIN events c ON b.id = c.seq WHERE c.small = 5 GROUP BY c.s;
-- expect: accelerated
SELECT t.s, g.c FROM (SELECT id, grp, s FROM events ORDER BY d, id LIMIT 5) t JOIN (SELECT grp, count(*) c FROM events GROUP BY grp) g ON t.grp = g.grp;
-- expect: accelerated
SELECT id, s FROM events WHERE num > 900 EXCEPT SELECT seq, s FROM events;
-- expect: accelerated
SELECT day, flag FROM events INTERSECT SELECT day, flag FROM events WHERE num > 0;
-- expect: accelerated
SELECT b.s, count(*) c FROM parted a JOIN events b ON a.small = b.small WHERE b.num = 7 GROUP BY b.s;
-- expect: accelerated
SELECT a.grp, count(*) c FROM events a JOIN nothing b ON a.id = b.id GROUP BY a.grp;
-- expect: accelerated
SELECT a.grp, count(b.id) c FROM events a LEFT JOIN nothing b ON a.id = b.id GROUP BY a.grp;
-- expect: accelerated
SELECT a.wide, count(*) c FROM events a JOIN events b ON a.wide = b.wide AND a.ts = b.ts AND a.bin <=> b.bin AND a.flag = b.flag GROUP BY a.wide;
-- expect: accelerated
SELECT id, sum(num) OVER (PARTITION BY grp ORDER BY id) w FROM (SELECT a.id, a.grp, b.num FROM events a JOIN events b ON a.id = b.seq);
-- expect: accelerated
SELECT num, grp FROM events WHERE id < 900 INTERSECT ALL SELECT num, grp FROM events WHERE id > 300;
-- expect: accelerated
SELECT num, grp FROM events WHERE id < 900 EXCEPT ALL SELECT num, grp FROM events WHERE id > 300;
-- expect: accelerated
SELECT grp, count(*) n FROM (SELECT num, grp FROM events EXCEPT ALL SELECT num, grp FROM events WHERE id > 300) GROUP BY grp;
-- expect: accelerated
SELECT /*+ MERGE(p) */ e.grp, count(*) n, sum(p.num) s FROM events e JOIN events p ON e.id = p.num GROUP BY e.grp;
-- expect: accelerated
SELECT /*+ MERGE(e) */ e.grp, p.small, count(*) n FROM events e FULL OUTER JOIN events p ON e.id = p.num GROUP BY e.grp, p.small;
-- expect: accelerated
SELECT /*+ SHUFFLE_HASH(e) */ e.grp, count(*) n, count(p.id) c FROM events e LEFT JOIN events p ON e.id = p.num GROUP BY e.grp;
-- expect: accelerated
SELECT /*+ SHUFFLE_HASH(p) */ grp, count(*) n FROM events e WHERE EXISTS (SELECT 1 FROM events p WHERE p.num = e.id) GROUP BY grp;
-- expect: accelerated
SELECT /*+ SHUFFLE_REPLICATE_NL(p) */ e.grp, count(*) n FROM events e JOIN events p ON e.num <=> p.num WHERE p.id < 40 GROUP BY e.grp;
-- expect: accelerated
SELECT /*+ SHUFFLE_REPLICATE_NL(p) */ count(*) n, sum(e.num) s FROM events e JOIN (SELECT num, id FROM events WHERE id < 5) p ON e.num < p.num;
-- expect: accelerated
SELECT /*+ BROADCAST(e) */ p.small, count(*) n, max(e.s) m FROM events e JOIN events p ON e.id = p.num GROUP BY p.small;
-- expect: accelerated
SELECT /*+ BROADCAST(p), MERGE(c) */ a.grp, count(*) n FROM events a LEFT JOIN events p ON a.id = p.num JOIN events c ON a.num = c.id GROUP BY a.grp;
-- expect: accelerated
SELECT e.grp, count(*) n, count(p.id) c FROM events e FULL OUTER JOIN (SELECT id, num FROM events WHERE id < 20) p ON e.num < p.num GROUP BY e.grp;
-- expect: accelerated
SELECT count(*) n, count(a.id) l, count(b.id) r FROM (SELECT * FROM events WHERE id < 30) a FULL OUTER JOIN (SELECT * FROM events WHERE id < 50) b ON a.num > b.num + 500;
-- expect: accelerated
SELECT count(*) n, count(a.id) l, count(b.id) r FROM events a FULL OUTER JOIN nothing b ON a.num > b.num;
-- expect: accelerated
SELECT count(*) n, count(a.id) l, count(b.id) r FROM nothing a FULL OUTER JOIN events b ON a.num > b.num;
-- expect: accelerated
SELECT count(*) n, count(a.id) l, count(b.id) r FROM (SELECT * FROM events WHERE id < 30) a FULL OUTER JOIN (SELECT * FROM events WHERE id < 50) b ON a.flag;
-- expect: accelerated
SELECT count(*) n, count(a.id) l, count(b.id) r FROM (SELECT * FROM events WHERE id < 30) a FULL OUTER JOIN (SELECT * FROM events WHERE id < 50) b ON a.num + b.num > 900000;
