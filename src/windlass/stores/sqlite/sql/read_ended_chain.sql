-- The last chain of a key that ended after :since, if any.
-- Index expected: windlass_chains_key_ended.
SELECT CAST(json_group_array(json(row)) AS BLOB)
FROM (
  SELECT {chain_row} AS row FROM windlass_chains AS c
  WHERE c.key = :key AND c.tenant = :tenant AND c.finished_at > :since
  ORDER BY c.finished_at DESC, c.id DESC
  LIMIT 1
)
