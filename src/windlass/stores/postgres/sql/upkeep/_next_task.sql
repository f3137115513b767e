-- The next task by name, after `_low` and before `_high` (NULL for no limit), that has ready jobs which
-- are no suspects, or jobs that wait; NULL if there is none. Both ends limit what is read.
CREATE OR REPLACE FUNCTION {schema}._next_task(_low text, _high text) RETURNS text
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  IF _high IS NULL THEN
    RETURN least(
      (SELECT j.task FROM {schema}._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task > _low
       ORDER BY j.task LIMIT 1),
      (SELECT j.task FROM {schema}._jobs AS j
       WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task > _low
       ORDER BY j.task LIMIT 1),
      (SELECT j.task FROM {schema}._jobs AS j
       WHERE j.state = 'waiting' AND j.queue IS NOT NULL AND j.task > _low
       ORDER BY j.task LIMIT 1)
    );
  END IF;
  RETURN least(
    (SELECT j.task FROM {schema}._jobs AS j
     WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task > _low
       AND j.task < _high
     ORDER BY j.task LIMIT 1),
    (SELECT j.task FROM {schema}._jobs AS j
     WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task > _low
       AND j.task < _high
     ORDER BY j.task LIMIT 1),
    (SELECT j.task FROM {schema}._jobs AS j
     WHERE j.state = 'waiting' AND j.queue IS NOT NULL AND j.task > _low AND j.task < _high
     ORDER BY j.task LIMIT 1)
  );
END $$;
