-- title: What was found in captures
-- parameter: kind text = : only findings of this kind, as dead or growth
-- parameter: since time = -30d: from when on
-- parameter: until time = now: until when
-- parameter: job text = : only this job
-- parameter: user text = : only jobs of this user
-- parameter: model text = : only this model
SELECT time, job, user, run, rank, device, severity, kind, bytes, saves_bytes, line, text, advice
FROM findings
WHERE time >= (SELECT since FROM parameter) AND time < (SELECT until FROM parameter)
  AND ((SELECT kind FROM parameter) = '' OR kind = (SELECT kind FROM parameter))
  AND ((SELECT job FROM parameter) = '' OR job = (SELECT job FROM parameter))
  AND ((SELECT user FROM parameter) = '' OR user = (SELECT user FROM parameter))
  AND ((SELECT model FROM parameter) = '' OR model = (SELECT model FROM parameter))
ORDER BY time DESC, run, CASE WHEN severity = 'critical' THEN 0 WHEN severity = 'warning' THEN 1 ELSE 2 END, bytes DESC,
  finding
