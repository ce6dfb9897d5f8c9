-- expect: accelerated
SELECT grp, count(*) c FROM events WHERE num > (SELECT avg(num) FROM events) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) c FROM events WHERE num > (SELECT max(num) FROM nothing) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) c FROM events WHERE day = (SELECT max(day) FROM events) OR ts = (SELECT min(ts) FROM events) GROUP BY grp;
-- expect: accelerated
SELECT grp, sum(num) + (SELECT min(num) FROM events) n FROM events GROUP BY grp HAVING count(*) > (SELECT count(*) / 100 FROM events);
-- expect: accelerated
-- ordered: yes
SELECT id, s FROM events WHERE s = (SELECT s FROM events WHERE id = 5) ORDER BY id LIMIT 10;
-- expect: accelerated
-- ordered: yes
SELECT id, s FROM events WHERE id > (SELECT id FROM events WHERE id < 0) ORDER BY id LIMIT 10;
-- expect: accelerated
SELECT count(*) c, (SELECT max(s) FROM events) m, (SELECT max(dec) FROM events) d, (SELECT max(wide) FROM events) w, (SELECT min(flag) FROM events) f FROM events;
-- expect: accelerated
SELECT grp, count(*) c FROM events WHERE num > (SELECT min(num) FROM events WHERE small > (SELECT min(small) FROM events)) GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) c FROM events WHERE num BETWEEN (SELECT avg(num) FROM events) AND (SELECT max(num) FROM events) GROUP BY grp;
-- expect: accelerated
SELECT small, day, count(*) c FROM parted WHERE small > (SELECT min(small) FROM parted) GROUP BY small, day;
