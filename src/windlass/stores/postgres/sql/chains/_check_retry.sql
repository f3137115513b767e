-- Refuse to bring back jobs that wait for a chain which has failed, and would fail at once; and jobs whose
-- chain cannot be open, because another has its key, or would have it. Chains among `_reopened` will be
-- open.
CREATE OR REPLACE FUNCTION {schema}._check_retry(_ids bigint[], _reopened bigint[]) RETURNS void
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
DECLARE
  j {schema}._jobs;
  failed bigint[];
  opened bigint[] := '{}';
  rival record;
BEGIN
  FOR j IN
    SELECT k.* FROM unnest(_ids) WITH ORDINALITY AS x (id, place)
    JOIN {schema}._jobs AS k ON k.id = x.id
    WHERE k.state IN ('failed', 'cancelled')
      AND (k.chain IS NOT NULL OR k.blockers_total IS NOT NULL)
    ORDER BY x.place
  LOOP
    IF coalesce(j.on_blocker_failure, 'fail') = 'fail' THEN
      failed := ARRAY(
        SELECT b.chain FROM {schema}._blockers AS b JOIN {schema}._chains AS c ON c.id = b.chain
        WHERE b.job = j.id AND b.state <> 'met' AND c.state IN ('failed', 'cancelled')
          AND c.id <> ALL (_reopened)
        GROUP BY b.chain ORDER BY min(b.place)
      );
      IF failed <> '{}' THEN
        RAISE EXCEPTION 'job % cannot be retried while chain %, which it waits for, has not completed; retry chain % first',
          j.id, failed[1], failed[1]
          USING ERRCODE = 'WLBRF', DETAIL = array_to_string(failed, ',');
      END IF;
    END IF;
    PERFORM {schema}._check_key(j.chain);
    SELECT r.id, r.key INTO rival FROM {schema}._chains AS c
    JOIN {schema}._chains AS r ON r.id = ANY (opened) AND r.key = c.key AND r.tenant = c.tenant
    WHERE c.id = j.chain AND c.id <> r.id;
    IF FOUND THEN
      RAISE EXCEPTION 'chains % and % cannot both be open again: they have the key ''%''; retry one of them',
        rival.id, j.chain, rival.key USING ERRCODE = 'WLCCL';
    END IF;
    opened := opened || j.chain;
  END LOOP;
END $$;
