-- title: Runs, the latest first
-- about: What is in the store, of each run the highest peak of its ranks.
-- parameter: since time = -30d: from when on
-- parameter: until time = now: until when
-- parameter: job text = : only this job
-- parameter: user text = : only jobs of this user
-- parameter: model text = : only this model
SELECT run, min(start_time) AS first_time, job, user, model, version, count(DISTINCT rank) AS rank_count,
  max(peak_bytes) AS highest_bytes, sum(out_of_memories) AS times_out_of_memory
FROM periods
WHERE start_time >= (SELECT since FROM parameter) AND start_time < (SELECT until FROM parameter)
  AND ((SELECT job FROM parameter) = '' OR job = (SELECT job FROM parameter))
  AND ((SELECT user FROM parameter) = '' OR user = (SELECT user FROM parameter))
  AND ((SELECT model FROM parameter) = '' OR model = (SELECT model FROM parameter))
GROUP BY run, job, user, model, version
ORDER BY first_time DESC, run
