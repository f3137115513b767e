-- Nobody could renew for :gap, so nobody's lease runs out for it.
-- Index expected: none; the workers table is tiny.
UPDATE windlass_workers SET expires_at = expires_at + :gap
