-- End deliveries, each if and only if its token owns the job. `_ids` and `_tokens` are completed;
-- `_keeps` are the seconds to keep each for where it says nothing itself, and `_outputs` their
-- outputs (both NULL where none is to be kept); `_others` are {id, token, chain} and an `_outcome`,
-- done one by one. Jobs that belong to chains, or waited for some, are completed by `_settle_linked`.
-- Answers NULL where all were completed, else an array with the state or the refusal of each of `_ids`
-- and then of `_others`.
--
-- The quick way deletes without looking for locks. If another transaction has locked a row, it
-- fails with lock_not_available after a moment; the caller then asks again with `_careful`, which
-- skips locked rows. What it still waits for are locks of the server's own, as while a table grows on a
-- slow disk. A handler's own transaction, which such a failure would undo, `_waits` longer for them; it
-- settles one job, so no other outcome is held up.
--
-- Bitmap scans are off, so that no plan made while the table was small walks the indexes of running
-- and of ready jobs once for each job.
CREATE OR REPLACE FUNCTION {schema}._settle(
  _ids bigint[], _tokens bigint[], _outputs json[], _keeps float8[], _others text,
  _careful boolean, _now timestamptz DEFAULT NULL, _waits boolean DEFAULT false
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off SET lock_timeout = '20ms'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  bases bigint[];
  ids bigint[] := _ids;
  tokens bigint[] := _tokens;
  outputs json[] := _outputs;
  keeps float8[] := _keeps;
  gone bigint[] := '{}';
  tenants text[];
  queues text[];
  answers text[] := '{}';
  other record;
  j {schema}._jobs;
BEGIN
  IF _waits THEN
    PERFORM set_config('lock_timeout', '2s', true);
  END IF;
  bases := ARRAY(
    SELECT b.base FROM {schema}._batches AS b WHERE EXISTS (
      SELECT FROM unnest(_ids, _tokens) AS x (id, token) WHERE x.token - x.id = b.base
    )
  );
  IF _careful THEN
    SELECT
      coalesce(array_agg(l.id), '{}'), coalesce(array_agg(l.token), '{}'),
      array_agg(l.output), array_agg(l.keep)
    INTO ids, tokens, outputs, keeps FROM (
      SELECT x.id, x.token, x.output, x.keep
      FROM unnest(_ids, _tokens, _outputs, _keeps) AS x (id, token, output, keep)
      JOIN {schema}._jobs AS k ON k.id BETWEEN x.id AND x.id AND {schema}._is_owned_in(k, x.token, bases)
      ORDER BY x.id FOR UPDATE OF k SKIP LOCKED
    ) AS l;
  END IF;
  IF cardinality(ids) > 0 AND _keeps IS NULL THEN
    WITH done AS (
      DELETE FROM {schema}._jobs AS k USING unnest(ids, tokens) AS x (id, token)
      WHERE k.id BETWEEN x.id AND x.id AND {schema}._is_owned_in(k, x.token, bases)
      RETURNING k.id, k.tenant, k.queue
    )
    SELECT coalesce(array_agg(d.id), '{}'),
      array_agg(d.tenant) FILTER (WHERE d.queue IS NOT NULL),
      array_agg(d.queue) FILTER (WHERE d.queue IS NOT NULL)
    INTO gone, tenants, queues FROM done AS d;
  ELSIF cardinality(ids) > 0 THEN
    WITH done AS (
      DELETE FROM {schema}._jobs AS k
      USING unnest(ids, tokens, outputs, keeps) AS x (id, token, output, keep)
      WHERE k.id BETWEEN x.id AND x.id AND {schema}._is_owned_in(k, x.token, bases)
      RETURNING k.*, x.token AS own_token, x.output,
        coalesce({schema}._span(k.keep), x.keep) AS kept,
        (k.state = 'ready')::integer AS more
    ),
    filed AS (
      INSERT INTO {schema}._history ({history})
      SELECT {history_of_done}
      FROM done AS d WHERE d.kept > 0
    )
    SELECT coalesce(array_agg(d.id), '{}'),
      array_agg(d.tenant) FILTER (WHERE d.queue IS NOT NULL),
      array_agg(d.queue) FILTER (WHERE d.queue IS NOT NULL)
    INTO gone, tenants, queues FROM done AS d;
  END IF;
  IF gone <> '{}' THEN
    PERFORM {schema}._ended(gone, tenants, queues);
  END IF;
  IF _others IS NULL AND cardinality(gone) = cardinality(_ids) THEN
    RETURN NULL;
  END IF;
  answers := ARRAY(
    SELECT CASE WHEN x.id = ANY (gone) THEN 'completed' ELSE {schema}._refusal(x.id, x.token) END
    FROM unnest(_ids, _tokens) WITH ORDINALITY AS x (id, token, place) ORDER BY x.place
  );
  IF _others IS NOT NULL THEN
    PERFORM {schema}._unbatch_owned(array_agg(x.id), array_agg(x.token))
    FROM json_to_recordset(_others::json) AS x (id bigint, token bigint);
  END IF;
  FOR other IN
    SELECT x.id, x.token, x.chain, json_populate_record(NULL::{schema}._outcome, x.outcome) AS outcome
    FROM json_to_recordset(_others::json) AS x (id bigint, token bigint, chain bigint, outcome json)
  LOOP
    SELECT k.* INTO j FROM {schema}._jobs AS k
    WHERE k.id = other.id AND k.token = other.token AND k.state = 'running'
    FOR UPDATE SKIP LOCKED;
    -- The chain of a job is locked by others for moments only, and not waited for either.
    IF FOUND AND (j.chain IS NULL OR {schema}._lock_own_chains(ARRAY[j.id]) <> '{}') THEN
      answers := answers || {schema}._end(j, other.outcome, at)::text;
    ELSE
      answers := answers || {schema}._unsettled(other.id, other.token, other.chain);
    END IF;
  END LOOP;
  RETURN array_to_json(answers)::text;
END $$;
