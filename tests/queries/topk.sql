-- expect: accelerated
-- ordered: yes
SELECT id, d, s FROM events ORDER BY d DESC, id LIMIT 10;
-- expect: accelerated
-- ordered: yes
SELECT * FROM events ORDER BY d ASC NULLS LAST, id DESC LIMIT 25;
-- expect: accelerated
-- ordered: yes
SELECT id, big FROM events ORDER BY big NULLS FIRST, id LIMIT 7 OFFSET 180;
-- expect: accelerated
-- ordered: yes
SELECT id, s, num FROM events WHERE num > 100 AND s LIKE 'a%' ORDER BY ts DESC NULLS LAST, id LIMIT 12;
-- expect: accelerated
-- ordered: yes
SELECT id, f FROM events ORDER BY f DESC NULLS FIRST, id LIMIT 200;
-- expect: accelerated
-- ordered: yes
SELECT id, dec, wide FROM events ORDER BY wide, dec DESC, id LIMIT 20;
-- expect: accelerated
-- ordered: yes
SELECT id, s FROM events ORDER BY s DESC, id LIMIT 30;
-- expect: accelerated
-- ordered: yes
SELECT id, bin, flag FROM events ORDER BY bin DESC NULLS LAST, flag, id LIMIT 30;
-- expect: accelerated
-- ordered: yes
SELECT id, day FROM events WHERE day IS NOT NULL AND flag ORDER BY day, id LIMIT 15;
-- expect: accelerated
-- ordered: yes
SELECT id, ntz FROM events ORDER BY ntz DESC, id LIMIT 5;
-- expect: accelerated
-- 3.5: fallback UNKNOWN_EXPRESSION
-- ordered: yes
SELECT id, upper(s) u, d * 2 x FROM events ORDER BY d * 2 DESC, id LIMIT 9;
-- expect: accelerated
-- ordered: yes
SELECT id, num + 1 n FROM events ORDER BY num + 1, id LIMIT 9;
-- expect: accelerated
-- ordered: yes
SELECT id FROM events ORDER BY id LIMIT 100000;
-- expect: accelerated
-- ordered: yes
SELECT id, d FROM nothing ORDER BY d LIMIT 3;
-- expect: accelerated
-- ordered: yes
SELECT id, d FROM events WHERE num > 100000 ORDER BY d LIMIT 3;
-- expect: accelerated
-- ordered: yes
SELECT id, small, day FROM parted WHERE small > 3 AND day < DATE'2024-02-01' ORDER BY small DESC, id LIMIT 20;
-- expect: accelerated
-- ordered: yes
SELECT small, id FROM parted ORDER BY id DESC LIMIT 4;
-- expect: accelerated
SELECT a.id, b.grp FROM (SELECT * FROM events ORDER BY d DESC, id LIMIT 10) a JOIN events b ON a.id = b.id;
-- expect: accelerated
SELECT count(*) FROM (SELECT id FROM events ORDER BY num, id LIMIT 10);
-- expect: accelerated
(SELECT id FROM events ORDER BY num, id LIMIT 5) UNION ALL (SELECT id FROM events ORDER BY d DESC, id LIMIT 5);
-- expect: accelerated
-- ordered: yes
SELECT id, reverse(s) r FROM (SELECT id, s FROM events ORDER BY num, id LIMIT 5);
-- expect: fallback NOT_A_SHAPE
SELECT id FROM events WHERE num > 990;
-- expect: fallback NONDETERMINISTIC
SELECT id FROM (SELECT id, num FROM events WHERE monotonically_increasing_id() > -1) ORDER BY num, id LIMIT 3;
-- expect: fallback COLLATION
-- 3.5: raises
SELECT id, s COLLATE UTF8_LCASE c FROM events ORDER BY s COLLATE UTF8_LCASE, id LIMIT 3
;
-- expect: accelerated
SELECT count(*) n FROM (SELECT id FROM events WHERE num > 0 LIMIT 37);
-- expect: accelerated
SELECT flag FROM events WHERE flag LIMIT 10
