-- Add jobs that have their ids already; each is a JSON array, a `records.Row`.
-- Index expected: none read; ids are above all that there were.
INSERT INTO windlass_jobs (id, {stored})
SELECT {row.id}, {stored_of_row}
FROM json_each(:rows)
