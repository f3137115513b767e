-- New ids for the jobs of these groups, as `_add_links` says.
CREATE OR REPLACE FUNCTION {schema}._numbers_for(_starts json, _keyed json) RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
  RETURN ARRAY(
    SELECT nextval({sequence}) FROM generate_series(1, (
      SELECT sum(json_array_length(g.value -> 'payloads')) FROM (
        SELECT s.value FROM json_array_elements(_starts) AS s
        UNION ALL
        SELECT k.value FROM json_array_elements(_keyed) AS k
      ) AS g
    ))
  );
END $$;
