-- What is remembered of requests by [tenant, key] that came after :since: the place in the list, the
-- digest and the ids of the jobs they stand for.
-- Index expected: the primary key.
SELECT CAST(json_group_array(json_array(k.key, r.digest, json(r.jobs))) AS BLOB)
FROM json_each(:keys) AS k
CROSS JOIN windlass_requests AS r
  ON r.tenant = k.value ->> 0 AND r.key = k.value ->> 1 AND r.asked_at > :since
