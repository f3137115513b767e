-- Three lists whose entries belong to these places, as lists of `_count` entries with each at its place.
CREATE OR REPLACE FUNCTION {schema}._at_places(
  _count integer, _places bigint[], _ids bigint[], _chains bigint[], _steps integer[],
  OUT ids bigint[], OUT chains bigint[], OUT steps integer[]
) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  ids := array_fill(NULL::bigint, ARRAY[_count]);
  chains := ids;
  steps := array_fill(NULL::integer, ARRAY[_count]);
  FOR n IN 1 .. cardinality(_places) LOOP
    ids[_places[n]] := _ids[n];
    chains[_places[n]] := _chains[n];
    steps[_places[n]] := _steps[n];
  END LOOP;
END $$;
