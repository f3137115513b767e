-- A payload that a program which reads it can represent, or an error. `_walked` walks over the value;
-- this calls it only where the text gives a reason: an escape, a number with
-- an exponent or many digits, and as many brackets as it takes to be deep. To look for many digits
-- costs more than all the rest, so it is not done where they have no room.
CREATE OR REPLACE FUNCTION {schema}._sound(payload json) RETURNS json LANGUAGE sql IMMUTABLE
RETURN CASE
  WHEN CASE
      WHEN octet_length(payload::text) < 25 THEN payload::text ~ '\\u|[0-9][eE][+]?[0-9]{2}'
      ELSE payload::text ~ '\\u|[0-9][eE][+]?[0-9]{2}|[0-9]{25}'
    END
    OR octet_length(payload::text) > 128
      AND 2 * octet_length(payload::text) - octet_length(replace(payload::text, '[', ''))
        - octet_length(replace(payload::text, '{', '')) > 64
    THEN {schema}._walked(payload)
  ELSE payload
END;
