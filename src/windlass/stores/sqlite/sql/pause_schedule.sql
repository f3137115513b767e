-- Fire it no more.
-- Index expected: the primary key of windlass_schedules.
UPDATE windlass_schedules SET paused_at = :now
WHERE tenant = :tenant AND identifier = :identifier AND paused_at IS NULL
