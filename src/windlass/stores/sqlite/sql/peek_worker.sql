-- Whether a worker is known, and whether to run these tasks.
-- Index expected: the unique name.
SELECT CAST(json_array(
  EXISTS (SELECT 1 FROM windlass_workers WHERE name = :worker),
  EXISTS (SELECT 1 FROM windlass_workers WHERE name = :worker AND tasks IS :tasks)
) AS BLOB)
