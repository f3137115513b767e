-- A worker is alive until :expires_at; nothing is written while its lease ends after :fresh.
-- Index expected: the unique name.
INSERT INTO windlass_workers (name, expires_at, lease)
VALUES (:worker, :expires_at, :lease)
ON CONFLICT (name) DO UPDATE SET expires_at = excluded.expires_at, lease = excluded.lease
  WHERE expires_at <= :fresh OR expires_at > excluded.expires_at
