-- expect: accelerated
SELECT grp, count(*) c, sum(num) s, min(d) lo, max(d) hi FROM events GROUP BY grp;
-- expect: accelerated
SELECT id, count(*) c, max(s) m FROM events GROUP BY id;
-- expect: accelerated
SELECT s, flag, count(num) c, sum(dec) d, avg(dec) a, min(ts) t FROM events GROUP BY s, flag;
-- expect: accelerated
-- tolerance: 1e-12
SELECT small, sum(d) s, avg(d) a, avg(num) n FROM events WHERE d < 1000 AND d > -1000 GROUP BY small;
-- expect: accelerated
-- before 4.3: fallback FUNCTION
-- tolerance: 1e-9
SELECT grp, var_pop(num) v, stddev_samp(num) t, stddev(big) b, corr(num, small) c, covar_pop(num, small) p FROM events GROUP BY grp;
-- expect: accelerated
SELECT d, count(*) c FROM events GROUP BY d;
-- expect: accelerated
SELECT f, bin, day, count(*) c FROM events GROUP BY f, bin, day;
-- expect: accelerated
SELECT wide, tiny, count(*) c, min(bin) lo, max(bin) hi, min(flag) g FROM events GROUP BY wide, tiny;
-- expect: accelerated
SELECT DISTINCT s, flag FROM events;
-- expect: accelerated
SELECT grp FROM events GROUP BY grp;
-- expect: accelerated
SELECT count(*) c, sum(num) s, min(s) m, max(ntz) x, bool_and(flag) a, bool_or(flag) o FROM events;
-- expect: accelerated
SELECT count(*) c, sum(num) s, max(d) x FROM nothing;
-- expect: accelerated
SELECT grp, count(*) c FROM nothing GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) c FROM events WHERE num > 10000 GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) FILTER (WHERE num > 0) c, sum(num) FILTER (WHERE flag) s FROM events GROUP BY grp;
-- expect: accelerated
SELECT grp, count(DISTINCT s) c FROM events GROUP BY grp;
-- expect: accelerated
SELECT grp, bit_and(num) a, bit_or(num) o, bit_xor(num) x FROM events GROUP BY grp;
-- expect: accelerated
SELECT grp, max_by(id, seq) m, min_by(id, seq) n FROM events GROUP BY grp;
-- expect: accelerated
-- 3.5: fallback UNKNOWN_EXPRESSION
SELECT grp + 1 g, upper(s) u, count(*) c FROM events GROUP BY grp + 1, upper(s);
-- expect: accelerated
SELECT grp, sum(num) + count(*) x, sum(num) / count(*) y FROM events GROUP BY grp;
-- expect: accelerated
SELECT grp, count(*) c FROM events GROUP BY grp HAVING count(*) > 30;
-- expect: accelerated
-- ordered: yes
SELECT grp, count(*) c FROM events GROUP BY grp HAVING count(*) > 3 ORDER BY c DESC, grp LIMIT 5;
-- expect: accelerated
-- ordered: yes
SELECT grp, count(*) c FROM events GROUP BY grp ORDER BY c DESC, grp;
-- expect: accelerated
SELECT count(*) n, max(c) m FROM (SELECT id % 100 k, count(*) c FROM events GROUP BY id % 100);
-- expect: accelerated
SELECT small, day, count(*) c FROM parted WHERE small > 0 GROUP BY small, day;
-- expect: accelerated
SELECT e.grp, e.c, n.s FROM (SELECT grp, count(*) c FROM events GROUP BY grp) e JOIN (SELECT grp, max(s) s FROM events GROUP BY grp) n ON e.grp = n.grp;
-- expect: fallback FUNCTION
SELECT grp, percentile(num, 0.5) p FROM events GROUP BY grp;
-- expect: fallback FUNCTION
SELECT grp, sort_array(collect_list(num)) l FROM events GROUP BY grp;
-- expect: accelerated
SELECT d, power(d, 2) p, power(count(*), 2) q FROM events GROUP BY d;
-- expect: fallback UNKNOWN_EXPRESSION
SELECT grp, power(count(*), 3) p FROM events GROUP BY grp;
-- expect: fallback COST
SELECT sum(num + 0), sum(num + 1), sum(num + 2), sum(num + 3), sum(num + 4), sum(num + 5), sum(num + 6), sum(num + 7), sum(num + 8), sum(num + 9), sum(num + 10), sum(num + 11), sum(num + 12), sum(num + 13), sum(num + 14), sum(num + 15), sum(num + 16), sum(num + 17), sum(num + 18), sum(num + 19) FROM events;
-- expect: accelerated
SELECT grp, sum(num + 0), sum(num + 1), sum(num + 2), sum(num + 3), sum(num + 4), sum(num + 5), sum(num + 6), sum(num + 7), sum(num + 8), sum(num + 9), sum(num + 10), sum(num + 11), sum(num + 12), sum(num + 13), sum(num + 14), sum(num + 15), sum(num + 16), sum(num + 17), sum(num + 18), sum(num + 19) FROM events GROUP BY grp;
-- expect: accelerated
-- ordered: yes
SELECT s, flag, count(*) c FROM events GROUP BY s, flag ORDER BY s NULLS LAST, flag DESC;
-- expect: accelerated
-- 3.5: fallback UNKNOWN_EXPRESSION
-- ordered: yes
SELECT upper(s) u, sum(num) n FROM events GROUP BY upper(s) HAVING count(*) > 1 ORDER BY n DESC, u;
-- expect: accelerated
-- ordered: yes
SELECT s FROM events GROUP BY s ORDER BY count(*) DESC, s;
-- expect: accelerated
-- ordered: yes
SELECT d, count(*) c FROM events GROUP BY d ORDER BY d DESC;
-- expect: accelerated
-- ordered: yes
SELECT id, max(wide) w FROM nothing GROUP BY id ORDER BY id;
-- expect: accelerated
SELECT sum(small) a, sum(small + 1) b, sum(small + 2) c, sum(3 + small) d, sum(small - 4) e, sum(tiny + 5) f, sum(tiny + 6) g,
  sum(small + 7) FILTER (WHERE flag) h, sum(small + 8) FILTER (WHERE flag) i, count(small) n FROM events;
-- expect: accelerated
SELECT grp, sum(small + 1) + 10 a, sum(small + 2) b, max(small + 2) c FROM events GROUP BY grp HAVING sum(small + 3) > 0;
-- expect: accelerated
SELECT sum(small + 1) a, sum(small + 2) b FROM nothing
