"""What jobs name that are about to be added: whether the chains are there, and how far they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from windlass.errors import ChainNotFoundError
from windlass.model.chain import ChainState
from windlass.model.job import JobState
from windlass.store import rules
from windlass.store.records import NewJob, Row
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import json_text

_states = msgspec.json.Decoder(list[tuple[int, ChainState, str]]).decode
_WAITED_FOR = (ChainState.OPEN, ChainState.COMPLETED)


def met_chains(db: Session, jobs: Sequence[NewJob]) -> set[int] | None:
    """Of the chains that these jobs name, those that have completed; None where some ended
    otherwise, and what follows depends on the job. ChainNotFoundError as by the rules."""
    ids = {blocker for new in jobs for blocker in new.blockers}
    found = _states(db.value("read_chain_states", {"ids": json_text(sorted(ids))}))
    tenants = {chain_id: tenant for chain_id, _, tenant in found}
    unknown = {
        blocker: None
        for new in jobs
        for blocker in new.blockers
        if tenants.get(blocker) != new.tenant
    }
    if unknown:
        raise ChainNotFoundError([*unknown])
    if any(state not in _WAITED_FOR for _, state, _ in found):
        return None
    return {chain_id for chain_id, state, _ in found if state is ChainState.COMPLETED}


def waiting_row(new: NewJob, now: int, job_id: int, met: Iterable[int]) -> Row:
    """A job that names chains, right after it was added."""
    row = rules.new_row(new, now, job_id)
    if new.blockers:
        distinct = set(new.blockers)
        row.blockers_total, row.blockers_open = len(distinct), len(distinct.difference(met))
        if row.blockers_open:
            row.state = JobState.BLOCKED
    return row
