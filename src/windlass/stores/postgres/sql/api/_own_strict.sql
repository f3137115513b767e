-- Whether jobs that this session adds are strict: the setting windlass.strict.
CREATE OR REPLACE FUNCTION {schema}._own_strict() RETURNS boolean LANGUAGE sql STABLE
RETURN coalesce(nullif(current_setting('windlass.strict', true), '')::boolean, false);
