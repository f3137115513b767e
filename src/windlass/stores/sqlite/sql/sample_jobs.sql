-- About how many jobs that match are in each state: of :probes ids, one from each equal part of all ids
-- of a table, so many are such jobs.
-- Index expected: the primary keys; one entry for each probe.
WITH RECURSIVE
probe (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM probe WHERE n + 1 < :probes),
ends (low, size) AS (
  SELECT low, max(1.0, (high - low + 1.0) / :probes)
  FROM (SELECT (SELECT min(id) FROM windlass_jobs) AS low, (SELECT max(id) FROM windlass_jobs) AS high)
),
kept_ends (low, size) AS (
  SELECT low, max(1.0, (high - low + 1.0) / :probes)
  FROM (
    SELECT (SELECT min(id) FROM windlass_history) AS low,
      (SELECT max(id) FROM windlass_history) AS high
  )
)
SELECT CAST(json_group_object(state, jobs) AS BLOB)
FROM (
  SELECT iif(j.state = 'waiting', 'ready', j.state) AS state, CAST(count(*) * e.size AS INTEGER) AS jobs
  FROM ends AS e
  CROSS JOIN probe AS p
  CROSS JOIN windlass_jobs AS j
    ON j.id = e.low + CAST((p.n + abs(random() % 1000) / 1000.0) * e.size AS INTEGER)
  WHERE (:task IS NULL OR j.task = :task)
    AND (:queue IS NULL OR j.queue = :queue)
    AND (:tenant IS NULL OR j.tenant = :tenant)
  GROUP BY 1
  UNION ALL
  SELECT 'completed', CAST(count(*) * e.size AS INTEGER)
  FROM kept_ends AS e
  CROSS JOIN probe AS p
  CROSS JOIN windlass_history AS h
    ON h.id = e.low + CAST((p.n + abs(random() % 1000) / 1000.0) * e.size AS INTEGER)
  WHERE (:task IS NULL OR h.task = :task)
    AND (:queue IS NULL OR h.queue = :queue)
    AND (:tenant IS NULL OR h.tenant = :tenant)
  GROUP BY 1
)
