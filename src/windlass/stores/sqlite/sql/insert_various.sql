-- As insert_waiting, where jobs have little in common: each is a JSON array, a `records.NewJob` with its
-- offset, chain and step after it, and `open` and `total` where it has named chains. None is due after
-- :last.
-- Index expected: none read; ids are above all that there were.
INSERT INTO windlass_jobs (
  id, {carried}, run_at, state, created_at, updated_at, chain, step, blockers_open, blockers_total
)
SELECT
  :first + {new.offset}, {carried_of_new},
  min(:last, coalesce({new.run_at}, :now + {new.delay})),
  CASE
    WHEN {new.open} > 0 THEN 'blocked'
    WHEN coalesce({new.run_at}, :now + {new.delay}) > :now THEN 'scheduled'
    WHEN {new.queue} IS NOT NULL THEN 'waiting'
    ELSE 'ready'
  END,
  :now, :now,
  iif({new.chain} = 0, :first + {new.offset}, {new.chain}), {new.step}, {new.open}, {new.total}
FROM json_each(:rows)
