"""What keeps chains from hanging, and their jobs from running twice."""

from __future__ import annotations

from tests.mutation.mutation import SQL, SQLITE, Mutation, on_postgres, on_sqlite

_CHAINS = f"{SQL}/chains"
_AT_ONCE = "tests/postgres/test_chains_at_once.py"

OF_CHAINS = (
    Mutation(
        "chain-token-sqlite",
        "On SQLite, a delivery that is not the job's last goes on with nothing.",
        f"{SQLITE}/sql/delete_continued.sql",
        " AND token = :base + id AND",
        " AND :base = :base AND",
        (on_sqlite("chains.a_late_answer_goes_on_with_nothing"),),
    ),
    Mutation(
        "chain-count-sqlite",
        "On SQLite, a job that waits for several chains is released by the last of them.",
        f"{SQLITE}/chained.py",
        "if job.blockers_open == job.completed]\n        if len",
        "if job.blockers_open >= job.completed]\n        if len",
        (on_sqlite("blockers.the_last_of_several_releases_it[012]"),),
    ),
    Mutation(
        "chain-token",
        "On PostgreSQL, a delivery goes on only if its token owns the job.",
        f"{_CHAINS}/_settle_linked.sql",
        "WHERE k.id BETWEEN x.id AND x.id AND {schema}._is_owned_in(k, x.token, bases)\n",
        "WHERE k.id BETWEEN x.id AND x.id\n",
        (on_postgres("chains.a_late_answer_goes_on_with_nothing"),),
    ),
    Mutation(
        "chain-busy-bell",
        "A job that another transaction has locked when its blocker ends gets a bell.",
        f"{_CHAINS}/_ring_locked.sql",
        "  WHERE NOT ours @> p.job AND {blocked j};\n",
        "  WHERE false;\n",
        (f"{_AT_ONCE}::test_two_ends_that_overlap[complete-commit]",),
    ),
    Mutation(
        "chain-start-bell",
        "A job that starts while its blocker ends, neither seeing the other, has rung a bell.",
        f"{_CHAINS}/_look_at_chains.sql",
        "AND {blocked j}\n  ));",
        "AND {blocked j} AND false\n  ));",
        (
            f"{_AT_ONCE}::test_a_start_and_an_end_that_do_not_see_each_other",
            f"{_AT_ONCE}::test_a_start_that_is_open_while_the_chain_ends[job-complete]",
        ),
    ),
    Mutation(
        "chain-share",
        "A claim that looks at a chain for a job sees whether it is just ending: it locks its row.",
        f"{_CHAINS}/_share.sql",
        "    ORDER BY c.id FOR SHARE SKIP LOCKED\n",
        "    ORDER BY c.id\n",
        (
            f"{_AT_ONCE}::test_a_start_and_an_end_that_do_not_see_each_other",
            f"{_AT_ONCE}::test_a_job_with_many_blockers_whose_ends_are_open",
        ),
    ),
    Mutation(
        "chain-on",
        "The end of a chain that very many jobs wait for goes on by a bell until all are told.",
        f"{_CHAINS}/_ring_on.sql",
        "  WHERE _most IS NULL OR f.count >= _most;\n",
        "  WHERE false;\n",
        (f"{_AT_ONCE}::test_the_end_of_a_chain_reaches_all_that_wait_for_it",),
    ),
    Mutation(
        "chain-once",
        "A chain that a job names twice is counted once.",
        f"{_CHAINS}/_hear.sql",
        "SELECT t.job, count(DISTINCT t.chain) AS met FROM turned",
        "SELECT t.job, count(*) AS met FROM turned",
        (on_postgres("blockers.a_chain_named_twice_counts_once"),),
    ),
    Mutation(
        "chain-isolation",
        "No chain ends in a transaction whose snapshot is older than its locks.",
        f"{SQL}/batches/_need_read_committed.sql",
        "NOT IN ('read committed', 'read uncommitted')",
        "IS NULL",
        (f"{_AT_ONCE}::test_ends_need_a_look_after_the_lock[repeatable read]",),
    ),
    Mutation(
        "chain-cancel",
        "What a job goes on with that was asked to stop is cancelled.",
        f"{_CHAINS}/_settle_linked.sql",
        "FILTER (WHERE d.goes_on AND d.cancel_requested)",
        "FILTER (WHERE false)",
        (on_postgres("chains.what_a_job_goes_on_with_after_a_cancel_is_cancelled"),),
    ),
    Mutation(
        "chain-window",
        "A window counts a chain that began and ended between the look and the write.",
        f"{_CHAINS}/_hold_key.sql",
        "  IF _window > 0 THEN\n",
        "  IF false THEN\n",
        (f"{_AT_ONCE}::test_a_window_counts_a_chain_that_began_and_ended_in_between",),
    ),
    Mutation(
        "chain-cycles",
        "Two chains that would wait for each other look for it one after the other.",
        f"{_CHAINS}/_refuse_links.sql",
        "IF NOT pg_try_advisory_xact_lock(hashtextextended(j.tenant, {knots})) THEN\n",
        "IF false THEN\n",
        (f"{_AT_ONCE}::test_two_chains_that_would_wait_for_each_other",),
    ),
    Mutation(
        "chain-answered",
        "A delivery whose answer was lost learns that it ended its chain, and no other does.",
        f"{SQL}/settling/_unsettled.sql",
        "WHERE c.id = _chain AND c.state = 'completed' AND c.ended_by = _token)",
        "WHERE c.id = _chain AND c.state = 'completed')",
        (on_postgres("chains.a_delivery_that_asks_again_learns_whether_it_ended_the_chain"),),
    ),
)
