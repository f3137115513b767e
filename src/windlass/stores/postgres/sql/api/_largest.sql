-- The largest payload that this session may send, in bytes.
CREATE OR REPLACE FUNCTION {schema}._largest() RETURNS bigint LANGUAGE sql STABLE
RETURN coalesce(nullif(current_setting('windlass.max_payload', true), '')::bigint, {max_payload});
