-- title: Runs whose ranks need different amounts of memory
-- about: A job needs devices for its highest rank; the others leave idle what they have less.
-- parameter: percent number = 5: only where the highest is so many percent over the lowest
-- parameter: since time = -30d: from when on
-- parameter: until time = now: until when
-- parameter: job text = : only this job
-- parameter: user text = : only jobs of this user
-- parameter: model text = : only this model
SELECT job, user, run, count(*) AS rank_count, max(peak) AS highest_bytes, argMax(rank, peak) AS highest_rank,
  argMax(place, peak) AS highest_node,
  min(peak) AS lowest_bytes, argMin(rank, peak) AS lowest_rank,
  max(peak) - min(peak) AS spread_bytes,
  round(100.0 * (max(peak) - min(peak)) / min(peak), 1) AS spread_percent
FROM (
  SELECT job, user, run, rank, max(node) AS place, max(peak_bytes) AS peak
  FROM periods
  WHERE start_time >= (SELECT since FROM parameter) AND start_time < (SELECT until FROM parameter)
    AND ((SELECT job FROM parameter) = '' OR job = (SELECT job FROM parameter))
    AND ((SELECT user FROM parameter) = '' OR user = (SELECT user FROM parameter))
    AND ((SELECT model FROM parameter) = '' OR model = (SELECT model FROM parameter))
    AND peak_bytes > 0
  GROUP BY job, user, run, rank
)
GROUP BY job, user, run
HAVING count(*) > 1 AND 100.0 * (max(peak) - min(peak)) / min(peak) >= (SELECT percent FROM parameter)
ORDER BY spread_bytes DESC, job, run
