-- title: The peak of a model over time, by category
-- about: Of each span of time the highest peak that any rank had, and what it was made of.
-- parameter: hours number = 24: length of a span
-- parameter: since time = -30d: from when on
-- parameter: until time = now: until when
-- parameter: job text = : only this job
-- parameter: user text = : only jobs of this user
-- parameter: model text = : only this model
SELECT start_time - start_time % (3600 * (SELECT hours FROM parameter)) AS span_time,
  count(*) AS periods_seen,
  max(peak_bytes) AS highest_bytes,
  argMax(parameter_bytes, peak_bytes) AS of_parameters_bytes,
  argMax(buffer_bytes, peak_bytes) AS of_buffers_bytes,
  argMax(gradient_bytes, peak_bytes) AS of_gradients_bytes,
  argMax(activation_bytes, peak_bytes) AS of_activations_bytes,
  argMax(temp_bytes, peak_bytes) AS of_temporaries_bytes,
  argMax(optstate_bytes, peak_bytes) AS of_optimizer_bytes,
  argMax(other_bytes, peak_bytes) AS of_others_bytes,
  argMax(workspace_bytes, peak_bytes) AS of_workspaces_bytes
FROM periods
WHERE start_time >= (SELECT since FROM parameter) AND start_time < (SELECT until FROM parameter)
  AND ((SELECT job FROM parameter) = '' OR job = (SELECT job FROM parameter))
  AND ((SELECT user FROM parameter) = '' OR user = (SELECT user FROM parameter))
  AND ((SELECT model FROM parameter) = '' OR model = (SELECT model FROM parameter))
GROUP BY span_time
ORDER BY span_time
