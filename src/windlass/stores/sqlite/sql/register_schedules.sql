-- Remember a tenant's schedules as a worker has them. `WHERE true` tells SQLite that ON begins no
-- join.
-- Index expected: the primary key of windlass_schedules.
INSERT INTO windlass_schedules (tenant, identifier, schedule, known_since, seen_at, floor_at)
SELECT :tenant, value ->> 0, value ->> 1, :now, :now, :now FROM json_each(:schedules) WHERE true
ON CONFLICT (tenant, identifier) DO UPDATE
SET schedule = excluded.schedule, seen_at = excluded.seen_at
