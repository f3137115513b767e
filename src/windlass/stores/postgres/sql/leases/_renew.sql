-- A sign of life for all a worker holds; `_extend` [[id, token, seconds], …] gives single jobs an
-- end of their own, never an earlier one. 'locked' are those that could not be given it now.
CREATE OR REPLACE FUNCTION {schema}._renew(
  _worker text, _lease float8, _ids bigint[], _tokens bigint[], _chains bigint[], _extend json,
  _now timestamptz DEFAULT NULL
) RETURNS TABLE (id bigint, answer text) LANGUAGE plpgsql
SET lock_timeout = '2s'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  number bigint;
  wish record;
BEGIN
  number := {schema}._beat(_worker, _lease, _now);
  -- Also those of which nothing is left, and which this worker has forgotten.
  IF current_setting('transaction_isolation') = 'read committed' THEN
    PERFORM {schema}._dissolve_batches(ARRAY(
      SELECT b.base FROM {schema}._batches AS b
      WHERE b.worker = number AND b.claimed_at < at - interval '1 s'
    ));
  END IF;
  PERFORM {schema}._unbatch_owned(
    array_agg((e ->> 0)::bigint), array_agg((e ->> 1)::bigint)
  ) FROM json_array_elements(_extend) AS e HAVING count(*) > 0;
  FOR wish IN
    SELECT (e ->> 0)::bigint AS job, (e ->> 1)::bigint AS token, (e ->> 2)::float8 AS lease,
      at + make_interval(secs => (e ->> 2)::float8) AS until
    FROM json_array_elements(_extend) AS e
  LOOP
    UPDATE {schema}._jobs AS j SET
      lease_until = greatest(
        wish.until, least(j.lease_until, at + make_interval(secs => j.lease))
      ),
      lease = greatest(wish.lease, j.lease)
    WHERE j.id = (
      SELECT k.id FROM {schema}._jobs AS k
      WHERE k.id = wish.job AND k.token = wish.token AND k.state = 'running'
      FOR NO KEY UPDATE SKIP LOCKED
    );
    IF NOT FOUND AND {schema}._refusal(wish.job, wish.token) = 'busy' THEN
      id := wish.job;
      answer := 'locked';
      RETURN NEXT;
    END IF;
  END LOOP;
  RETURN QUERY SELECT * FROM {schema}._check(_ids, _tokens, _chains, _now);
END $$;
