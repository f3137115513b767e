-- Jobs that do not run are completed without being run.
CREATE OR REPLACE FUNCTION {schema}.complete_jobs(job_ids bigint[]) RETURNS SETOF {schema}.job
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT c.* FROM {schema}._change(
    {schema}._of_tenant(job_ids, nullif({schema}._own_tenant(), '')),
    ROW('complete', NULL, NULL, NULL, NULL, NULL)::{schema}._edit,
    statement_timestamp()
  ) AS c;
END $$;
