"""What each verb needs, and what does it."""

from __future__ import annotations

from windlass.server.calls import changing, looking, working
from windlass.server.calls.desk import Rule
from windlass.server.identity import Power

_READ = (
    looking.describe,
    looking.subscribe,
    looking.now,
    looking.get,
    looking.get_by_key,
    looking.find,
    looking.counts,
    looking.workers,
    looking.paused,
    looking.schedules,
    looking.get_chain,
    looking.find_chains,
    looking.chain_jobs,
    looking.blocked_jobs,
    looking.blockers,
)
_ADD = (changing.enqueue, changing.start_chains)
_CLAIM = (
    working.claim,
    working.settle,
    working.note,
    working.expire,
    working.retire,
    working.introduce,
    working.stranded,
    changing.register,
    changing.fire,
)
_OPERATE = (
    changing.pause_schedule,
    changing.resume_schedule,
    changing.forget_schedule,
    changing.complete_chain,
    changing.cancel_chains,
    changing.retry_chains,
    changing.delete_chains,
    changing.remove,
    changing.pause,
    changing.resume,
    changing.delete_failed,
)
_OPERATE_JOBS = {
    "cancel": changing.cancel,
    "complete": changing.complete,
    "fail": changing.fail,
    "retry": changing.retry,
    "delete": changing.delete,
    "reschedule": changing.reschedule,
}
_ADMINISTER = (
    changing.unlock,
    changing.reap,
    changing.promote,
    changing.next_due,
    changing.prune,
)


def rules(renewals: working.Renewals) -> dict[str, Rule]:
    """Every verb of `wire.calls.VERBS`, by name."""
    table = {
        run.__name__: Rule(power, run)
        for power, verbs in (
            (Power.READ, _READ),
            (Power.ADD, _ADD),
            (Power.CLAIM, _CLAIM),
            (Power.OPERATE, _OPERATE),
            (Power.ADMINISTER, _ADMINISTER),
        )
        for run in verbs
    }
    table |= {name: Rule(Power.OPERATE, run) for name, run in _OPERATE_JOBS.items()}
    table["renew"] = Rule(Power.CLAIM, renewals.renew)
    table["check"] = Rule(Power.CLAIM, renewals.check)
    return table
