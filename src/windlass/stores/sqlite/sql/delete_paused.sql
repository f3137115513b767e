-- Resume a tenant's task or queue.
-- Index expected: the primary key.
DELETE FROM windlass_paused WHERE tenant = :tenant AND kind = :kind AND name = :name
