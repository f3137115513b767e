-- Change when and how jobs that do not run are run; NULL leaves a value as it is.
CREATE OR REPLACE FUNCTION {schema}.reschedule_jobs(
  job_ids bigint[],
  run_at timestamptz DEFAULT NULL,
  priority integer DEFAULT NULL,
  attempts integer DEFAULT NULL,
  max_attempts integer DEFAULT NULL
) RETURNS SETOF {schema}.job LANGUAGE plpgsql AS $$
BEGIN
  IF max_attempts < 1 THEN
    RAISE EXCEPTION 'Job maximum attempts must be at least 1, not %', max_attempts
      USING ERRCODE = 'GWBMA';
  END IF;
  RETURN QUERY SELECT c.* FROM {schema}._change(
    {schema}._of_tenant(job_ids, nullif({schema}._own_tenant(), '')),
    ROW('reschedule', NULL, {schema}._finite(run_at), priority, attempts, max_attempts)
      ::{schema}._edit,
    statement_timestamp()
  ) AS c;
END $$;
