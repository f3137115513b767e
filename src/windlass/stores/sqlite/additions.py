"""Adding jobs that belong to chains, or wait for some: many at once, and set by set.

Their ids follow one another, so everything that refers to one of them is known before the
transaction but for the first id: a job is named by its offset from that one. Jobs that are alike
but for their payloads become one INSERT.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from msgspec.structs import replace

from windlass.model.job import Carried
from windlass.store import rules
from windlass.store.records import NewJob
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import json_text, pieces

OWN = 0
"""The chain that begins with a job itself."""

_MOST_KINDS = 4
"""Kinds of jobs for which there is an INSERT each; where there are more, one is for all of them."""

_kind = attrgetter(
    *(name for name in NewJob.__struct_fields__ if name not in ("payload", "blockers", "key_mode"))
)
"""All that jobs have in common which one INSERT adds."""


class Additions:
    """New jobs without keys, in the order of their ids."""

    def __init__(self) -> None:
        self.new: list[NewJob] = []
        self._statements: list[str] = []
        self._beside: list[str] = []
        """What each has beside its offset and its payload, for the statement that adds it."""
        self._named: list[tuple[int, Sequence[int]]] = []
        self._keys: list[tuple[int, str, int]] = []
        self._has_starts = False

    def add(
        self,
        new: NewJob,
        chain: int | None,
        step: int | None,
        named: Sequence[int] = (),
        met: Iterable[int] = (),
    ) -> int:
        """The offset of a job in this chain that named these, of which some are `met`."""
        offset = len(self.new)
        self.new.append(new)
        self._has_starts = self._has_starts or chain == OWN
        if named:
            distinct = set(named)
            waits = f"{len(distinct.difference(met))},{len(distinct)}"
            self._named.append((offset, named))
            self._statements.append("insert_waiting")
            self._beside.append(f",{_number(chain)},{_number(step)},{waits}")
        elif chain == OWN:
            self._statements.append("insert_starts")
            self._beside.append("")
        else:
            self._statements.append("insert_nexts")
            self._beside.append(f",{_number(chain)},{_number(step)}")
        return offset

    def name(self, offset: int, key: str, key_window: int) -> None:
        """Give the chain that begins with this job a key."""
        self._keys.append((offset, key, key_window))

    def prepare(self) -> Additions:
        """Make the texts, once all are added: for the caller's thread."""
        kinds: dict[object, list[int]] = {}
        for offset, new in enumerate(self.new):
            kinds.setdefault((self._statements[offset], _kind(new)), []).append(offset)
        self._inserts: list[tuple[str, NewJob, str]] = []
        if len(kinds) <= _MOST_KINDS:
            for offsets in kinds.values():
                for piece in pieces(offsets, self._length):
                    first, text = piece[0], _list(map(self._part, piece))
                    self._inserts.append((self._statements[first], self.new[first], text))
        else:
            for piece in pieces(range(len(self.new)), self._length):
                text = _list(map(self._whole, piece))
                self._inserts.append(("insert_various", self.new[0], text))
        self._blockers = json_text(self._named)
        self._timed = [new for new in self.new if new.delay or new.run_at is not None]
        self.queues = {(new.tenant, new.queue) for new in self.new if new.queue is not None}
        return self

    def _length(self, offset: int) -> int:
        return len(self.new[offset].payload)

    def _part(self, offset: int) -> str:
        return f"[{offset},{self.new[offset].payload}{self._beside[offset]}]"

    def _whole(self, offset: int) -> str:
        new = self.new[offset]
        text = json_text(replace(new, blockers=()) if new.blockers else new)
        beside = self._beside[offset] or f",{OWN},0"
        return f"{text[:-1]},{offset}{beside}]"

    def write(
        self,
        db: Session,
        now: int,
        first: int,
        *,
        names_offsets: bool = False,
        met: Sequence[int] = (),
    ) -> None:
        """Add them; `first` is the next id. Chains that they name are ids, of which those that are
        `met` have ended well; or offsets of jobs with which chains begin here."""
        for statement, common, text in self._inserts:
            values = {"rows": text, "first": first, "last": rules.LAST_INSTANT}
            db.run(statement, {**values, **common_values(common, now)})
        if self._has_starts:
            db.run("begin_chains", {"first": first, "last": first + len(self.new) - 1})
        if self._keys:
            db.run("name_chains", {"first": first, "keys": json_text(self._keys)})
        if self._named:
            base = first if names_offsets else 0
            values = {"rows": self._blockers, "first": first, "base": base, "met": json_text(met)}
            db.run("block_jobs", values)
        self._tell(db, now)

    def _tell(self, db: Session, now: int) -> None:
        later = sum([rules.due(new, now) > now for new in self._timed])
        if later:
            db.made_scheduled = True
        if later < len(self.new):
            db.made_ready = True


def next_job_id(db: Session) -> int:
    """What the next job that is added will have as its id."""
    last: int = db.value("read_sequence")
    return last + 1


def common_values(new: NewJob, now: int) -> dict[str, object]:
    """What jobs have in common that are alike but for their payloads."""
    run_at = rules.due(new, now)
    if run_at > now:
        state = "scheduled"
    else:
        state = "ready" if new.queue is None else "waiting"
    values = {name: getattr(new, name) for name in Carried.__struct_fields__}
    values["flags"] = None if new.flags is None else json_text(new.flags)
    del values["payload"]
    return {**values, "state": state, "run_at": run_at, "now": now}


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def _list(texts: Iterable[str]) -> str:
    return f"[{','.join(texts)}]"
