-- Of these pairs of jobs and chains, those whose jobs are among `_locked`. Of the others, jobs that are
-- blocked were locked by another transaction: a claim is to tell them.
CREATE OR REPLACE FUNCTION {schema}._ring_locked(
  _jobs bigint[], _chains bigint[], _locked bigint[], OUT jobs bigint[], OUT chains bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
  ours int8multirange := {schema}._spans(_locked);
BEGIN
  INSERT INTO {schema}._bells (tenant, job, chain, rung_at)
  SELECT j.tenant, j.id, p.chain, clock_timestamp()
  FROM (SELECT DISTINCT u.job, u.chain FROM unnest(_jobs, _chains) AS u (job, chain)) AS p
  JOIN {schema}._jobs AS j ON j.id BETWEEN p.job AND p.job
  WHERE NOT ours @> p.job AND {blocked j};
  IF FOUND THEN
    PERFORM pg_notify({channel}, '');
  END IF;
  SELECT array_agg(p.job), array_agg(p.chain) INTO jobs, chains
  FROM unnest(_jobs, _chains) AS p (job, chain) WHERE ours @> p.job;
END $$;
