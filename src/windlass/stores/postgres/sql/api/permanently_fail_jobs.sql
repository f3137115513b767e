-- graphile-worker calls it `error_message`, and its page the reason: both names are understood.
CREATE OR REPLACE FUNCTION {schema}.permanently_fail_jobs(
  job_ids bigint[], error_message text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS SETOF {schema}.job LANGUAGE plpgsql AS $$
DECLARE
  told text := coalesce(error_message, reason, 'Manually marked as failed');
BEGIN
  RETURN QUERY SELECT c.* FROM {schema}._change(
    {schema}._of_tenant(job_ids, nullif({schema}._own_tenant(), '')),
    ROW('fail', told, NULL, NULL, NULL, NULL)::{schema}._edit,
    statement_timestamp()
  ) AS c;
END $$;
