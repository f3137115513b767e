-- These chains, each with its current job, or its last one where that is kept: a JSON array of pairs,
-- in the order given. Unknown ids are passed over.
CREATE OR REPLACE FUNCTION {schema}._show_chains(_ids bigint[]) RETURNS text
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
  RETURN (
    SELECT '[' || string_agg(
      '[' || {schema}._chain_text(c) || ',' || coalesce(
        (SELECT {schema}._row(
           t, (SELECT w.name FROM {schema}._workers AS w WHERE w.id = t.worker))::text
         FROM {schema}._jobs AS j
         CROSS JOIN LATERAL {schema}._as_seen(j) AS t
         WHERE j.chain = c.id ORDER BY j.step DESC LIMIT 1),
        (SELECT {schema}._history_row(h)::text FROM {schema}._history AS h
         WHERE h.chain = c.id AND c.state = 'completed' AND h.step = c.length - 1 LIMIT 1),
        'null'
      ) || ']', ',' ORDER BY x.place) || ']'
    FROM unnest(_ids) WITH ORDINALITY AS x (id, place)
    JOIN {schema}._chains AS c ON c.id = x.id
  );
END $$;
