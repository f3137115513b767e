-- Known schedules by tenant and identifier: of one tenant or of all, and of these identifiers or of
-- all.
-- Index expected: the primary key of windlass_schedules.
SELECT json_group_array(
  json_array(schedule, known_since, seen_at, floor_at, last_at, paused_at, tenant)
)
FROM (
  SELECT * FROM windlass_schedules
  WHERE (:tenant IS NULL OR tenant = :tenant)
    AND (:identifiers IS NULL OR identifier IN (SELECT value FROM json_each(:identifiers)))
  ORDER BY tenant, identifier
)
