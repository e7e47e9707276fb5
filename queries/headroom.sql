-- title: Ranks with the least headroom
-- about: What is left of a device when its allocator held most. Only devices whose memory is known (--capacity).
-- parameter: since time = -30d: from when on
-- parameter: until time = now: until when
-- parameter: job text = : only this job
-- parameter: user text = : only jobs of this user
-- parameter: model text = : only this model
SELECT job, user, run, rank, max(node) AS on_node, device,
  max(capacity_bytes) AS device_bytes,
  max(coalesce(reserved_peak_bytes, peak_bytes)) AS needed_bytes,
  max(peak_bytes) AS allocated_peak_bytes,
  max(capacity_bytes) - max(coalesce(reserved_peak_bytes, peak_bytes)) AS headroom_bytes,
  round(100.0 * (max(capacity_bytes) - max(coalesce(reserved_peak_bytes, peak_bytes))) / max(capacity_bytes), 1)
    AS headroom_percent
FROM periods
WHERE start_time >= (SELECT since FROM parameter) AND start_time < (SELECT until FROM parameter)
  AND capacity_bytes > 0
  AND ((SELECT job FROM parameter) = '' OR job = (SELECT job FROM parameter))
  AND ((SELECT user FROM parameter) = '' OR user = (SELECT user FROM parameter))
  AND ((SELECT model FROM parameter) = '' OR model = (SELECT model FROM parameter))
GROUP BY job, user, run, rank, device
ORDER BY headroom_percent, job, run, rank, device
