-- title: Jobs whose peak changed between two versions
-- about: The highest peak of any rank, and the mean time of a step, of the one version and of the other.
-- parameter: old text: the version before
-- parameter: new text: the version after
-- parameter: percent number = 5: only changes of so many percent
SELECT job, model, before_bytes, after_bytes, after_bytes - before_bytes AS more_bytes,
  round(100.0 * (after_bytes - before_bytes) / before_bytes, 1) AS more_percent,
  before_step_us, after_step_us,
  round(100.0 * (after_step_us - before_step_us) / before_step_us, 1) AS slower_percent
FROM (
  SELECT job, model,
    max(CASE WHEN era = 'before' THEN peak_bytes ELSE NULL END) AS before_bytes,
    max(CASE WHEN era = 'after' THEN peak_bytes ELSE NULL END) AS after_bytes,
    round(avg(CASE WHEN era = 'before' THEN step_time_us ELSE NULL END), 0) AS before_step_us,
    round(avg(CASE WHEN era = 'after' THEN step_time_us ELSE NULL END), 0) AS after_step_us
  FROM (
    SELECT job, model, peak_bytes, step_time_us,
      CASE
        WHEN version = (SELECT old FROM parameter) THEN 'before'
        WHEN version = (SELECT new FROM parameter) THEN 'after'
        ELSE ''
      END AS era
    FROM periods
  )
  GROUP BY job, model
)
WHERE before_bytes > 0 AND after_bytes > 0
  AND abs(100.0 * (after_bytes - before_bytes) / before_bytes) >= (SELECT percent FROM parameter)
ORDER BY more_percent DESC, job, model
