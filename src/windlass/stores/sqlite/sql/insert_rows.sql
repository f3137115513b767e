-- Add jobs that are new rows already, in the order given; each is a JSON array, a `records.Row`.
-- Index expected: none read; a key must be free.
INSERT INTO windlass_jobs ({carried}, run_at, revision, state, created_at, updated_at)
SELECT
  {carried_of_row}, {row.run_at}, {row.revision},
  iif({row.state} = 'ready' AND {row.queue} IS NOT NULL, 'waiting', {row.state}),
  {row.created_at}, {row.updated_at}
FROM json_each(:rows)
