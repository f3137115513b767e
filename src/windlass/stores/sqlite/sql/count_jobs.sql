-- How many jobs of all tenants are in each state; each count reads only its own index.
-- Index expected: the partial indexes, covering.
SELECT CAST(json_object(
  'blocked', (SELECT count(*) FROM windlass_jobs WHERE state = 'blocked'),
  'scheduled', (SELECT count(*) FROM windlass_jobs WHERE state = 'scheduled'),
  'ready', (SELECT count(*) FROM windlass_jobs WHERE state = 'ready' AND tenant = '')
    + (SELECT count(*) FROM windlass_jobs WHERE state = 'ready' AND tenant <> '')
    + (SELECT count(*) FROM windlass_jobs WHERE state = 'waiting'),
  'running', (SELECT count(*) FROM windlass_jobs WHERE state = 'running'),
  'completed', (SELECT count(*) FROM windlass_history),
  'failed', (SELECT count(*) FROM windlass_jobs
             WHERE finished_at IS NOT NULL AND state = 'failed'),
  'cancelled', (SELECT count(*) FROM windlass_jobs
                WHERE finished_at IS NOT NULL AND state = 'cancelled')
) AS BLOB)
