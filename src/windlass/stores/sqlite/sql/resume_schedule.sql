-- Go on from now; what came meanwhile is passed over.
-- Index expected: the primary key of windlass_schedules.
UPDATE windlass_schedules SET paused_at = NULL, floor_at = max(floor_at, :now)
WHERE tenant = :tenant AND identifier = :identifier AND paused_at IS NOT NULL
