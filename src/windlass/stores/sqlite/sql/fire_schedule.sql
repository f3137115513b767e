-- Move a schedule forward, if it is where it is expected and `until` has come.
-- Index expected: the primary key of windlass_schedules.
UPDATE windlass_schedules SET floor_at = :until, last_at = :until
WHERE tenant = :tenant AND identifier = :identifier AND floor_at = :expected AND paused_at IS NULL
  AND :until > floor_at AND :until <= :now
