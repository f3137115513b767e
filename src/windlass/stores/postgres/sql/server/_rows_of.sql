-- Those of these jobs that are there, as they are now: a JSON array of rows.
CREATE OR REPLACE FUNCTION {schema}._rows_of(_ids bigint[]) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT '[' || string_agg(x.row::text, ',') || ']' FROM (
      SELECT {schema}._row(s, w.name) AS row FROM {schema}._jobs AS j
      CROSS JOIN LATERAL {schema}._as_seen(j) AS s
      LEFT JOIN {schema}._workers AS w ON w.id = s.worker
      WHERE j.id = ANY (_ids)
      UNION ALL
      SELECT {schema}._history_row(h) FROM {schema}._history AS h WHERE h.id = ANY (_ids)
    ) AS x
  );
END $$;
