-- Complete the current job of a chain of the transaction's tenant without a worker, and so the chain.
CREATE OR REPLACE FUNCTION {schema}.complete_chain(chain_id bigint, output json DEFAULT NULL)
RETURNS {schema}.chain LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM {schema}._complete_chain(
    chain_id, output, NULL, NULL, '{}', nullif({schema}._own_tenant(), ''));
  RETURN {schema}._shown_chain(chain_id);
END $$;
