-- Queues whose claimable head this worker may not run, with the best waiting job that it may:
-- [[priority, run_at, candidate, head, queue], …], and the queue to go on after, if any.
-- Looks at no more than :most queues per task, after :after by name.
-- Index expected: windlass_jobs_waiting_task, windlass_jobs_active.
WITH RECURSIVE
allowed (task) AS (
  SELECT value FROM json_each(:tasks)
  WHERE value NOT IN (SELECT name FROM windlass_paused WHERE kind = 'task')
),
step (task, queue, n) AS (
  SELECT
    a.task,
    (SELECT min(w.queue) FROM windlass_jobs AS w
     WHERE w.state = 'waiting' AND w.task = a.task AND w.queue > :after),
    1
  FROM allowed AS a
  UNION ALL
  SELECT
    s.task,
    (SELECT min(w.queue) FROM windlass_jobs AS w
     WHERE w.state = 'waiting' AND w.task = s.task AND w.queue > s.queue),
    s.n + 1
  FROM step AS s
  WHERE s.queue IS NOT NULL AND s.n < :most
)
SELECT CAST(json_array(
  json_group_array(json_array(c.priority, c.run_at, c.id, x.head, x.queue)),
  (SELECT min(queue) FROM step WHERE n = :most)
) AS BLOB)
FROM (
  SELECT
    s.queue AS queue,
    h.id AS head,
    (SELECT w.id FROM windlass_jobs AS w
     WHERE w.state = 'waiting' AND w.task = s.task AND w.queue = s.queue
       AND NOT EXISTS (
         SELECT 1 FROM json_each(w.flags) AS f
         WHERE f.value IN (SELECT value FROM json_each(:forbidden))
       )
     ORDER BY w.priority, w.run_at, w.id
     LIMIT 1) AS candidate
  FROM step AS s
  CROSS JOIN windlass_jobs AS h ON h.queue = s.queue AND h.state = 'ready'
  WHERE h.task NOT IN (SELECT task FROM allowed)
    OR EXISTS (
      SELECT 1 FROM json_each(h.flags) AS f
      WHERE f.value IN (SELECT value FROM json_each(:forbidden))
    )
) AS x
CROSS JOIN windlass_jobs AS c ON c.id = x.candidate
