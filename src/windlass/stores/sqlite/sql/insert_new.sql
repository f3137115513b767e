-- Add jobs without keys, in the order given; each is a JSON array, a `records.NewJob`. None is due
-- after :last.
-- Index expected: none read.
INSERT INTO windlass_jobs ({carried}, run_at, state, created_at, updated_at)
SELECT
  {carried_of_new},
  min(:last, coalesce({new.run_at}, :now + {new.delay})),
  CASE
    WHEN coalesce({new.run_at}, :now + {new.delay}) > :now THEN 'scheduled'
    WHEN {new.queue} IS NOT NULL THEN 'waiting'
    ELSE 'ready'
  END,
  :now, :now
FROM json_each(:rows)
