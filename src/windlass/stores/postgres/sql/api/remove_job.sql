-- Delete the job of the transaction's tenant with that key, or null. One that runs loses its key and will not run again.
CREATE OR REPLACE FUNCTION {schema}.remove_job(job_key text) RETURNS {schema}.job LANGUAGE sql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN (
  SELECT {schema}._public(j, (SELECT w.name FROM {schema}._workers AS w WHERE w.id = j.worker))
  FROM {schema}._remove_job({schema}._own_tenant(), job_key) AS j
);
