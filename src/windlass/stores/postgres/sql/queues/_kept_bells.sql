-- Of these bells, those of queues in which a job could be the head if no open transaction held it:
-- they are kept until it is free.
CREATE OR REPLACE FUNCTION {schema}._kept_bells(_bells bigint[], _tenants text[], _queues text[])
RETURNS bigint[] LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  RETURN ARRAY(
    SELECT q.n FROM unnest(_bells, _tenants, _queues) AS q (n, tenant, name)
    WHERE CASE
      WHEN EXISTS (SELECT FROM {schema}._jobs AS j
                   WHERE j.holds AND j.queue = q.name AND j.tenant = q.tenant)
      THEN EXISTS (
        SELECT FROM {schema}._jobs AS w
        WHERE w.holds AND w.state = 'waiting' AND w.queue = q.name AND w.tenant = q.tenant
          AND NOT EXISTS (
            SELECT FROM {schema}._paused AS p
            WHERE p.tenant = w.tenant AND p.kind = 'task' AND p.name = w.task)
      )
      ELSE EXISTS (
        SELECT FROM {schema}._jobs AS w
        WHERE w.state = 'waiting' AND w.queue = q.name AND w.tenant = q.tenant
          AND w.queue IS NOT NULL
          AND NOT EXISTS (
            SELECT FROM {schema}._paused AS p
            WHERE p.tenant = w.tenant AND p.kind = 'task' AND p.name = w.task)
      )
    END
  );
END $$;
