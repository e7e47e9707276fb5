-- title: Would these jobs fit on devices of another size?
-- about: Of each job the rank that needs most. A job fits when what its allocator held fits, with a margin; it is tight
-- about: when only what was allocated does: then there is less room for a cache, and fragmentation may end it.
-- parameter: device size: memory of a device, as 40G
-- parameter: margin number = 5: percent of it that must stay free, for contexts and libraries
-- parameter: since time = -30d: from when on
-- parameter: until time = now: until when
-- parameter: job text = : only this job
-- parameter: user text = : only jobs of this user
-- parameter: model text = : only this model
SELECT job, model, needed AS needed_bytes, allocated AS allocated_peak_bytes, alive AS without_dead_bytes,
  (SELECT device FROM parameter) - needed AS left_bytes,
  CASE
    WHEN needed <= allowed THEN 'fits'
    WHEN allocated <= allowed THEN 'tight'
    WHEN alive <= allowed THEN 'if dead memory is freed'
    ELSE 'no'
  END AS verdict,
  of_run, of_rank
FROM (
  SELECT job, model,
    max(coalesce(reserved_peak_bytes, peak_bytes)) AS needed,
    max(peak_bytes) AS allocated,
    max(peak_bytes - coalesce(dead_bytes, 0)) AS alive,
    argMax(run, peak_bytes) AS of_run, argMax(rank, peak_bytes) AS of_rank,
    (SELECT device FROM parameter) * (100 - (SELECT margin FROM parameter)) / 100.0 AS allowed
  FROM periods
  WHERE start_time >= (SELECT since FROM parameter) AND start_time < (SELECT until FROM parameter)
    AND ((SELECT job FROM parameter) = '' OR job = (SELECT job FROM parameter))
    AND ((SELECT user FROM parameter) = '' OR user = (SELECT user FROM parameter))
    AND ((SELECT model FROM parameter) = '' OR model = (SELECT model FROM parameter))
  GROUP BY job, model
)
ORDER BY needed_bytes DESC, job, model
