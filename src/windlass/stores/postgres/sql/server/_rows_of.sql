-- These jobs as they are now, in the order given: a JSON array with a row for each, null where it is gone.
CREATE OR REPLACE FUNCTION {schema}._rows_of(_ids bigint[]) RETURNS json LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT json_agg(coalesce(
      (SELECT {schema}._row(s, w.name) FROM {schema}._jobs AS j
       CROSS JOIN LATERAL {schema}._as_seen(j) AS s
       LEFT JOIN {schema}._workers AS w ON w.id = s.worker
       WHERE j.id = i.id),
      (SELECT {schema}._history_row(h) FROM {schema}._history AS h WHERE h.id = i.id)
    ) ORDER BY i.place)
    FROM unnest(_ids) WITH ORDINALITY AS i (id, place)
  );
END $$;
