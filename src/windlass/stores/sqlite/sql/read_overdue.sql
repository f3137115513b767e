-- Workers whose leases have ended, as [id, lease], and whether any lease ends later than it can: it
-- was taken before the machine was started again.
-- Index expected: none; the workers table is tiny.
SELECT CAST(json_array(
  (SELECT json_group_array(json_array(id, lease)) FROM windlass_workers WHERE expires_at <= :ticks),
  EXISTS (SELECT 1 FROM windlass_workers WHERE expires_at > :ticks + lease)
) AS BLOB)
