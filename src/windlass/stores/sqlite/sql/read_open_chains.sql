-- The open chains that have these keys, given as [tenant, key].
-- Index expected: windlass_chains_key.
SELECT CAST(json_group_array({chain_row}) AS BLOB)
FROM json_each(:keys) AS k
CROSS JOIN windlass_chains AS c
  ON c.key = k.value ->> 1 AND c.tenant = k.value ->> 0 AND c.state = 'open'
