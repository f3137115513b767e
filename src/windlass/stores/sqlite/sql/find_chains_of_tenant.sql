-- A page of one tenant's chains in these states, the newest first; the tenant is not the default one.
-- Index expected: windlass_chains_tenant, the primary key.
SELECT CAST(json_group_array({chain_and_job}) AS BLOB)
FROM (
  SELECT i.value AS id
  FROM json_each(:states) AS s
  CROSS JOIN json_each((
    SELECT json_group_array(id) FROM (
      SELECT id FROM windlass_chains
      WHERE tenant <> '' AND tenant = :tenant AND state = s.value AND id < :before
        AND (:task IS NULL OR task = :task)
      ORDER BY id DESC
      LIMIT :limit
    )
  )) AS i
  ORDER BY i.value DESC
  LIMIT :limit
) AS p
CROSS JOIN windlass_chains AS c ON c.id = p.id
