-- What the reaper must know first: is any worker overdue, does any lease end later than it
-- possibly could, and the clocks as they were last seen.
-- Index expected: none; the workers table is tiny.
SELECT CAST(json_array(
  EXISTS (SELECT 1 FROM windlass_workers WHERE expires_at <= :now),
  EXISTS (SELECT 1 FROM windlass_workers WHERE expires_at > :now + lease + 1000000),
  (SELECT value FROM windlass_meta WHERE key = 'clock')
) AS BLOB)
