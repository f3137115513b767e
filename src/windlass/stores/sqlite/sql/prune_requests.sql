-- Forget requests that came so long ago that they may come anew, the oldest first.
-- Index expected: windlass_requests_asked; the primary key.
DELETE FROM windlass_requests
WHERE (tenant, key) IN (
  SELECT tenant, key FROM windlass_requests
  WHERE asked_at <= :asked
  ORDER BY asked_at
  LIMIT :limit
)
