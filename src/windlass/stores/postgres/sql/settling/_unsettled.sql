-- Why a delivery cannot be settled: as `_refusal` says; or 'ended' where it has completed its chain before,
-- and asks again because the answer did not arrive.
CREATE OR REPLACE FUNCTION {schema}._unsettled(_id bigint, _token bigint, _chain bigint) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN coalesce(
    (SELECT 'ended' FROM {schema}._chains AS c
     WHERE c.id = _chain AND c.state = 'completed' AND c.ended_by = _token),
    {schema}._refusal(_id, _token, _chain));
END $$;
