-- title: Jobs whose dry run foretold another peak
-- about: The peak of a rank's device against what `hdtrace store predict` put in for its job, rank and version.
-- parameter: percent number = 5: only where they differ by more
-- parameter: since time = -30d: from when on
-- parameter: until time = now: until when
SELECT job, version, rank, predicted_bytes, actual_bytes, actual_bytes - predicted_bytes AS more_bytes,
  round(100.0 * (actual_bytes - predicted_bytes) / predicted_bytes, 1) AS more_percent, of_run
FROM (
  SELECT job, version, rank, max(peak_bytes) AS actual_bytes, argMax(run, peak_bytes) AS of_run
  FROM periods
  WHERE start_time >= (SELECT since FROM parameter) AND start_time < (SELECT until FROM parameter)
  GROUP BY job, version, rank
) AS seen INNER JOIN (
  SELECT job, rank, version AS predicted_version, peak_bytes AS predicted_bytes FROM predictions WHERE peak_bytes > 0
) AS told USING (job, rank)
WHERE (predicted_version = '' OR predicted_version = version)
  AND abs(100.0 * (actual_bytes - predicted_bytes) / predicted_bytes) > (SELECT percent FROM parameter)
ORDER BY more_percent DESC, job, version, rank
