-- title: Where memory ran out, and what held it
-- about: Of each time the largest line, module and category of what was allocated then.
-- parameter: since time = -30d: from when on
-- parameter: until time = now: until when
-- parameter: job text = : only this job
-- parameter: user text = : only jobs of this user
-- parameter: model text = : only this model
SELECT time, job, user, run, rank, node, device, asked_bytes, allocated_bytes, reserved_bytes, capacity_bytes,
  largest_gap_bytes, phase, operator, line,
  holding_line, holding_line_bytes, holding_module, holding_module_bytes, holding_category, holding_category_bytes
FROM (
  SELECT job, user, run, rank, node, device, time, microsecond, asked_bytes, allocated_bytes, reserved_bytes,
    capacity_bytes, largest_gap_bytes, phase, operator, line
  FROM ooms
  WHERE time >= (SELECT since FROM parameter) AND time < (SELECT until FROM parameter)
    AND ((SELECT job FROM parameter) = '' OR job = (SELECT job FROM parameter))
    AND ((SELECT user FROM parameter) = '' OR user = (SELECT user FROM parameter))
    AND ((SELECT model FROM parameter) = '' OR model = (SELECT model FROM parameter))
) AS seen LEFT JOIN (
  SELECT run, rank, device, time, microsecond,
    max(CASE WHEN kind = 'line' AND place = 0 THEN name ELSE '' END) AS holding_line,
    max(CASE WHEN kind = 'line' AND place = 0 THEN bytes ELSE 0 END) AS holding_line_bytes,
    max(CASE WHEN kind = 'module' AND place = 0 THEN name ELSE '' END) AS holding_module,
    max(CASE WHEN kind = 'module' AND place = 0 THEN bytes ELSE 0 END) AS holding_module_bytes,
    argMax(name, CASE WHEN kind = 'category' THEN bytes ELSE -1 END) AS holding_category,
    max(CASE WHEN kind = 'category' THEN bytes ELSE 0 END) AS holding_category_bytes
  FROM holders
  WHERE moment = 'out_of_memory' AND time >= (SELECT since FROM parameter) AND time < (SELECT until FROM parameter)
  GROUP BY run, rank, device, time, microsecond
) AS told USING (run, rank, device, time, microsecond)
ORDER BY time DESC, microsecond DESC, run, rank, device
