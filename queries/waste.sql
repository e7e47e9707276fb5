-- title: Memory that is held for nothing, by job, user or model
-- about: Of each device, when its allocator held most: reserved, of it allocated, of that dead: nothing used it any
-- about: more. Waste is what is reserved and not allocated, and what is dead. Hours count it for as long as the job
-- about: was observed.
-- parameter: per text = job: job, user or model
-- parameter: since time = -30d: from when on
-- parameter: until time = now: until when
SELECT CASE WHEN (SELECT per FROM parameter) = 'user' THEN user WHEN (SELECT per FROM parameter) = 'model' THEN model
    ELSE job END AS name,
  count(*) AS devices,
  sum(reserved) AS reserved_sum_bytes, sum(allocated) AS allocated_sum_bytes, sum(dead) AS dead_sum_bytes,
  sum(reserved - allocated + dead) AS waste_bytes,
  round(100.0 * sum(reserved - allocated + dead) / sum(reserved), 1) AS waste_percent,
  round(sum(1.0 * (reserved - allocated + dead) * seconds) / 3600 / 1073741824, 1) AS waste_gib_hours
FROM (
  SELECT job, user, model, run, rank, device,
    max(reserved_peak_bytes) AS reserved,
    argMax(peak_bytes, reserved_peak_bytes) AS allocated,
    argMax(coalesce(dead_bytes, 0), reserved_peak_bytes) AS dead,
    sum(end_time - start_time) AS seconds
  FROM periods
  WHERE start_time >= (SELECT since FROM parameter) AND start_time < (SELECT until FROM parameter)
    AND reserved_peak_bytes > 0
  GROUP BY job, user, model, run, rank, device
)
GROUP BY name
ORDER BY waste_bytes DESC, name
