-- Know a schedule no more.
-- Index expected: the primary key of windlass_schedules.
DELETE FROM windlass_schedules WHERE tenant = :tenant AND identifier = :identifier
