-- Due jobs become ready, or wait in their serial queue.
-- Index expected: the primary key.
UPDATE windlass_jobs SET state = iif(queue IS NULL, 'ready', 'waiting')
WHERE id IN (SELECT value FROM json_each(:ids))
