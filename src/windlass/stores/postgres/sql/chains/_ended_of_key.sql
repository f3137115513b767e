-- The last chain of this key that ended, if that was within `_window` microseconds.
CREATE OR REPLACE FUNCTION {schema}._ended_of_key(
  _tenant text, _key text, _window bigint, _at timestamptz
) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  RETURN (
    SELECT l.id FROM (
      SELECT c.id, c.finished_at FROM {schema}._chains AS c
      WHERE c.key = _key AND c.tenant = _tenant AND c.key IS NOT NULL AND c.state <> 'open'
      ORDER BY c.finished_at DESC, c.id DESC LIMIT 1
    ) AS l WHERE l.finished_at + {schema}._window(_window) > _at
  );
END $$;
