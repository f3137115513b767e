-- Whether this tenant, or any but the default one (NULL), has a ready job of this task that is in no batch
-- and not paused. It looks at fifty jobs at most, and says so where none of these is free.
CREATE OR REPLACE FUNCTION {schema}._is_ready(_tenant text, _task text, _batched int8multirange)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  most CONSTANT integer := 50;
BEGIN
  IF _tenant IS NULL THEN
    RETURN EXISTS (
      SELECT FROM (
        SELECT j.id, j.tenant, j.deliveries,
          row_number() OVER (ORDER BY j.priority, j.run_at, j.id) AS n
        FROM {schema}._jobs AS j
        WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant > '' AND j.task = _task
        LIMIT most
      ) AS j
      WHERE j.n = most OR NOT ({undelivered j} AND _batched @> j.id)
        AND NOT {schema}._is_paused(j.tenant, _task)
    );
  ELSIF _tenant = '' THEN
    RETURN EXISTS (
      SELECT FROM (
        SELECT j.id, j.deliveries,
          row_number() OVER (ORDER BY j.priority, j.run_at, j.id) AS n
        FROM {schema}._jobs AS j
        WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant = '' AND j.task = _task
        LIMIT most
      ) AS j
      WHERE j.n = most OR NOT ({undelivered j} AND _batched @> j.id)
    ) AND NOT {schema}._is_paused('', _task);
  END IF;
  RETURN EXISTS (
    SELECT FROM (
      SELECT j.id, j.deliveries,
        row_number() OVER (ORDER BY j.priority, j.run_at, j.id) AS n
      FROM {schema}._jobs AS j
      WHERE j.state = 'ready' AND NOT j.suspect AND j.tenant <> '' AND j.tenant = _tenant
        AND j.task = _task
      LIMIT most
    ) AS j
    WHERE j.n = most OR NOT ({undelivered j} AND _batched @> j.id)
  ) AND NOT {schema}._is_paused(_tenant, _task);
END $$;
