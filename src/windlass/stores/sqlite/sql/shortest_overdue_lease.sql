-- The shortest lease (microseconds) among overdue workers, if any is.
-- Index expected: none; the workers table is tiny.
SELECT min(lease) FROM windlass_workers WHERE expires_at <= :now
