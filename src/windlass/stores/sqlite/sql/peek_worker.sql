-- Whether a worker is known, and whether to run these tasks for these tenants.
-- Index expected: the unique name.
SELECT CAST(json_array(
  EXISTS (SELECT 1 FROM windlass_workers WHERE name = :worker),
  EXISTS (
    SELECT 1 FROM windlass_workers
    WHERE name = :worker AND tasks IS :tasks AND tenants IS :tenants
  )
) AS BLOB)
