"""The protections that are taken out, one at a time."""

from __future__ import annotations

from tests.mutation.chain_mutations import OF_CHAINS
from tests.mutation.mutation import (
    ENGINE,
    SQL,
    SQLITE,
    TABLES,
    Mutation,
    on_memory,
    on_postgres,
    on_sqlite,
)
from tests.mutation.tenant_mutations import OF_TENANTS

MUTATIONS = (
    # ── the token ──
    Mutation(
        "token-memory",
        "In memory, a settle counts only with the token of the delivery that runs.",
        "src/windlass/stores/memory.py",
        "row.state is not JobState.RUNNING or row.token != lease.token:",
        "row.state is not JobState.RUNNING:",
        (
            on_memory("settle.a_wrong_token_is_lost[complete]"),
            on_memory("settle.an_old_delivery_cannot_end_the_new_one"),
            on_memory("leases.lost_to_another_worker[check]"),
        ),
    ),
    Mutation(
        "token-sqlite-complete",
        "On SQLite, the quick DELETE of completed jobs compares the token.",
        f"{SQLITE}/sql/delete_completed.sql",
        " AND token = :base + id",
        " AND :base = :base",
        (on_sqlite("settle.a_wrong_token_is_lost[complete]"),),
    ),
    Mutation(
        "token-sqlite-many",
        "On SQLite, the DELETE of completed jobs of many claims compares the tokens.",
        f"{SQLITE}/sql/delete_completed_pairs.sql",
        "WHERE j.token = p.value ->> 1 AND j.state",
        "WHERE j.state",
        (on_sqlite("settle.old_deliveries_of_many_claims_end_nothing"),),
    ),
    Mutation(
        "token-sqlite-others",
        "On SQLite, every other outcome compares the token too.",
        f"{SQLITE}/settle.py",
        " and row.token == lease.token:",
        ":",
        (
            on_sqlite("settle.a_wrong_token_is_lost[fail_for_good]"),
            on_sqlite("settle.an_old_delivery_cannot_end_the_new_one"),
        ),
    ),
    Mutation(
        "token-postgres",
        "On PostgreSQL, a token owns a running job only if it is the one in its row.",
        f"{SQL}/batches/_is_owned_in.sql",
        "(j).state = 'running' AND (j).token = _token\n",
        "(j).state = 'running'\n",
        (
            on_postgres("settle.a_wrong_token_is_lost[complete]"),
            on_postgres("settle.a_wrong_token_is_lost[complete_kept]"),
        ),
    ),
    Mutation(
        "token-postgres-complete",
        "On PostgreSQL, the DELETE of completed jobs asks whether the token owns each.",
        f"{SQL}/settling/_settle.sql",
        "USING unnest(ids, tokens) AS x (id, token)\n"
        "      WHERE k.id BETWEEN x.id AND x.id AND {schema}._is_owned_in(k, x.token, bases)\n",
        "USING unnest(ids, tokens) AS x (id, token)\n      WHERE k.id BETWEEN x.id AND x.id\n",
        (on_postgres("settle.a_wrong_token_is_lost[complete]"),),
    ),
    Mutation(
        "token-postgres-kept",
        "So does the DELETE of completed jobs that are kept.",
        f"{SQL}/settling/_settle.sql",
        "AS x (id, token, output, keep)\n"
        "      WHERE k.id BETWEEN x.id AND x.id AND {schema}._is_owned_in(k, x.token, bases)\n",
        "AS x (id, token, output, keep)\n      WHERE k.id BETWEEN x.id AND x.id\n",
        (on_postgres("settle.a_wrong_token_is_lost[complete_kept]"),),
    ),
    Mutation(
        "token-postgres-others",
        "On PostgreSQL, every other outcome compares the token too.",
        f"{SQL}/settling/_settle.sql",
        "WHERE k.id = other.id AND k.token = other.token AND k.state = 'running'",
        "WHERE k.id = other.id AND k.state = 'running'",
        (
            on_postgres("settle.a_wrong_token_is_lost[fail_for_good]"),
            on_postgres("settle.an_old_delivery_cannot_end_the_new_one"),
        ),
    ),
    Mutation(
        "token-postgres-batch",
        "On PostgreSQL, a token owns a job of a batch only if it is of the claim that wrote it.",
        f"{SQL}/batches/_is_owned_in.sql",
        " AND _token - (j).id = ANY (_bases);",
        ";",
        (
            "tests/postgres/test_postgres_contract.py"
            "::test_contract_with_every_claim_a_batch[settle.a_wrong_token_is_lost[complete]]",
        ),
    ),
    # ── the engine ──
    Mutation(
        "keeper-delivery",
        "An answer about leases stops only the deliveries that were asked about.",
        f"{ENGINE}/keeper.py",
        "for delivery in asked:\n            job_id",
        "for delivery in list(self._in_hand.values()):\n            job_id",
        (
            "tests/engine/test_engine_deliveries.py"
            "::test_an_answer_is_about_the_delivery_that_was_asked_about[taken-check]",
        ),
    ),
    Mutation(
        "self-fencing",
        "A worker that cannot renew stops its handlers.",
        f"{ENGINE}/keeper.py",
        "        if now < self._fence_at:\n            return\n",
        "        return\n",
        (
            "tests/engine/test_engine_leases.py"
            "::test_a_worker_that_cannot_renew_stops_before_its_lease_ends",
        ),
    ),
    Mutation(
        "fence-margin",
        "It stops them before the lease ends, not when it ends.",
        f"{ENGINE}/keeper.py",
        "self._margin = min(lease / 5, 5.0)",
        "self._margin = 0.0",
        (
            "tests/engine/test_engine_leases.py"
            "::test_a_worker_that_cannot_renew_stops_before_its_lease_ends",
        ),
    ),
    Mutation(
        "commit-flag",
        "From the start of a handler's commit on the job counts as settled inside.",
        f"{ENGINE}/delivery.py",
        "            self.settled_inside = True\n",
        "            pass\n",
        ("tests/engine/test_engine_commits.py::test_the_code_after_a_commit_runs[cancel-async]",),
    ),
    Mutation(
        "commit-cancel",
        "A handler is not cancelled from the start of its commit on.",
        f"{ENGINE}/delivery.py",
        "not self.is_over and not self.settled_inside:",
        "not self.is_over:",
        ("tests/engine/test_engine_commits.py::test_the_code_after_a_commit_runs[cancel-async]",),
    ),
    Mutation(
        "commit-lost",
        "A handler is not told that its lease is lost once its commit has begun.",
        f"{ENGINE}/delivery.py",
        "if self.settled_inside and reason in LOST:",
        "if False:",
        ("tests/engine/test_engine_commits.py::test_the_code_after_a_commit_runs[check-async]",),
    ),
    Mutation(
        "thread-outlasted",
        "A job whose handler was told to stop is settled when its thread has ended.",
        f"{ENGINE}/slots.py",
        "            await self._outlast(delivery.remains, delivery)\n",
        "            pass\n",
        (
            "tests/engine/test_engine_deliveries.py::test_a_job_is_settled_when_its_thread_has_ended[timeout]",
        ),
    ),
    Mutation(
        "accused-alone",
        "Jobs that were there when two workers died run one at a time in a worker.",
        f"{ENGINE}/slots.py",
        "if self.accused is not None:\n                        delivery.is_over",
        "if False:\n                        delivery.is_over",
        (
            "tests/engine/test_engine_suspects.py"
            "::test_jobs_that_were_there_when_two_workers_died_run_one_at_a_time[2-5]",
        ),
    ),
    Mutation(
        "poll",
        "A worker that hears of nothing looks for jobs all the same.",
        f"{ENGINE}/claimer.py",
        "return min(self._poll_interval, self._until_old() or self._poll_interval)",
        "return self._until_old()",
        ("tests/engine/test_engine_timing.py::test_without_hints_the_poll_finds_jobs",),
    ),
    # ── schedules ──
    Mutation(
        "firing-memory",
        "In memory, a schedule is fired only from where its worker expects it.",
        "src/windlass/stores/memory.py",
        "if known.floor_at != expected or until <= expected:",
        "if until <= expected:",
        (
            on_memory("schedules_fire.a_second_time_is_lost"),
            on_memory("schedules_at_once.an_instant_is_fired_by_one"),
        ),
    ),
    Mutation(
        "firing-sqlite",
        "On SQLite, a schedule is fired only from where its worker expects it.",
        f"{SQLITE}/sql/fire_schedule.sql",
        " AND floor_at = :expected AND",
        " AND :expected = :expected AND",
        (on_sqlite("schedules_fire.expected_elsewhere_it_is_lost[earlier]"),),
    ),
    Mutation(
        "firing-postgres",
        "On PostgreSQL, a schedule is fired only from where its worker expects it.",
        f"{SQL}/schedules/_fire.sql",
        "WHEN s.floor_at <> _expected OR _until <= s.floor_at THEN",
        "WHEN _until <= s.floor_at THEN",
        (on_postgres("schedules_fire.expected_elsewhere_it_is_lost[earlier]"),),
    ),
    # ── SQLite ──
    Mutation(
        "file-write",
        "A commit counts only if the path still names the file that was written.",
        f"{SQLITE}/writer.py",
        "self._file.require()  # else",
        "pass  # else",
        (
            "tests/sqlite/test_sqlite_file_gone.py::test_a_file_that_goes_in_the_middle_of_a_commit",
            "tests/sqlite/test_sqlite_file_gone.py"
            "::test_what_is_acknowledged_is_in_the_file_that_is_there",
        ),
    ),
    Mutation(
        "file-transaction",
        "The same goes for a handler's own transaction.",
        f"{SQLITE}/transaction.py",
        "        raise translate(error, path) from error\n    anchor.require()\n",
        "        raise translate(error, path) from error\n",
        (
            "tests/sqlite/test_sqlite_file_gone.py"
            "::test_a_handlers_writes_into_a_file_that_is_gone_are_an_error",
        ),
    ),
    Mutation(
        "file-renewal",
        "The same goes for the renewal of a lease.",
        f"{SQLITE}/lifeline.py",
        'db.control("COMMIT")\n            self._anchor.require()\n',
        'db.control("COMMIT")\n',
        (
            "tests/sqlite/test_sqlite_file_gone.py"
            "::test_a_file_that_goes_in_the_middle_of_a_renewal",
        ),
    ),
    Mutation(
        "clamp-sqlite-worker",
        "On SQLite, no worker's lease ends later than its length from now.",
        f"{SQLITE}/sql/clamp_workers.sql",
        "WHERE expires_at > :ticks + lease",
        "WHERE expires_at > :ticks + lease AND false",
        ("tests/sqlite/test_sqlite_leases.py::test_jobs_come_back_after_a_reboot",),
    ),
    Mutation(
        "clamp-sqlite-job",
        "On SQLite, no job's own lease ends later than its length from now.",
        f"{SQLITE}/sql/clamp_leases.sql",
        "AND lease_until > :ticks + own_lease\n",
        "AND lease_until > :ticks + own_lease AND false\n",
        ("tests/sqlite/test_sqlite_leases.py::test_jobs_come_back_after_a_reboot",),
    ),
    Mutation(
        "clock-sqlite",
        "On SQLite, leases are counted on a clock that cannot be set.",
        f"{SQLITE}/lease_clock.py",
        "return micros(clock.monotonic())",
        "return clock.now()",
        (
            "tests/sqlite/test_sqlite_leases.py"
            "::test_a_jump_of_the_wall_clock_resets_no_job_of_a_live_worker",
            on_sqlite("clock_jumps.a_live_worker_keeps_its_jobs[forward-same]"),
        ),
    ),
    # ── leases on PostgreSQL ──
    Mutation(
        "clamp-postgres-worker",
        "On PostgreSQL, no worker's lease ends later than its length from now.",
        f"{SQL}/leases/_reap.sql",
        "IF at > _reckoned - interval '250 ms' AND EXISTS (",
        "IF false AND EXISTS (",
        (
            "tests/postgres/test_postgres_leases.py"
            "::test_a_machine_that_did_not_see_the_clock_set_back_cuts_what_ends_too_late",
        ),
    ),
    Mutation(
        "clamp-postgres-job",
        "On PostgreSQL, no job's own lease ends later than its length from now.",
        f"{SQL}/leases/_reap.sql",
        "AND k.lease_until > at + make_interval(secs => k.lease)\n",
        "AND k.lease_until > at + make_interval(secs => k.lease) AND false\n",
        (
            "tests/postgres/test_postgres_leases.py"
            "::test_a_lease_of_a_jobs_own_that_ends_too_late_is_cut_where_its_worker_is_dead",
        ),
    ),
    Mutation(
        "clock-postgres",
        "On PostgreSQL, a lease has ended only if it has by the reaper's own reckoning too.",
        f"{SQL}/leases/_reap.sql",
        "passed timestamptz := least(at, _reckoned);",
        "passed timestamptz := at;",
        (on_postgres("clock_jumps.a_live_worker_keeps_its_jobs[forward-same]"),),
    ),
    Mutation(
        "worker-row",
        "A claim and those who end its worker see each other: the claim locks the worker's row.",
        f"{SQL}/claiming/_lock_worker.sql",
        "  FOR KEY SHARE SKIP LOCKED;\n",
        "  ;\n",
        (
            "tests/postgres/test_postgres_leases.py::test_unlocking_a_worker_that_is_just_claiming",
            "tests/postgres/test_postgres_leases.py"
            "::test_a_claim_of_a_worker_that_is_just_being_unlocked",
        ),
    ),
    Mutation(
        "claim-refused",
        "A claim that its worker has given up does not happen any more.",
        f"{SQL}/claiming/_lock_worker.sql",
        "WHERE w.id = _number AND (w.refused IS NULL OR _base <> ALL (w.refused))",
        "WHERE w.id = _number",
        (
            "tests/postgres/test_postgres_leases.py"
            "::test_a_claim_that_was_given_up_cannot_happen_any_more",
        ),
    ),
    Mutation(
        "claim-waited-for",
        "Who asks what became of a claim waits for one that is just writing.",
        f"{SQL}/claiming/_claimed.sql",
        "  PERFORM FROM {schema}._workers AS w WHERE w.id = number FOR UPDATE;\n",
        "",
        (
            "tests/postgres/test_postgres_leases.py"
            "::test_a_claim_that_was_given_up_and_happens_all_the_same_is_waited_for",
        ),
    ),
    # ── locks on PostgreSQL ──
    Mutation(
        "order-operators",
        "Operators lock the jobs they name in one order, whatever order they name them in.",
        f"{SQL}/batches/_unbatch.sql",
        "    ORDER BY k.key NULLS FIRST, k.tenant, k.id FOR NO KEY UPDATE\n  ) AS l;",
        "    ORDER BY array_position(_ids, k.id) FOR NO KEY UPDATE\n  ) AS l;",
        ("tests/postgres/test_lock_order.py::test_operators_who_name_jobs_in_opposite_orders",),
    ),
    Mutation(
        "order-retry",
        "So does a retry of jobs that have ended.",
        f"{SQL}/operators/_retry_jobs.sql",
        "    ORDER BY k.key NULLS FIRST, k.tenant, k.id FOR NO KEY UPDATE\n  LOOP\n",
        "    ORDER BY array_position(_ids, k.id) FOR NO KEY UPDATE\n  LOOP\n",
        ("tests/postgres/test_lock_order.py::test_retries_of_jobs_in_opposite_orders",),
    ),
    Mutation(
        "order-keys",
        "Keyed jobs that are added together are locked in the order of their keys.",
        f"{SQL}/adding/_write_n.sql",
        "    ORDER BY g.key NULLS FIRST, g.tenant, g.place\n",
        "    ORDER BY g.place\n",
        ("tests/postgres/test_lock_order.py::test_keys_that_are_added_in_opposite_orders",),
    ),
    Mutation(
        "order-schedules",
        "Schedules that a worker tells of are locked in the order of their identifiers.",
        f"{SQL}/schedules/_register_schedules.sql",
        "AS x (pair) ORDER BY x.pair ->> 0\n",
        "AS x (pair)\n",
        ("tests/postgres/test_lock_order.py::test_schedules_that_are_told_of_in_opposite_orders",),
    ),
    Mutation(
        "skip-settle",
        "A job that an open transaction holds keeps no other outcome from being written.",
        f"{SQL}/settling/_settle.sql",
        "ORDER BY x.id FOR UPDATE OF k SKIP LOCKED\n    ) AS l;",
        "ORDER BY x.id FOR UPDATE OF k\n    ) AS l;",
        ("tests/postgres/test_batches.py::test_an_open_transaction_that_cancelled_one_of_a_batch",),
    ),
    Mutation(
        "skip-settle-others",
        "The same goes for outcomes that are written one by one.",
        f"{SQL}/settling/_settle.sql",
        "AND k.state = 'running'\n    FOR UPDATE SKIP LOCKED;",
        "AND k.state = 'running'\n    FOR UPDATE;",
        ("tests/postgres/test_lock_order.py::test_a_held_job_keeps_no_other_from_failing",),
    ),
    Mutation(
        "skip-reap",
        "A job that an open transaction holds keeps no other from being taken back.",
        f"{SQL}/leases/_reap.sql",
        "ORDER BY j.id LIMIT _limit FOR UPDATE SKIP LOCKED\n  ) AS r;",
        "ORDER BY j.id LIMIT _limit FOR UPDATE\n  ) AS r;",
        ("tests/postgres/test_lock_order.py::test_a_held_job_keeps_no_other_from_the_reaper",),
    ),
    Mutation(
        "handler-waits",
        "A lock of the server's own, as while a table grows, does not undo a handler's work.",
        f"{SQL}/settling/_settle.sql",
        "  IF _waits THEN\n",
        "  IF false THEN\n",
        (
            "tests/postgres/test_handler_transactions.py::test_a_lock_of_the_servers_own_is_waited_for",
        ),
    ),
    # ── claims on PostgreSQL ──
    Mutation(
        "look-after-lock-claim",
        "A claim looks for batches once more after it has locked its jobs.",
        f"{SQL}/claiming/_pick.sql",
        "EXIT WHEN picked = '{}' OR NOT EXISTS (",
        "EXIT WHEN true OR NOT EXISTS (",
        (
            "tests/postgres/test_batches.py"
            "::test_a_claim_that_looked_before_another_had_written_its_batch[the same jobs]",
        ),
    ),
    Mutation(
        "look-after-lock-operator",
        "An operator looks for batches after the jobs are locked.",
        f"{SQL}/batches/_unbatch.sql",
        "    PERFORM {schema}._take_out(locked);\n",
        "",
        (
            "tests/postgres/test_batches.py::test_an_operator_and_a_job_of_a_batch",
            "tests/postgres/test_batches.py"
            "::test_an_operator_who_waits_while_a_scheduled_job_is_claimed",
        ),
    ),
    Mutation(
        "look-again",
        "An operator who changed jobs without locking them first looks for batches, and undoes it.",
        f"{SQL}/operators/_change_open.sql",
        "    PERFORM {schema}._look_again(_ids, _bases);\n",
        "    NULL;\n",
        (
            "tests/postgres/test_batches.py"
            "::test_an_operator_who_waits_while_a_scheduled_job_is_claimed",
        ),
    ),
    Mutation(
        "new-keys",
        "Keys that come while many are added are changed, and fail no call.",
        f"{SQL}/adding/_add_keyed.sql",
        "      EXCEPTION WHEN unique_violation THEN\n        NULL;  -- undone",
        "      EXCEPTION WHEN division_by_zero THEN\n        NULL;  -- undone",
        ("tests/postgres/test_lock_order.py::test_keys_that_come_while_they_are_added",),
    ),
    Mutation(
        "latch",
        "Claims choose the heads of serial queues one after the other, behind a latch.",
        f"{SQL}/queues/_admit.sql",
        "IF NOT pg_try_advisory_xact_lock({latch}) THEN\n    is_more := true;",
        "IF false THEN\n    is_more := true;",
        ("tests/postgres/test_heads.py::test_two_claims_at_once_choose_one_head[pg18]",),
    ),
    Mutation(
        "active-index",
        "The database itself refuses a second active job of a serial queue.",
        f"{TABLES}/0011_add_tenants.sql",
        "CREATE UNIQUE INDEX _jobs_active",
        "CREATE INDEX _jobs_active",
        (
            "tests/postgres/test_heads.py::test_the_database_refuses_a_second_active_job_of_a_queue[pg18-ready]",
        ),
    ),
    Mutation(
        "mark",
        "Where many dead entries lie before the first job, claims start after them.",
        "src/windlass/stores/postgres/marks.py",
        "return Start(dict(self._marks), self._bell)",
        "return Start({}, 0)",
        (
            "tests/unit/test_marks.py::test_a_crowded_start_is_passed_over",
            "tests/unit/test_marks.py::test_the_marks_move_on",
        ),
    ),
    Mutation(
        "mark-short",
        "A claim that comes short after its mark is followed by one from the very start.",
        "src/windlass/stores/postgres/marks.py",
        "self._expects_new = self._expects_new or len(leases) < request.limit",
        "pass",
        ("tests/unit/test_marks.py::test_something_new_or_a_short_claim_calls_for_a_look",),
    ),
    Mutation(
        "known-unresolved",
        "However many workers claim, one whose claim's answer was lost can still ask what it took.",
        "src/windlass/stores/postgres/known_workers.py",
        "return not worker.unresolved or idle > UNRESOLVED_FOR",
        "return True",
        (
            "tests/unit/test_known_workers.py::test_a_worker_with_a_lost_answer_is_kept_while_it_may_ask",
        ),
    ),
    # ── what may be stored, and who may interfere ──
    Mutation(
        "path-functions",
        "No function of the schema follows the caller's search path.",
        "src/windlass/stores/postgres/schema.py",
        "    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', made);\n",
        "    NULL;\n",
        (
            "tests/postgres/test_search_path.py"
            "::test_every_function_is_bound_when_made_or_has_a_fixed_search_path[pg18-by_the_program]",
        ),
    ),
    Mutation(
        "path-install",
        "Nothing that is made is bound to what another role has put into `public`.",
        "src/windlass/stores/postgres/schema.py",
        'SAFE_PATH = "SET LOCAL search_path = pg_catalog, pg_temp"',
        'SAFE_PATH = "SELECT 1"',
        (
            "tests/postgres/test_search_path.py"
            "::test_nothing_that_is_installed_refers_to_what_was_planted[by_the_program]",
        ),
    ),
    Mutation(
        "refuse-values",
        "SQL refuses what no job may have.",
        f"{SQL}/adding/_accepted.sql",
        ") IS NOT FALSE THEN task\n",
        ") IS NOT FALSE OR true THEN task\n",
        (
            "tests/postgres/test_hostile_input.py"
            "::test_a_value_that_no_job_may_have[pg18-a long task]",
        ),
    ),
    Mutation(
        "refuse-payloads",
        "SQL refuses payloads that no program can read.",
        f"{SQL}/adding/_sound.sql",
        "THEN {schema}._walked(payload)",
        "THEN payload",
        (
            "tests/postgres/test_hostile_input.py"
            "::test_a_payload_that_no_program_can_decode[pg18-a number too large]",
        ),
    ),
    # ── waking ──
    Mutation(
        "due-added",
        "Workers hear of a job that is added for soon.",
        f"{SQL}/adding/_add_job.sql",
        "new_state <> 'scheduled', new_state = 'scheduled' AND r.due <= _at + {soon});",
        "new_state <> 'scheduled', false);",
        (
            "tests/postgres/test_waking.py"
            "::test_jobs_to_come_notify_once_in_a_transaction_and_only_if_they_are_due_soon[pg18]",
        ),
    ),
    Mutation(
        "due-rescheduled",
        "Workers hear of a job that an operator moves to a time soon.",
        f"{SQL}/operators/_change_open.sql",
        "bool_or(k.state = 'scheduled' AND k.run_at <= _at + {soon})",
        "false",
        (
            "tests/postgres/test_waking.py"
            "::test_jobs_to_come_notify_once_in_a_transaction_and_only_if_they_are_due_soon[pg18]",
        ),
    ),
    Mutation(
        "due-retried",
        "Workers hear of a job that will be tried again soon.",
        f"{SQL}/settling/_end.sql",
        "ELSIF new_state = 'scheduled' AND due <= at + {soon} THEN",
        "ELSIF false THEN",
        ("tests/postgres/test_waking.py::test_a_retry_notifies_if_it_is_due_soon[pg18]",),
    ),
    *OF_TENANTS,
    *OF_CHAINS,
)
