-- Treat these workers as dead: what they hold goes back to the queue.
CREATE OR REPLACE FUNCTION {schema}.force_unlock_workers(worker_ids text[]) RETURNS SETOF {schema}.job
LANGUAGE sql
BEGIN ATOMIC
  SELECT ({schema}._public(j, NULL)).* FROM {schema}._unlock(worker_ids, {max_resets}) AS j;
END;
