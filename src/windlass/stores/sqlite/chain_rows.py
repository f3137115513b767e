"""Chains and blockers read, changed and written back inside one write transaction.

What was read or changed is remembered until it is written, and whatever is asked for is answered
from there first. So a rule sees its own changes, though nothing is written before the rules are
done, and then all of it at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import msgspec

from windlass.model.chain import ChainState
from windlass.store.records import Blocker, BlockerState, ChainRow
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import json_text, pieces

_MOST_AT_ONCE = 500
"""Chains or jobs that are read ahead by one statement."""

_chains = msgspec.json.Decoder(list[ChainRow]).decode
_blockers = msgspec.json.Decoder(list[Blocker]).decode

_Key = tuple[str, str]
"""A chain's tenant and key."""
_Spot = tuple[int, int]
"""A job, and a place in its list of blockers."""


def read_chains(db: Session, ids: Collection[int]) -> list[ChainRow]:
    return _chains(db.value("read_chains", {"ids": json_text(sorted(ids))}))


class ChainRows:
    """What one transaction knows of chains, and has done to them."""

    def __init__(self, db: Session) -> None:
        self._db = db
        self._chains: dict[int, ChainRow | None] = {}
        """Those that were asked for; None where there is none."""
        self._open_keys: dict[_Key, ChainRow | None] = {}
        self._with_key: dict[_Key, dict[int, ChainRow]] = defaultdict(dict)
        """Chains that were written, by their keys."""
        self._written: dict[int, ChainRow] = {}
        self._deleted: set[int] = set()

        self._spots: dict[_Spot, Blocker] = {}
        """Each blocker that was read is one object, however it was found."""
        self._before: dict[_Spot, BlockerState] = {}
        """Their states as they are stored."""
        self._named: dict[int, list[Blocker]] = {}
        """All that a job named."""
        self._naming: dict[int, list[Blocker]] = {}
        """All that is stored and names a chain."""
        self._replaced: dict[int, list[Blocker]] = {}
        """What jobs name now, whatever they named before."""
        self._new_naming: dict[int, dict[_Spot, Blocker]] = defaultdict(dict)
        """Of these, those that name a chain."""
        self._changed: dict[_Spot, Blocker] = {}
        self._forgotten: set[int] = set()

        self._wanted: set[int] = set()
        self._wanted_naming: set[int] = set()
        """Chains that may be asked for soon, and what names them."""
        self.mentioned: set[int] = set()
        """Jobs that name chains which were asked for."""

    # ── chains ──

    def expect(self, chains: Iterable[int]) -> None:
        """These may be asked for soon: they are read along with the first that is."""
        new = set(chains) - self._chains.keys()
        self._wanted |= new
        self._wanted_naming |= new

    def chain(self, chain_id: int) -> ChainRow | None:
        if chain_id not in self._chains:
            asked = some(self._wanted, chain_id, self._chains)
            found = {chain.id: chain for chain in read_chains(self._db, asked)}
            for each in asked:
                self._chains[each] = found.get(each)
        return self._chains[chain_id]

    def know_keys(self, keys: Collection[_Key]) -> None:
        """Read the open chains of these keys, all at once."""
        unknown = [key for key in keys if key not in self._open_keys]
        if not unknown:
            return
        found = _chains(self._db.value("read_open_chains", {"keys": json_text(unknown)}))
        self._open_keys |= dict.fromkeys(unknown)
        for chain in self._own(found):
            if chain.state is ChainState.OPEN:
                self._open_keys[chain.tenant, chain.key or ""] = chain

    def keyed(self, tenant: str, key: str, since: int | None) -> ChainRow | None:
        self.know_keys([(tenant, key)])
        there = self._open_keys[tenant, key]
        if there is not None or since is None:
            return there
        asked = {"tenant": tenant, "key": key, "since": since}
        stored = _chains(self._db.value("read_ended_chain", asked))
        known = {it.id: it for it in self._own(stored)} | self._with_key[tenant, key]
        ended = [it for it in known.values() if (it.finished_at or 0) > since]
        return max(ended, key=lambda it: (it.finished_at, it.id), default=None)

    def _own(self, found: Iterable[ChainRow]) -> list[ChainRow]:
        """The chains as they are by now, without those that are deleted."""
        own = []
        for chain in found:
            if chain.id not in self._deleted:
                known = self._chains.get(chain.id) or chain
                self._chains[chain.id] = known
                own.append(known)
        return own

    def write_chain(self, chain: ChainRow) -> None:
        self._chains[chain.id] = self._written[chain.id] = chain
        if chain.key is None:
            return
        key = (chain.tenant, chain.key)
        self._with_key[key][chain.id] = chain
        if chain.state is ChainState.OPEN:
            self._open_keys[key] = chain
        else:
            self.know_keys([key])
            if self._open_keys[key] is chain:
                self._open_keys[key] = None

    def delete_chain(self, chain: ChainRow) -> None:
        self._chains[chain.id] = None
        self._written.pop(chain.id, None)
        self._deleted.add(chain.id)
        if chain.key is not None:
            self._with_key[chain.tenant, chain.key].pop(chain.id, None)
            self._open_keys.pop((chain.tenant, chain.key), None)

    # ── blockers ──

    def blockers(self, job_id: int) -> Sequence[Blocker]:
        if job_id not in self._named:
            found = _blockers(self._db.value("read_blockers", {"jobs": json_text([job_id])}))
            self._named[job_id] = [self._same(it) for it in found]
            self.expect(it.chain for it in found)
        return self._named[job_id]

    def naming(self, chain_id: int) -> Sequence[Blocker]:
        if chain_id not in self._naming:
            asked = some(self._wanted_naming, chain_id, self._naming)
            self._naming |= {each: [] for each in asked}
            for it in _blockers(self._db.value("read_naming", {"chains": json_text([*asked])})):
                self._naming[it.chain].append(self._same(it))
                self.mentioned.add(it.job)
        return sorted(
            (
                *(it for it in self._naming[chain_id] if not self._is_replaced(it.job)),
                *self._new_naming[chain_id].values(),
            ),
            key=lambda it: (it.job, it.place),
        )

    def _is_replaced(self, job_id: int) -> bool:
        return job_id in self._replaced or job_id in self._forgotten

    def _same(self, blocker: Blocker) -> Blocker:
        spot = (blocker.job, blocker.place)
        if spot not in self._spots:
            self._spots[spot] = blocker
            self._before[spot] = blocker.state
        return self._spots[spot]

    def write_blockers(self, job_id: int, blockers: Sequence[Blocker]) -> None:
        if blockers and self._named.get(job_id) is blockers and not self._is_replaced(job_id):
            for it in blockers:
                self.write_blocker(it)
            return
        self._replace(job_id, blockers)

    def write_blocker(self, blocker: Blocker) -> None:
        spot = (blocker.job, blocker.place)
        if spot in self._before and not self._is_replaced(blocker.job):
            self._changed[spot] = blocker

    def _replace(self, job_id: int, blockers: Sequence[Blocker]) -> None:
        for it in self._replaced.get(job_id, ()):
            self._new_naming[it.chain].pop((it.job, it.place), None)
        named = list(blockers)
        self._named[job_id] = self._replaced[job_id] = named
        for it in named:
            self._new_naming[it.chain][it.job, it.place] = it

    def forget_job(self, job_id: int) -> None:
        """A job is gone, and with it what it named."""
        self._replace(job_id, [])
        del self._replaced[job_id]
        self._forgotten.add(job_id)

    # ── writing ──

    def write(self) -> None:
        """Write everything. Chains that end come before those that start, which may have their
        keys."""
        if self._deleted:
            self._db.run("delete_chains", {"ids": json_text(sorted(self._deleted))})
        chains = sorted(self._written.values(), key=lambda it: (not it.state.is_final, it.id))
        for piece in pieces(chains, _length):
            self._db.run("write_chains", {"chains": json_text(piece)})
        self._write_blockers()

    def _write_blockers(self) -> None:
        cleared = self._forgotten | self._replaced.keys()
        if cleared:
            self._db.run("delete_blockers", {"jobs": json_text(sorted(cleared))})
        named = [it for blockers in self._replaced.values() for it in blockers]
        for piece in pieces(named, _nothing):
            self._db.run("insert_blockers", {"blockers": json_text(piece)})
        changed = [
            it
            for spot, it in self._changed.items()
            if it.state is not self._before[spot] and it.job not in cleared
        ]
        for piece in pieces(changed, _nothing):
            self._db.run("update_blockers", {"blockers": json_text(piece)})


def some(wanted: set[int], first: int, known: Collection[int]) -> set[int]:
    """The first, and some of those that are wanted and not known yet."""
    picked = {first}
    while wanted and len(picked) < _MOST_AT_ONCE:
        each = wanted.pop()
        if each not in known:
            picked.add(each)
    return picked


def _length(chain: ChainRow) -> int:
    return len(chain.payload) + len(chain.output or "")


def _nothing(blocker: Blocker) -> int:
    return 0
