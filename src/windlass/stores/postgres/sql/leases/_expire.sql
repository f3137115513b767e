-- Take single deliveries back as `_reap` does those of dead workers, each if and only if its token owns
-- the job. The state or the refusal of each, in their order.
CREATE OR REPLACE FUNCTION {schema}._expire(
  _ids bigint[], _tokens bigint[], _chains bigint[], _max_resets integer, _now timestamptz DEFAULT NULL
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
  at timestamptz := coalesce(_now, statement_timestamp());
  doomed bigint[];
  states jsonb;
BEGIN
  PERFORM {schema}._need_read_committed();
  PERFORM {schema}._unbatch_owned(_ids, _tokens);
  SELECT array_agg(l.id) INTO doomed FROM (
    SELECT k.id FROM unnest(_ids, _tokens) AS x (id, token)
    JOIN {schema}._jobs AS k ON k.id = x.id AND k.state = 'running' AND k.token = x.token
    ORDER BY k.id FOR UPDATE OF k SKIP LOCKED
  ) AS l;
  SELECT coalesce(jsonb_object_agg(t.id::text, t.state::text), '{}') INTO states
  FROM {schema}._take_back(doomed, _max_resets, at) AS t;
  RETURN (
    SELECT json_agg(coalesce(
      CASE WHEN y.is_first THEN states ->> y.id::text END, {schema}._refusal(y.id, y.token, y.chain)
    ) ORDER BY y.place)
    FROM (
      SELECT x.*, row_number() OVER (PARTITION BY x.id ORDER BY x.place) = 1 AS is_first
      FROM unnest(_ids, _tokens, _chains) WITH ORDINALITY AS x (id, token, chain, place)
    ) AS y
  );
END $$;
