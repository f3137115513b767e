-- Groups of failed jobs by the fingerprints of their errors, of a tenant or of all: of the first
-- :groups + 1 those whose newest jobs are the newest. [groups that were looked at, [[fingerprint, jobs
-- (:most + 1 at most), the latest of these as tenant, task, error, when it failed, its id], …]].
-- Fingerprints of the tenant stand between :first and :last.
-- Index expected: windlass_jobs_errors; two entries of each group, and those that are counted.
WITH RECURSIVE
known (fingerprint) AS (
  SELECT :first
  UNION ALL
  SELECT (
    SELECT ifnull(i.fingerprint, '') FROM windlass_jobs AS i INDEXED BY windlass_jobs_errors
    WHERE i.state = 'failed' AND ifnull(i.fingerprint, '') > k.fingerprint
      AND ifnull(i.fingerprint, '') < :last
    ORDER BY ifnull(i.fingerprint, '') LIMIT 1
  )
  FROM known AS k WHERE k.fingerprint IS NOT NULL
  LIMIT :groups + 2
),
found (fingerprint, id) AS MATERIALIZED (
  SELECT k.fingerprint, j.id
  FROM (SELECT '' AS fingerprint UNION SELECT fingerprint FROM known) AS k
  CROSS JOIN windlass_jobs AS j ON j.id = (
    SELECT i.id FROM windlass_jobs AS i INDEXED BY windlass_jobs_errors
    WHERE i.state = 'failed' AND ifnull(i.fingerprint, '') = k.fingerprint
    ORDER BY i.id DESC LIMIT 1
  )
  WHERE k.fingerprint = '' OR :tenant IS NULL OR j.tenant = :tenant
)
SELECT CAST(json_array(
  (SELECT count(*) FROM found),
  (
    SELECT json_group_array(json_array(
      l.fingerprint, l.jobs, j.tenant, j.task, substr(ifnull(j.last_error, ''), 1, :error_text),
      j.finished_at, j.id
    ))
    FROM (
      SELECT g.fingerprint, count(*) AS jobs, max(k.finished_at) AS finished_at, k.id
      FROM (SELECT f.fingerprint, f.id FROM found AS f ORDER BY f.id DESC LIMIT :limit) AS g
      CROSS JOIN windlass_jobs AS k ON k.id IN (
        SELECT i.id FROM windlass_jobs AS i INDEXED BY windlass_jobs_errors
        WHERE i.state = 'failed' AND ifnull(i.fingerprint, '') = g.fingerprint
        ORDER BY i.id DESC LIMIT :most + 1
      )
      WHERE :tenant IS NULL OR k.tenant = :tenant
      GROUP BY g.fingerprint
      ORDER BY finished_at DESC, k.id DESC
    ) AS l
    CROSS JOIN windlass_jobs AS j ON j.id = l.id
  )
) AS BLOB)
