"""What keeps tenants, pauses and held queues apart."""

from __future__ import annotations

from tests.mutation.mutation import SQL, SQLITE, Mutation, on_memory, on_postgres, on_sqlite

_AT_ONCE = "tests/postgres/test_tenants_at_once.py"
_THEIRS = "tenants.a_worker_of_some_tenants_takes_only_theirs"

OF_TENANTS = (
    Mutation(
        "tenant-memory",
        "In memory, a worker of some tenants takes only their jobs.",
        "src/windlass/stores/memory.py",
        "and (request.tenants is None or row.tenant in request.tenants)",
        "and (request.tenants is None or row.tenant is not None)",
        (on_memory(f"{_THEIRS}[acme]"),),
    ),
    Mutation(
        "tenant-sqlite",
        "On SQLite, a worker of one tenant takes only its jobs.",
        f"{SQLITE}/statements.py",
        "tenant <> '' AND tenant = :tenant0 AND task",
        "tenant <> '' AND :tenant0 = :tenant0 AND task",
        (on_sqlite(f"{_THEIRS}[acme]"),),
    ),
    Mutation(
        "tenant-postgres",
        "On PostgreSQL, a worker of one tenant takes only its jobs.",
        f"{SQL}/claiming/_pick_n.sql",
        "           AND j.tenant = _tenants[{i}] AND j.task = _tasks[{i}]\n",
        "           AND j.task = _tasks[{i}]\n",
        (on_postgres(f"{_THEIRS}[acme]"),),
    ),
    Mutation(
        "tenant-postgres-default",
        "On PostgreSQL, a worker of another tenant takes nothing of the default one.",
        f"{SQL}/claiming/_pick_n.sql",
        "           AND coalesce(_tenants[{i}], '') = ''\n",
        "",
        (on_postgres(f"{_THEIRS}[acme]"),),
    ),
    Mutation(
        "park",
        "A claim for all tenants leaves jobs whose task is paused for their tenant.",
        f"{SQL}/claiming/_park.sql",
        "  IF met IS NULL THEN\n    RETURN;\n",
        "  IF true THEN\n    left_over := _picked;\n    RETURN;\n",
        (
            f"{_AT_ONCE}::test_no_job_of_a_paused_task_starts_however_many_there_are",
            on_postgres("tenants.a_paused_task_of_one_tenant_is_not_given[all]"),
        ),
    ),
    Mutation(
        "park-latch",
        "A claim parks jobs behind the latch: a resume waits for it, and sees them.",
        f"{SQL}/claiming/_park.sql",
        "IF NOT pg_try_advisory_xact_lock({latch}) THEN",
        "IF false THEN",
        (f"{_AT_ONCE}::test_a_resume_that_waits_for_a_claim_sees_what_it_has_parked",),
    ),
    Mutation(
        "park-ring",
        "Where a parked job was the head of a queue, the jobs behind it are looked at.",
        f"{SQL}/claiming/_park.sql",
        "  PERFORM {schema}._ring(tenants, queues);\n",
        "",
        (f"{_AT_ONCE}::test_behind_a_parked_head_others_run",),
    ),
    Mutation(
        "park-batch",
        "A claim parks no job that a worker has in a batch, though its row looks ready.",
        f"{SQL}/claiming/_park.sql",
        "{undelivered j} AND EXISTS (SELECT FROM {schema}._batches AS b WHERE b.ids @> j.id)",
        "false",
        (f"{_AT_ONCE}::test_jobs_that_a_worker_has_in_a_batch_are_not_parked",),
    ),
    Mutation(
        "park-sqlite",
        "On SQLite, a claim for all tenants gives no job whose task is paused for its tenant.",
        f"{SQLITE}/claim.py",
        'return db.run("park_jobs", {"ids": ids, "most": _MOST_PARKED}) > 0',
        "return False",
        (on_sqlite("tenants.a_paused_task_of_one_tenant_is_not_given[all]"),),
    ),
    Mutation(
        "keep-back",
        "A job that was ready before an operator held its queue does not start.",
        f"{SQL}/queues/_keep_back.sql",
        "  IF kept = '{}' THEN\n",
        "  IF true THEN\n",
        (f"{_AT_ONCE}::test_a_job_that_was_locked_when_its_queue_was_held_does_not_start",),
    ),
    Mutation(
        "keep-back-holder",
        "The job that holds a queue may start itself.",
        f"{SQL}/queues/_keep_back.sql",
        " AND NOT j.holds AND EXISTS",
        " AND EXISTS",
        (f"{_AT_ONCE}::test_a_hold_keeps_back_its_own_queue_of_its_own_tenant_alone",),
    ),
    Mutation(
        "keep-back-tenant",
        "A queue that is held keeps back no queue of that name of another tenant.",
        f"{SQL}/queues/_keep_back.sql",
        "k.queue = j.queue AND k.tenant = j.tenant",
        "k.queue = j.queue",
        (f"{_AT_ONCE}::test_a_hold_keeps_back_its_own_queue_of_its_own_tenant_alone",),
    ),
)
