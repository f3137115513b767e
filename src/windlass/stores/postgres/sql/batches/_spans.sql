-- A set of ids. Those that follow one another take no more room than one, and whether one is among
-- them is a matter of a few comparisons.
CREATE OR REPLACE FUNCTION {schema}._spans(_ids bigint[]) RETURNS int8multirange
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT coalesce(range_agg(int8range(i, i, '[]')), '{}') FROM unnest(_ids) AS i);
