-- Keep finished jobs; each is a JSON array, a `records.Row`.
-- Index expected: none read.
INSERT INTO windlass_history ({history})
SELECT {history_of_row}
FROM json_each(:rows)
