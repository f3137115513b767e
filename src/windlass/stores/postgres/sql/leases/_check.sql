-- Which of these leases are lost, and why; whose jobs should stop. `_chains` are the chains of the jobs, or NULL
-- where none is in any. Batches in which jobs have run
-- for a while are dissolved, so that what every claim reads of batches stays small.
CREATE OR REPLACE FUNCTION {schema}._check(
  _ids bigint[], _tokens bigint[], _chains bigint[] DEFAULT NULL, _now timestamptz DEFAULT NULL
) RETURNS TABLE (id bigint, answer text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  bases bigint[];
  old bigint[];
BEGIN
  SELECT array_agg(b.base), array_agg(b.base) FILTER (WHERE b.claimed_at < at - interval '1 s')
  INTO bases, old FROM {schema}._batches AS b WHERE EXISTS (
    SELECT FROM unnest(_ids, _tokens) AS x (id, token) WHERE x.token - x.id = b.base
  );
  -- With one snapshot for the whole call it would fail whenever one of them is settled meanwhile.
  IF old IS NOT NULL AND current_setting('transaction_isolation') = 'read committed' THEN
    PERFORM {schema}._dissolve_batches(old);
  END IF;
  RETURN QUERY
  SELECT x.id, CASE
    WHEN j.state = 'running' AND j.token = x.token THEN 'cancel'
    WHEN h.id IS NOT NULL THEN 'already_completed'
    WHEN j.id IS NULL AND EXISTS (SELECT FROM {schema}._chains AS c WHERE c.id = x.chain)
      THEN 'already_completed'  -- by an operator
    WHEN j.id IS NULL THEN 'not_found'
    WHEN j.state IN ('completed', 'failed', 'cancelled') THEN 'already_completed'
    ELSE 'taken_by_another_worker'
  END
  FROM unnest(_ids, _tokens, _chains) AS x (id, token, chain)
  LEFT JOIN {schema}._jobs AS j ON j.id BETWEEN x.id AND x.id
  LEFT JOIN {schema}._history AS h ON h.id BETWEEN x.id AND x.id
  WHERE j.id IS NULL OR j.cancel_requested
    OR {schema}._is_owned_in(j, x.token, bases) IS NOT TRUE;
END $$;
