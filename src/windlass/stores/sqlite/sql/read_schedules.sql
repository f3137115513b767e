-- Known schedules by identifier, all of them where none are named.
-- Index expected: the primary key of windlass_schedules.
SELECT json_group_array(json_array(schedule, known_since, seen_at, floor_at, last_at, paused_at))
FROM (
  SELECT * FROM windlass_schedules
  WHERE :identifiers IS NULL OR identifier IN (SELECT value FROM json_each(:identifiers))
  ORDER BY identifier
)
