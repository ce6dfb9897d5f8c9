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
-- expect: accelerated
SELECT id, sum(num) OVER (PARTITION BY grp ORDER BY seq RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) w FROM events;
-- expect: accelerated
SELECT id, count(*) OVER (PARTITION BY s, flag) c, max(num) OVER (PARTITION BY s, flag) m, min(day) OVER (PARTITION BY bin) b FROM events;
-- expect: accelerated
SELECT id, row_number() OVER (PARTITION BY d ORDER BY seq DESC) n, rank() OVER (PARTITION BY f ORDER BY grp) r, dense_rank() OVER (PARTITION BY dec ORDER BY grp DESC NULLS LAST) dr FROM events;
-- expect: accelerated
SELECT id, lag(num, 2, -1) OVER (PARTITION BY grp ORDER BY seq) l, lead(s) IGNORE NULLS OVER (PARTITION BY grp ORDER BY seq) m, ntile(3) OVER (PARTITION BY grp ORDER BY seq) t, first_value(s) OVER (PARTITION BY grp ORDER BY seq) f, nth_value(num, 2) OVER (PARTITION BY grp ORDER BY seq) nv FROM events;
-- expect: accelerated
SELECT id, percent_rank() OVER (PARTITION BY small ORDER BY num) p, cume_dist() OVER (PARTITION BY small ORDER BY num) c FROM events;
-- expect: accelerated
SELECT id, max(num) OVER (PARTITION BY grp % 3, wide IS NULL ORDER BY seq ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING) mx, sum(dec) OVER (PARTITION BY grp % 3, wide IS NULL ORDER BY seq) run FROM events WHERE num > -500;
-- expect: accelerated
-- before 4.2: raises
SELECT id, count(s) OVER (PARTITION BY grp ORDER BY ts RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW) c, sum(num) FILTER (WHERE flag) OVER (PARTITION BY grp ORDER BY ts RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW) f FROM events;
-- expect: accelerated
SELECT grp, day, c, rank() OVER (PARTITION BY grp ORDER BY c DESC, day) r FROM (SELECT grp, day, count(*) c FROM events GROUP BY grp, day);
-- expect: accelerated
-- ordered: yes
SELECT grp, id, w FROM (SELECT grp, id, sum(num) OVER (PARTITION BY grp ORDER BY seq) w FROM events) ORDER BY w DESC NULLS LAST, id LIMIT 9;
-- expect: accelerated
SELECT grp, count(*) n, sum(w) s FROM (SELECT grp, sum(num) OVER (PARTITION BY s ORDER BY seq ROWS 5 PRECEDING) w FROM events) GROUP BY grp;
-- expect: accelerated
SELECT id, sum(a) OVER (PARTITION BY small ORDER BY id ROWS 2 PRECEDING) b FROM (SELECT id, small, sum(num) OVER (PARTITION BY grp ORDER BY id) a FROM events);
-- expect: accelerated
SELECT id, sum(num) OVER (PARTITION BY grp ORDER BY seq) a, sum(num) OVER (ORDER BY seq RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) b FROM events;
-- expect: accelerated
SELECT id, sum(num) OVER (PARTITION BY grp ORDER BY seq) w FROM nothing;
-- expect: accelerated
SELECT id, small, day, max(id) OVER (PARTITION BY day, small ORDER BY id) w FROM parted;
-- expect: accelerated
-- tolerance: 1e-12
SELECT id, avg(num) OVER (PARTITION BY grp ORDER BY seq) a, stddev(num) OVER (PARTITION BY grp) sd, avg(dec) OVER (PARTITION BY grp ORDER BY seq ROWS 9 PRECEDING) ad FROM events;
-- expect: accelerated
SELECT id, count(*) OVER (PARTITION BY 1 ORDER BY seq) w FROM events;
-- expect: accelerated
SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY grp ORDER BY seq) n FROM events) WHERE n <= 2;
-- expect: accelerated
SELECT * FROM (SELECT grp, id, s, rank() OVER (PARTITION BY grp ORDER BY day) r, dense_rank() OVER (PARTITION BY grp ORDER BY day) dr FROM events) WHERE r <= 3 AND id % 2 = 0;
-- expect: accelerated
SELECT * FROM (SELECT id, row_number() OVER (ORDER BY seq) n FROM events) WHERE n <= 2;
-- expect: fallback COST
SELECT * FROM (SELECT id, rank() OVER (ORDER BY day) n FROM events) WHERE n <= 2;
-- expect: accelerated
SELECT a.id, sum(a.num) OVER (PARTITION BY a.grp ORDER BY a.seq) w FROM events a JOIN events b ON a.id = b.id;
-- expect: fallback FUNCTION
SELECT id, collect_list(num) OVER (PARTITION BY grp ORDER BY seq) w FROM events;
-- expect: fallback FRAME
SELECT id, first_value(num) OVER (PARTITION BY grp) w FROM events;
-- expect: accelerated
-- ordered: yes
SELECT id, row_number() OVER (ORDER BY id) r, sum(num) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) n FROM events ORDER BY id DESC;
-- expect: accelerated
SELECT id, bit_and(num) OVER (ORDER BY seq ROWS 4 PRECEDING) a, bit_or(num) OVER (ORDER BY seq) o, bit_xor(num) OVER (ORDER BY seq RANGE BETWEEN 9 PRECEDING AND 9 FOLLOWING) x FROM events;
-- expect: accelerated
SELECT id, max_by(s, num) OVER (ORDER BY id ROWS 6 PRECEDING) m, min_by(id, d) OVER (PARTITION BY grp ORDER BY id) n FROM events;
-- expect: accelerated
-- before 4.3: raises
-- tolerance: 1e-9
SELECT id, covar_pop(num, small) OVER (ORDER BY id ROWS 6 PRECEDING) p, covar_samp(num, small) OVER (ORDER BY id) q, corr(num, small) OVER (PARTITION BY grp ORDER BY id) c, regr_slope(num, small) OVER (ORDER BY id ROWS 9 PRECEDING) s, regr_intercept(num, small) OVER (ORDER BY id ROWS 9 PRECEDING) i FROM events;
-- expect: accelerated
SELECT * FROM (SELECT grp, s, rank() OVER (ORDER BY s DESC) n FROM (SELECT grp, sum(num) s FROM events GROUP BY grp)) WHERE n < 4;
