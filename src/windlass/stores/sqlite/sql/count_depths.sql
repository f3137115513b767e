-- How many jobs are in each state, at most :bound of each index: [state, jobs, jobs that were read,
-- the earliest instant at which one of the ready ones was due].
-- Index expected: the partial indexes, covering.
SELECT CAST(json_group_array(json_array(state, jobs, jobs, run_at)) AS BLOB)
FROM (
    SELECT 'blocked' AS state, count(*) AS jobs, NULL AS run_at FROM (
      SELECT 1 FROM windlass_jobs WHERE state = 'blocked' LIMIT :bound)
    UNION ALL
    SELECT 'scheduled' AS state, count(*) AS jobs, NULL AS run_at FROM (
      SELECT 1 FROM windlass_jobs WHERE state = 'scheduled' LIMIT :bound)
    UNION ALL
    SELECT 'ready' AS state, count(*) AS jobs, min(run_at) AS run_at FROM (
      SELECT run_at FROM windlass_jobs WHERE state = 'ready' AND tenant = '' LIMIT :bound)
    UNION ALL
    SELECT 'ready' AS state, count(*) AS jobs, min(run_at) AS run_at FROM (
      SELECT run_at FROM windlass_jobs WHERE state = 'ready' AND tenant <> '' LIMIT :bound)
    UNION ALL
    SELECT 'ready' AS state, count(*) AS jobs, min(run_at) AS run_at FROM (
      SELECT run_at FROM windlass_jobs WHERE state = 'waiting' LIMIT :bound)
    UNION ALL
    SELECT 'running' AS state, count(*) AS jobs, NULL AS run_at FROM (
      SELECT 1 FROM windlass_jobs WHERE state = 'running' LIMIT :bound)
    UNION ALL
    SELECT 'completed' AS state, count(*) AS jobs, NULL AS run_at FROM (
      SELECT 1 FROM windlass_history WHERE true LIMIT :bound)
    UNION ALL
    SELECT 'failed' AS state, count(*) AS jobs, NULL AS run_at FROM (
      SELECT 1 FROM windlass_jobs WHERE finished_at IS NOT NULL AND state = 'failed' LIMIT :bound)
    UNION ALL
    SELECT 'cancelled' AS state, count(*) AS jobs, NULL AS run_at FROM (
      SELECT 1 FROM windlass_jobs WHERE finished_at IS NOT NULL AND state = 'cancelled' LIMIT :bound)
)
