-- A running job's failed attempts with one more, [attempt, instant, worker, error], and without the
-- oldest beyond {max_errors}.
CREATE OR REPLACE FUNCTION {schema}._with_error(
  j {schema}._jobs, _error text, _at timestamptz
) RETURNS json LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT json_agg(l.entry ORDER BY l.place) FROM (
    SELECT e.entry, e.place FROM (
      SELECT o.entry, o.place FROM json_array_elements((j).errors) WITH ORDINALITY AS o (entry, place)
      UNION ALL
      SELECT json_build_array(
        (j).attempts, {schema}._micros(_at),
        (SELECT w.name FROM {schema}._workers AS w WHERE w.id = (j).worker),
        left(_error, {max_error_text})), 1000000000
    ) AS e ORDER BY e.place DESC LIMIT {max_errors}
  ) AS l;
END;
