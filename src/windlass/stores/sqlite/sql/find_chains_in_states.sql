-- A page of chains in these states, of one task or of all, the newest first. No more are read than
-- the page has, for each task and state.
-- Index expected: windlass_chains_task, covering; the primary key.
WITH RECURSIVE tasks (task) AS (
  SELECT coalesce(:task, (SELECT min(task) FROM windlass_chains))
  UNION ALL
  SELECT (SELECT min(c.task) FROM windlass_chains AS c WHERE c.task > t.task)
  FROM tasks AS t WHERE t.task IS NOT NULL AND :task IS NULL
)
SELECT CAST(json_group_array({chain_and_job}) AS BLOB)
FROM (
  SELECT i.value AS id
  FROM tasks AS t
  CROSS JOIN json_each(:states) AS s
  CROSS JOIN json_each((
    SELECT json_group_array(id) FROM (
      SELECT id FROM windlass_chains
      WHERE task = t.task AND state = s.value AND id < :before
        AND (:tenant IS NULL OR tenant = :tenant)
      ORDER BY id DESC
      LIMIT :limit
    )
  )) AS i
  WHERE t.task IS NOT NULL
  ORDER BY i.value DESC
  LIMIT :limit
) AS p
CROSS JOIN windlass_chains AS c ON c.id = p.id
