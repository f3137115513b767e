-- Every known worker by name: [name, expires_at, running].
-- Index expected: the unique name, windlass_jobs_running.
SELECT CAST(json_group_array(json_array(name, expires_at, running)) AS BLOB)
FROM (
  SELECT
    w.name, w.expires_at,
    (SELECT count(*) FROM windlass_jobs AS j
     WHERE j.worker = w.id AND j.state = 'running') AS running
  FROM windlass_workers AS w
  ORDER BY w.name
)
