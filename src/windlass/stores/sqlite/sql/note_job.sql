-- A running job's progress, or one more entry in its log, of which the last :most are kept.
-- Index expected: the primary key.
UPDATE windlass_jobs
SET
  progress = coalesce(:progress, progress),
  log = CASE
    WHEN :entry IS NULL THEN log
    WHEN json_array_length(coalesce(log, '[]')) >= :most
      THEN json_insert(json_remove(log, '$[0]'), '$[#]', json(:entry))
    ELSE json_insert(coalesce(log, '[]'), '$[#]', json(:entry))
  END,
  updated_at = :now
WHERE id = :id AND token = :token AND state = 'running'
