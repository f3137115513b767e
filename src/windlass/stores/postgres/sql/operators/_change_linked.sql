-- Change these jobs, which `_unbatch` has locked, where some belong to chains, wait for some, or have their
-- ends posted. `_tenants` and `_queues` are the queues that go on. Nothing is changed where one may not be brought back.
CREATE OR REPLACE FUNCTION {schema}._change_linked(
  _ids bigint[], _edit {schema}._edit, _at timestamptz, _tenants text[], _queues text[]
) RETURNS SETOF {schema}.job LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  changed {schema}.job[];
  ending {schema}._jobs[];
  over bigint[];
  back bigint[];
BEGIN
  IF _edit.kind = 'reschedule' AND _edit.attempts IS NOT NULL THEN
    PERFORM {schema}._check_retry(_ids, '{}');
  END IF;
  ending := ARRAY(
    SELECT k FROM {schema}._jobs AS k
    WHERE k.id = ANY (_ids) AND {schema}._is_open(k, NULL)
      AND (_edit.kind = 'complete' OR k.state <> 'failed')
  );
  over := ARRAY(SELECT k.id FROM {schema}._jobs AS k WHERE k.id = ANY (_ids) AND k.state = 'failed');
  changed := ARRAY(SELECT c FROM {schema}._change_open(_ids, _edit, _at, NULL, NULL) AS c);
  IF _edit.kind = 'complete' THEN
    PERFORM {schema}._post_ends(array_agg(k), NULL, 'completed', _at)
    FROM unnest(ending) AS k WHERE {told k} HAVING count(*) > 0;
    PERFORM {schema}._drop_blockers(array_agg(k.id)) FROM unnest(ending) AS k
    WHERE k.blockers_total IS NOT NULL AND ({schema}._span(k.keep) > 0) IS NOT TRUE;
    PERFORM pg_notify({channel}, '') WHERE {schema}._ended(
      ARRAY(SELECT k.id FROM unnest(ending) AS k), _tenants, _queues,
      ARRAY(SELECT {schema}._end_of_chain(k, 'completed', NULL, NULL) FROM unnest(ending) AS k
            WHERE k.chain IS NOT NULL),
      _at);
    RETURN QUERY SELECT c.* FROM unnest(changed) AS c;
    RETURN;
  END IF;
  PERFORM {schema}._post_ends(array_agg(k), NULL, NULL, _at)
  FROM unnest(ending) AS e JOIN {schema}._jobs AS k ON k.id = e.id AND k.state = 'failed'
  WHERE {told e} HAVING count(*) > 0;
  PERFORM pg_notify({channel}, '') WHERE {schema}._ended(
    ARRAY(SELECT k.id FROM {schema}._jobs AS k WHERE k.id = ANY (_ids) AND k.state = 'failed'),
    _tenants, _queues,
    ARRAY(SELECT {schema}._end_of_chain(k, k.state, NULL, NULL)
          FROM unnest(ending) AS e JOIN {schema}._jobs AS k ON k.id = e.id
          WHERE k.chain IS NOT NULL AND k.state = 'failed'),
    _at);
  back := ARRAY(
    SELECT k.id FROM {schema}._jobs AS k WHERE k.id = ANY (over) AND k.state <> 'failed'
  );
  IF back <> '{}' THEN
    PERFORM {schema}._bring_back(back, _at);
  END IF;
  RETURN QUERY
  SELECT ({schema}._public(k, NULL)).* FROM unnest(changed) AS c
  JOIN {schema}._jobs AS k ON k.id = c.id;
END $$;
