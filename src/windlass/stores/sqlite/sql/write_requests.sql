-- Remember requests, [tenant, key, digest, [id, …]] each, in place of old ones that had their keys.
-- Index expected: the primary key.
INSERT INTO windlass_requests (tenant, key, digest, jobs, asked_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value -> 3, :now FROM json_each(:requests) WHERE true
ON CONFLICT (tenant, key) DO UPDATE
SET digest = excluded.digest, jobs = excluded.jobs, asked_at = excluded.asked_at
