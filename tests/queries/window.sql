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
SELECT id, sum(dec) OVER (ORDER BY ntz RANGE BETWEEN INTERVAL '60' MINUTE PRECEDING AND INTERVAL '30' MINUTE PRECEDING) c FROM events;
-- expect: accelerated
SELECT id, sum(c) OVER (ORDER BY id RANGE BETWEEN 10 PRECEDING AND CURRENT ROW) w FROM (SELECT id % 500 id, count(*) c FROM events GROUP BY id % 500);
-- expect: accelerated
SELECT a.id, sum(a.num) OVER (ORDER BY a.seq RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) w FROM events a JOIN events b ON a.id = b.id;
-- expect: accelerated
SELECT id, row_number() OVER (ORDER BY seq) n, rank() OVER (ORDER BY grp) r, dense_rank() OVER (ORDER BY grp DESC) dr FROM events;
-- expect: accelerated
SELECT id, lag(num, 2) OVER (ORDER BY seq) l, lead(s) OVER (ORDER BY seq) m, ntile(7) OVER (ORDER BY seq) t FROM events;
-- expect: accelerated
SELECT id, sum(num) OVER (ORDER BY seq) run, max(num) OVER (ORDER BY seq ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING) mx FROM events;
-- expect: accelerated
SELECT id, percent_rank() OVER (ORDER BY num) p, cume_dist() OVER (ORDER BY num) c FROM events;
-- expect: accelerated
SELECT id, count(*) OVER () n, max(num) OVER () m FROM events;
-- expect: accelerated
-- ordered: yes
SELECT id, w FROM (SELECT id, sum(num) OVER (ORDER BY seq RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) w FROM events) ORDER BY w DESC, id LIMIT 7;
-- expect: accelerated
SELECT count(*) n, sum(w) s FROM (SELECT sum(num) OVER (ORDER BY seq RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) w FROM events);
-- expect: accelerated
SELECT id, sum(num) OVER (ORDER BY d RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) w FROM nothing;
-- expect: accelerated
SELECT id, sum(num) OVER (ORDER BY const RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) w FROM (SELECT id, num, small - small const FROM events WHERE small IS NOT NULL);
-- expect: accelerated
SELECT id, sum(num) OVER (ORDER BY seq RANGE BETWEEN 100000 PRECEDING AND 100000 FOLLOWING) w FROM events;
-- expect: fallback COST
SELECT id, sum(num) OVER (PARTITION BY grp ORDER BY seq RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) w FROM events
