-- Complete deliveries of jobs that belong to chains, wait for some, or go on, each if and only if its
-- token owns the job: with the job that comes next, the chains that start, the end of the chain and
-- what follows for jobs that wait for it. Answers NULL where all were completed, else an array with
-- the state or the refusal of each.
--
-- `_chains` are the chains of the deliveries, `_keeps` and `_outputs` as in `_settle`, and `_goes_on`
-- says which have a next job. `_nexts` are groups, as `_add_links` says, with these places; `_starts`
-- and `_keyed` are the chains that start, with places of their own, and `_owners` has at these the
-- place of the delivery with which each starts. What may be refused comes by `_settle_asking`,
-- and then `_looks` is set.
--
-- It is quick or `_careful` as `_settle` is, and `_waits` as that does.
CREATE OR REPLACE FUNCTION {schema}._settle_linked(
  _ids bigint[], _tokens bigint[], _chains bigint[], _outputs json[], _keeps float8[],
  _goes_on boolean[], _nexts json, _starts json, _keyed json, _owners integer[], _looks boolean,
  _careful boolean, _now timestamptz DEFAULT NULL, _waits boolean DEFAULT false
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off SET lock_timeout = '20ms'
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  bases bigint[];
  ids bigint[] := _ids;
  places bigint[];
  gone bigint[];
  chains bigint[];
  steps integer[];
  tenants text[];
  queues text[];
  freed bigint[];
  cancelled bigint[];
  ended bigint;
  ends {schema}._chain_end[];
  numbers bigint[];
  begun bigint[];
  told {schema}._jobs[];
  told_outputs json[];
BEGIN
  PERFORM {schema}._need_read_committed();
  bases := ARRAY(
    SELECT b.base FROM {schema}._batches AS b WHERE EXISTS (
      SELECT FROM unnest(_ids, _tokens) AS x (id, token) WHERE x.token - x.id = b.base
    )
  );
  IF _looks THEN  -- one of many, which are done one by one
    PERFORM set_config('lock_timeout', '2ms', true);
  ELSIF _waits THEN
    PERFORM set_config('lock_timeout', '2s', true);
  END IF;
  IF _careful THEN
    -- What is not locked now is left out below: no job has the id NULL.
    ids := {schema}._lock_owned(_ids, _tokens, bases);
  END IF;
  WITH done AS (
    DELETE FROM {schema}._jobs AS k
    USING unnest(ids, _tokens, _outputs, _keeps, _goes_on) WITH ORDINALITY
      AS x (id, token, output, keep, goes_on, place)
    WHERE k.id BETWEEN x.id AND x.id AND {schema}._is_owned_in(k, x.token, bases)
    RETURNING k.*, x.place, x.token AS own_token, x.output, x.goes_on,
      coalesce({schema}._span(k.keep), x.keep) AS kept, (k.state = 'ready')::integer AS more,
      {told k} AS is_told,
      CASE WHEN {told k} THEN {schema}._as_told(k, x.goes_on) END AS told
  ),
  filed AS (
    INSERT INTO {schema}._history ({history})
    SELECT {history_of_linked}
    FROM done AS d WHERE d.kept > 0
  ),
  begun AS (
    INSERT INTO {schema}._chains (id, tenant, task, payload, created_at)
    SELECT d.id, d.tenant, d.task, d.payload, d.created_at
    FROM done AS d WHERE d.goes_on AND d.chain IS NULL
  )
  SELECT
    coalesce(array_agg(d.id ORDER BY d.place), '{}'),
    array_agg(d.place ORDER BY d.place),
    array_agg(coalesce(d.chain, d.id) ORDER BY d.place),
    array_agg(coalesce(d.step, 0) + 1 ORDER BY d.place),
    array_agg(d.tenant) FILTER (WHERE d.queue IS NOT NULL),
    array_agg(d.queue) FILTER (WHERE d.queue IS NOT NULL),
    array_agg(d.id) FILTER (WHERE d.blockers_total IS NOT NULL AND (d.kept > 0) IS NOT TRUE),
    array_agg(d.place) FILTER (WHERE d.goes_on AND d.cancel_requested),
    array_agg(
      ROW(d.chain, 'completed', d.output, NULL, d.step + 1, d.own_token)::{schema}._chain_end
    ) FILTER (WHERE d.chain IS NOT NULL AND NOT d.goes_on),
    max(d.chain) FILTER (WHERE NOT d.goes_on),
    array_agg(d.told ORDER BY d.place) FILTER (WHERE d.is_told),
    array_agg(d.output ORDER BY d.place) FILTER (WHERE d.is_told)
  INTO gone, places, chains, steps, tenants, queues, freed, cancelled, ends, ended, told,
    told_outputs
  FROM done AS d;
  IF gone <> '{}' THEN
    IF freed IS NOT NULL THEN
      PERFORM {schema}._drop_blockers(freed);
    END IF;
    PERFORM {schema}._ended(gone, tenants, queues, ends, at);
    IF told IS NOT NULL THEN
      PERFORM {schema}._post_ends(told, told_outputs, 'completed', at);
    END IF;
    IF cardinality(gone) < cardinality(_ids) THEN
      SELECT s.ids, s.chains, s.steps INTO gone, chains, steps
      FROM {schema}._at_places(cardinality(_ids), places, gone, chains, steps) AS s;
    END IF;
    IF _owners IS NOT NULL THEN
      numbers := ARRAY(
        SELECT CASE WHEN gone[o.owner] IS NOT NULL THEN nextval({sequence}) END
        FROM unnest(_owners) WITH ORDINALITY AS o (owner, place) ORDER BY o.place
      );
      begun := {schema}._begin(_starts, _keyed, numbers, ended, _looks, at);
    END IF;
    IF _nexts IS NOT NULL THEN
      numbers := ARRAY(
        SELECT CASE WHEN g.id IS NOT NULL AND g.goes_on THEN nextval({sequence}) END
        FROM unnest(gone, _goes_on) WITH ORDINALITY AS g (id, goes_on, place) ORDER BY g.place
      );
      PERFORM {schema}._add_links(
        _nexts, numbers, chains, steps, begun, cancelled, false, _looks, at);
    END IF;
    IF cancelled IS NOT NULL THEN
      PERFORM {schema}._ended(
        array_agg(numbers[c.place]), NULL, NULL,
        array_agg(ROW(chains[c.place], 'cancelled', NULL, NULL, steps[c.place] + 1, NULL)
          ::{schema}._chain_end), at)
      FROM unnest(cancelled) AS c (place);
      PERFORM {schema}._post_ends_of(ARRAY(
        SELECT numbers[c.place] FROM unnest(cancelled) AS c (place)), at);
    END IF;
  END IF;
  IF cardinality(places) = cardinality(_ids) THEN
    RETURN NULL;
  END IF;
  RETURN (
    SELECT array_to_json(array_agg(CASE
      WHEN x.place = ANY (places) THEN 'completed'
      ELSE {schema}._unsettled(x.id, x.token, x.chain)
    END ORDER BY x.place))::text
    FROM unnest(_ids, _tokens, _chains) WITH ORDINALITY AS x (id, token, chain, place)
  );
END $$;
