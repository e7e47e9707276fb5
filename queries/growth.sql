-- title: Ranks whose memory grows by the hour
-- about: A straight line through the bytes that are allocated when a period ends, of jobs that are watched for long.
-- parameter: periods number = 6: only ranks with so many periods
-- parameter: straight number = 80: in hundredths, how straight the growth must be
-- parameter: bytes size = 64M: grown by at least so much
-- parameter: since time = -30d: from when on
-- parameter: until time = now: until when
-- parameter: job text = : only this job
-- parameter: user text = : only jobs of this user
-- parameter: model text = : only this model
SELECT job, user, run, rank, device, n AS periods_seen,
  round(slope, 0) AS growth_bytes_per_hour,
  round(span * slope, 0) AS grown_bytes,
  round(fit, 3) AS straightness,
  coalesce(leaking_line, '') AS line
FROM (
  SELECT job, user, run, rank, device, n, span,
    (n * sxy - sx * sy) / (n * sxx - sx * sx) AS slope,
    (n * sxy - sx * sy) * (n * sxy - sx * sy) / ((n * sxx - sx * sx) * (n * syy - sy * sy)) AS fit
  FROM (
    SELECT job, user, run, rank, device, 1.0 * count(*) AS n, sum(x) AS sx, sum(y) AS sy, sum(x * y) AS sxy,
      sum(x * x) AS sxx, sum(y * y) AS syy, max(x) - min(x) AS span
    FROM (
      SELECT job, user, run, rank, device,
        (end_time - (SELECT since FROM parameter)) / 3600.0 AS x, 1.0 * end_bytes AS y
      FROM periods
      WHERE start_time >= (SELECT since FROM parameter) AND start_time < (SELECT until FROM parameter)
        AND ((SELECT job FROM parameter) = '' OR job = (SELECT job FROM parameter))
        AND ((SELECT user FROM parameter) = '' OR user = (SELECT user FROM parameter))
        AND ((SELECT model FROM parameter) = '' OR model = (SELECT model FROM parameter))
    )
    GROUP BY job, user, run, rank, device
  )
  WHERE n >= (SELECT periods FROM parameter) AND n * sxx > sx * sx AND n * syy > sy * sy
) AS seen LEFT JOIN (
  SELECT run, rank, argMax(finding_line, finding_bytes) AS leaking_line
  FROM (SELECT run, rank, line AS finding_line, bytes AS finding_bytes FROM findings WHERE kind = 'growth')
  GROUP BY run, rank
) AS told USING (run, rank)
WHERE slope > 0 AND fit >= (SELECT straight FROM parameter) / 100.0 AND span * slope >= (SELECT bytes FROM parameter)
ORDER BY growth_bytes_per_hour DESC, job, run, rank, device
