-- title: Ranks whose memory grows with each step
-- about: A straight line through the bytes that are allocated when a step ends; straightness is 1 where they lie on it.
-- about: Of a rank with several captures the last one that shows it, since each counts its own steps.
-- about: The line of the program is that of the finding "growth", where a capture shows it.
-- parameter: steps number = 8: only ranks with so many steps
-- parameter: straight number = 80: in hundredths, how straight the growth must be
-- parameter: bytes size = 1M: grown by at least so much
-- parameter: since time = -30d: from when on
-- parameter: until time = now: until when
-- parameter: job text = : only this job
-- parameter: user text = : only jobs of this user
-- parameter: model text = : only this model
SELECT job, user, run, rank, argMax(n, capture) AS steps_seen,
  round(argMax(slope, capture), 0) AS growth_bytes_per_step,
  round(argMax(n * slope, capture), 0) AS grown_bytes,
  round(argMax(fit, capture), 3) AS straightness,
  coalesce(max(leaking_line), '') AS line
FROM (
  SELECT job, user, run, rank, capture, n,
    (n * sxy - sx * sy) / (n * sxx - sx * sx) AS slope,
    (n * sxy - sx * sy) * (n * sxy - sx * sy) / ((n * sxx - sx * sx) * (n * syy - sy * sy)) AS fit
  FROM (
    SELECT job, user, run, rank, capture, 1.0 * count(*) AS n, sum(x) AS sx, sum(y) AS sy, sum(x * y) AS sxy, sum(x * x) AS sxx,
      sum(y * y) AS syy
    FROM (
      SELECT job, user, run, rank, start_time, 1.0 * step AS x, 1.0 * max(held) AS y, max(begun) AS capture
      FROM (
        SELECT job, user, run, rank, start_time, step, end_bytes AS held
        FROM steps
        WHERE complete = 1 AND start_time >= (SELECT since FROM parameter) AND start_time < (SELECT until FROM parameter)
          AND ((SELECT job FROM parameter) = '' OR job = (SELECT job FROM parameter))
          AND ((SELECT user FROM parameter) = '' OR user = (SELECT user FROM parameter))
          AND ((SELECT model FROM parameter) = '' OR model = (SELECT model FROM parameter))
      ) AS taken JOIN (
        SELECT run, rank, start_time AS begun FROM steps WHERE step = 0
        UNION ALL SELECT DISTINCT run, rank, 0 AS begun FROM steps
      ) AS captures USING (run, rank)
      WHERE begun <= start_time
      GROUP BY job, user, run, rank, start_time, step
    )
    GROUP BY job, user, run, rank, capture
  )
  WHERE n >= (SELECT steps FROM parameter) AND n * sxx > sx * sx AND n * syy > sy * sy
) AS seen LEFT JOIN (
  SELECT run, rank, argMax(finding_line, finding_bytes) AS leaking_line
  FROM (SELECT run, rank, line AS finding_line, bytes AS finding_bytes FROM findings WHERE kind = 'growth')
  GROUP BY run, rank
) AS told USING (run, rank)
WHERE slope > 0 AND fit >= (SELECT straight FROM parameter) / 100.0 AND n * slope >= (SELECT bytes FROM parameter)
GROUP BY job, user, run, rank
ORDER BY growth_bytes_per_step DESC, job, run, rank
