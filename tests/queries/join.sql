-- expect: accelerated
SELECT p.small, count(*) c, sum(e.num) s FROM events e JOIN parted p ON e.id = p.id GROUP BY p.small;
-- expect: accelerated
SELECT e.grp, count(p.id) c, count(*) n FROM events e LEFT JOIN parted p ON e.id = p.num GROUP BY e.grp;
-- expect: accelerated
SELECT e.grp, count(p.id) c, count(*) n FROM parted p RIGHT JOIN events e ON e.id = p.num AND p.flag GROUP BY e.grp;
-- expect: accelerated
SELECT e.grp, p.small, count(*) n FROM events e FULL OUTER JOIN parted p ON e.id = p.num GROUP BY e.grp, p.small;
-- expect: accelerated
SELECT e.grp, p.small, count(*) n, count(e.id) l, count(p.id) r FROM events e FULL OUTER JOIN parted p ON e.id = p.num AND e.num > p.id GROUP BY e.grp, p.small;
-- expect: accelerated
SELECT grp, count(*) n FROM events WHERE id IN (SELECT num FROM parted WHERE flag) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) n FROM events WHERE id NOT IN (SELECT num FROM parted) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) n FROM events WHERE id NOT IN (SELECT num FROM parted WHERE num IS NOT NULL) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) n FROM events e WHERE EXISTS (SELECT 1 FROM parted p WHERE p.num = e.id AND p.id > e.num) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) n FROM events e WHERE NOT EXISTS (SELECT 1 FROM parted p WHERE p.num = e.id AND p.id > e.num) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) n FROM events e WHERE e.id IN (SELECT num FROM parted) OR e.num > 5 GROUP BY grp;
-- expect: accelerated
SELECT a.grp, count(*) n FROM events a JOIN events b ON a.num <=> b.num WHERE b.id < 40 GROUP BY a.grp;
-- expect: accelerated
SELECT a.s, count(*) n, max(b.s) m FROM events a JOIN events b ON a.s = b.s AND a.num = b.num WHERE b.id < 200 GROUP BY a.s;
-- expect: accelerated
SELECT a.grp, count(*) n FROM events a JOIN events b ON a.id = b.id JOIN parted c ON b.num = c.num JOIN parted d ON c.id = d.id WHERE c.id < 50 AND d.flag GROUP BY a.grp;
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
SELECT e.id, e.num, p.small, p.s FROM events e JOIN parted p ON e.id = p.id WHERE p.small > 1 ORDER BY e.id DESC, p.small LIMIT 11;
-- expect: accelerated
SELECT e.id, row_number() OVER (PARTITION BY p.small ORDER BY e.id) r FROM events e JOIN parted p ON e.id = p.id;
-- expect: accelerated
SELECT n, count(*) c FROM (SELECT e.grp n, max(e.num) m FROM events e JOIN parted p ON e.id = p.id GROUP BY e.grp) JOIN parted q ON m = q.num GROUP BY n;
-- expect: accelerated
SELECT grp, num FROM events INTERSECT SELECT grp, num FROM parted;
-- expect: accelerated
SELECT grp, num FROM events EXCEPT SELECT grp, num FROM parted WHERE num > 3;
-- expect: accelerated
SELECT p.day, count(*) c FROM events e JOIN parted p ON e.day = p.day WHERE e.id = 17 GROUP BY p.day;
-- expect: accelerated
SELECT a.amount, count(*) n FROM (SELECT cast(num AS DOUBLE) / 0.5D amount FROM events) a JOIN (SELECT cast(small AS DOUBLE) * 2 amount FROM parted) b ON a.amount = b.amount GROUP BY a.amount;
