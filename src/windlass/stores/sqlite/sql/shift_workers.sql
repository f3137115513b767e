-- The wall clock moved by :shift: so do the workers' leases, which end at most one lease from now.
-- Index expected: none; the workers table is tiny.
UPDATE windlass_workers SET expires_at = min(expires_at + max(0, :shift), :now + lease)
