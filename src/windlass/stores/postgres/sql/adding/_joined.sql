-- What a key's payload becomes: two arrays are joined, anything else gives way to the new one.
CREATE OR REPLACE FUNCTION {schema}._joined(old json, new json) RETURNS json LANGUAGE sql IMMUTABLE
RETURN CASE
  WHEN json_typeof(old) <> 'array' OR json_typeof(new) <> 'array' THEN new
  WHEN json_array_length(old) = 0 THEN new
  WHEN json_array_length(new) = 0 THEN old
  ELSE (left(rtrim(old::text, E' \t\n\r'), -1) || ','
    || substr(ltrim(new::text, E' \t\n\r'), 2))::json
END;
