-- Pause a tenant's task or queue.
-- Index expected: the primary key.
INSERT INTO windlass_paused (tenant, kind, name) VALUES (:tenant, :kind, :name)
ON CONFLICT DO NOTHING
