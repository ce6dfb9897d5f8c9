-- expect: accelerated
SELECT id, sum(num) OVER (ORDER BY seq RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) w FROM events;
-- expect: accelerated
SELECT id, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW) c, max(s) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW) m FROM events;
-- expect: accelerated
SELECT id, min(d) OVER (ORDER BY num DESC RANGE BETWEEN 10 PRECEDING AND 20 FOLLOWING) m FROM events;
-- expect: accelerated
-- tolerance: 1e-12
SELECT id, sum(d) OVER (ORDER BY day RANGE BETWEEN 3 PRECEDING AND 1 FOLLOWING) m, avg(num) OVER (ORDER BY day RANGE BETWEEN 3 PRECEDING AND 1 FOLLOWING) a FROM events WHERE d > -1e9 AND d < 1e9;
-- expect: accelerated
SELECT id, count(s) OVER (ORDER BY d RANGE BETWEEN 2.5 PRECEDING AND 2.5 FOLLOWING) c FROM events;
-- expect: accelerated
SELECT id, sum(dec) OVER (ORDER BY ntz RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND INTERVAL '30' MINUTE PRECEDING) c FROM events;
-- expect: accelerated
SELECT id, sum(c) OVER (ORDER BY id RANGE BETWEEN 10 PRECEDING AND CURRENT ROW) w FROM (SELECT id % 500 id, count(*) c FROM events GROUP BY id % 500);
-- expect: accelerated
SELECT a.id, sum(a.num) OVER (ORDER BY a.seq RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) w FROM events a JOIN events b ON a.id = b.id
