-- A JSON list with one more entry, and without the oldest beyond `_most`.
CREATE OR REPLACE FUNCTION {schema}._appended(_list json, _entry json, _most integer) RETURNS json
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN (
    SELECT json_agg(l.entry ORDER BY l.place) FROM (
      SELECT e.entry, e.place FROM (
        SELECT o.entry, o.place
        FROM json_array_elements(_list) WITH ORDINALITY AS o (entry, place)
        UNION ALL SELECT _entry, 1000000000
      ) AS e ORDER BY e.place DESC LIMIT _most
    ) AS l
  );
END $$;
