-- Why a token owns no running job: the job is there (or in the history, or its chain is), or it is nowhere;
-- or the token still owns it, and an open transaction has locked its row.
CREATE OR REPLACE FUNCTION {schema}._refusal(
  _id bigint, _token bigint, _chain bigint DEFAULT NULL
) RETURNS text LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT coalesce(
    (SELECT CASE WHEN {schema}._is_owned(j, _token) THEN 'busy' ELSE 'lost' END
     FROM {schema}._jobs AS j WHERE j.id = _id),
    (SELECT 'lost' FROM {schema}._history AS h WHERE h.id = _id),
    (SELECT 'lost' FROM {schema}._chains AS c WHERE c.id = _chain),
    'missing');
END;
