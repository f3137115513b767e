-- The task of a job that is added by SQL; one of Windlass's own tasks is refused.
CREATE OR REPLACE FUNCTION {schema}._unreserved(identifier text) RETURNS text LANGUAGE sql STABLE
RETURN CASE
  WHEN {reserved identifier} THEN {schema}._refuse_reserved(identifier) ELSE identifier
END;
