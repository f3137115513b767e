"""Outcomes as the functions that settle take them, and their answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from windlass.errors import ChainNotFoundError
from windlass.model.fingerprint import fingerprint_of_error
from windlass.model.job import JobState
from windlass.store.records import (
    Cancel,
    Complete,
    Fail,
    Lease,
    NewJob,
    Outcome,
    Release,
    Settled,
    Verdict,
)
from windlass.store.webhooks import address_of
from windlass.stores.postgres.links import Links
from windlass.stores.postgres.wire import array, raw, text_array


class _Outcome(msgspec.Struct, omit_defaults=True):
    """An `_outcome`."""

    kind: str
    output: msgspec.Raw | None = None
    keep: float | None = None
    error: str | None = None
    delay: float | None = None
    run_at: int | None = None
    max_attempts: int | None = None
    final: bool | None = None
    payload: msgspec.Raw | None = None
    fingerprint: str | None = None


class _Other(msgspec.Struct, omit_defaults=True):
    id: int
    token: int
    outcome: _Outcome
    chain: int | None = None


class Settlements:
    """One call to settle, as the arguments of `_settle`, and the way back from its answer.

    Completions go as arrays; everything else one by one, and so does everything where two
    deliveries of one job are settled together, since the answers then depend on their order.
    Completions that have to do with chains have functions of their own (`LinkedSettlements`),
    which are called in the same statement: where there are none, nothing is different. Those
    whose ends are posted go one by one, too: nothing else has to look for them.
    """

    _CALL = "_settle(%s::bigint[], %s::bigint[], %s::text[]::json[], %s::float8[], %s, %s, %s, %s)"

    def __init__(self, settlements: Sequence[tuple[Lease, Outcome]]) -> None:
        self._count = len(settlements)
        self._places: list[int] = []
        self._linked = LinkedSettlements()
        is_twice = len({lease.job_id for lease, _ in settlements}) < self._count
        completed: list[tuple[Lease, Complete]] = []
        others: list[_Other] = []
        later: list[int] = []
        for place, (lease, outcome) in enumerate(settlements):
            if is_twice or not isinstance(outcome, Complete) or is_posted(lease, outcome):
                others.append(
                    _Other(lease.job_id, lease.token, _encode(lease, outcome), lease.chain)
                )
                later.append(place)
            elif is_linked(lease, outcome):
                self._linked.add(place, lease, outcome)
            else:
                completed.append((lease, outcome))
                self._places.append(place)
        self._places += later
        self._ids = array([lease.job_id for lease, _ in completed])
        self._tokens = array([lease.token for lease, _ in completed])
        self._outputs: str | None = None
        self._keeps: str | None = None
        if any(outcome.keep or lease.keep for lease, outcome in completed):
            self._outputs = text_array([outcome.output for _, outcome in completed])
            self._keeps = array([outcome.keep for _, outcome in completed])
        self._others = msgspec.json.encode(others).decode() if others else None

    def calls(self, schema: str) -> str:
        """The calls, as a list of expressions; the schema's name is quoted."""
        calls = [self._CALL, *self._linked.calls] if self._places else self._linked.calls
        return ", ".join([f"{schema}.{call}" for call in calls])

    def values(self, careful: bool, now: datetime | None, *, waits: bool = False) -> list[Any]:
        """`careful` and `waits` as `_settle` says."""
        linked = self._linked.values(careful, now, waits)
        if not self._places:
            return linked
        return [
            self._ids,
            self._tokens,
            self._outputs,
            self._keeps,
            self._others,
            careful,
            now,
            waits,
            *linked,
        ]

    def answers(self, texts: Sequence[str | None]) -> list[Settled]:
        """In the order the settlements were given; a text for each call."""
        answers = [_COMPLETED] * self._count
        own = texts[: len(texts) - len(self._linked.calls)]
        for text in own:
            if text is not None:
                for place, word in zip(self._places, _words(text), strict=True):
                    answers[place] = _answer(word)
        for place, answer in self._linked.answers(texts[len(own) :]):
            answers[place] = answer
        return answers


def _encode(lease: Lease, outcome: Outcome) -> _Outcome:
    match outcome:
        case Complete():
            return _Outcome("complete", output=raw(outcome.output), keep=outcome.keep)
        case Fail():
            return _Outcome(
                "fail",
                error=outcome.error,
                delay=outcome.delay,
                run_at=outcome.run_at,
                max_attempts=outcome.max_attempts,
                final=outcome.final,
                payload=raw(outcome.payload),
                fingerprint=fingerprint_of_error(lease.tenant, lease.task, outcome.error),
            )
        case Release():
            return _Outcome("release")
        case Cancel():
            return _Outcome("cancel")


def is_posted(lease: Lease, outcome: Complete) -> bool:
    """Whether a completion that has nothing to do with chains is told to an address."""
    return address_of(lease.meta) is not None and not is_linked(lease, outcome)


def is_linked(lease: Lease, outcome: Complete) -> bool:
    """Whether a completion has to do with chains."""
    is_in_chain = lease.chain is not None or outcome.next is not None
    return is_in_chain or bool(lease.blockers_total or outcome.starts)


class _Asked(msgspec.Struct, omit_defaults=True):
    """A completion as `_settle_asking` reads it."""

    id: int
    token: int
    goes_on: bool
    chain: int | None = None
    output: msgspec.Raw | None = None
    keep: float | None = None
    nexts: msgspec.Raw | None = None
    starts: msgspec.Raw | None = None
    keyed: msgspec.Raw | None = None
    owners: list[int] | None = None


class LinkedSettlements:
    """Completions that have to do with chains, as the arguments of the functions that write them.

    What cannot be refused goes all at once (`_settle_linked`): completions that start chains
    without keys, and name no chains but these. The others go one by one (`_settle_asking`).
    """

    _AT_ONCE = (
        "_settle_linked(%s::bigint[], %s::bigint[], %s::bigint[], %s::text[]::json[],"
        " %s::float8[], %s::boolean[], %s::json, %s::json, NULL, %s::integer[], false, %s, %s,"
        " %s)"
    )
    _ONE_BY_ONE = "_settle_asking(%s, %s)"

    def __init__(self) -> None:
        self._places: list[int] = []
        self._completed: list[tuple[Lease, Complete]] = []
        self._nexts = Links()
        self._starts = Links()
        self._owners: list[int] = []
        self._asked_places: list[int] = []
        self._asked: list[_Asked] = []

    def add(self, place: int, lease: Lease, outcome: Complete) -> None:
        """`place` is where its answer belongs."""
        if _may_be_refused(outcome):
            self._asked_places.append(place)
            self._asked.append(_ask(lease, outcome))
            return
        self._places.append(place)
        self._completed.append((lease, outcome))
        before = len(self._owners)
        for start in outcome.starts:
            self._owners.append(len(self._completed))
            self._starts.add(_referring(start.job, before), len(self._owners))
        if outcome.next is not None:
            self._nexts.add(_referring(outcome.next, before), len(self._completed))

    @property
    def calls(self) -> list[str]:
        at_once = [self._AT_ONCE] if self._places else []
        return [*at_once, self._ONE_BY_ONE] if self._asked else at_once

    def values(self, careful: bool, now: datetime | None, waits: bool) -> list[Any]:
        values: list[Any] = []
        if self._places:
            leases = [lease for lease, _ in self._completed]
            outcomes = [outcome for _, outcome in self._completed]
            values += [
                array([lease.job_id for lease in leases]),
                array([lease.token for lease in leases]),
                array([lease.chain for lease in leases]),
                text_array([outcome.output for outcome in outcomes]),
                array([outcome.keep for outcome in outcomes]),
                array([outcome.next is not None for outcome in outcomes]),
                self._nexts.text,
                self._starts.text,
                array(self._owners) if self._owners else None,
                careful,
                now,
                waits,
            ]
        if self._asked:
            values += [msgspec.json.encode(self._asked).decode(), now]
        return values

    def answers(self, texts: Sequence[str | None]) -> Iterator[tuple[int, Settled]]:
        """Where it is not that all are completed; with the place of each."""
        groups = [self._places] if self._places else []
        groups += [self._asked_places] if self._asked else []
        for places, text in zip(groups, texts, strict=True):
            if text is not None:
                for place, word in zip(places, _words(text), strict=True):
                    yield place, _answer(word)


def _may_be_refused(outcome: Complete) -> bool:
    asked = [start.job for start in outcome.starts]
    if outcome.next is not None:
        asked.append(outcome.next)
    return any(start.key is not None for start in outcome.starts) or any(
        blocker >= 0 for job in asked for blocker in job.blockers
    )


def _referring(job: NewJob, before: int) -> NewJob:
    """Chains that start with it have numbers in their delivery; here they have those in all."""
    if not job.blockers or not before:
        return job
    return replace(job, blockers=tuple([ref - before for ref in job.blockers]))


def _ask(lease: Lease, outcome: Complete) -> _Asked:
    nexts, starts, keyed = Links(), Links(), Links()
    if outcome.next is not None:
        nexts.add(outcome.next, 1)
    for number, start in enumerate(outcome.starts, 1):
        links = starts if start.key is None else keyed
        links.add(start.job, number, start.key, start.key_window)
    return _Asked(
        id=lease.job_id,
        token=lease.token,
        chain=lease.chain,
        output=raw(outcome.output),
        keep=outcome.keep,
        goes_on=outcome.next is not None,
        nexts=raw(nexts.text),
        starts=raw(starts.text),
        keyed=raw(keyed.text),
        owners=[1] * len(outcome.starts) or None,
    )


def decode_answers(text: str) -> list[Settled]:
    """One for each delivery: the state its job is in, or the refusal."""
    return [_answer(word) for word in _words(text)]


def _answer(word: str) -> Settled:
    known = _ANSWERS.get(word)
    if known is not None:
        return known
    kind, _, rest = word.partition(":")
    if kind == "unknown":
        chains = dict.fromkeys(int(chain) for chain in rest.split(","))
        rest = str(ChainNotFoundError([*chains]))
    return Settled(Verdict.REFUSED, reason=rest)


_words = msgspec.json.Decoder(list[str]).decode
_COMPLETED = Settled(Verdict.APPLIED, JobState.COMPLETED)
_ANSWERS = {
    **{state.value: Settled(Verdict.APPLIED, state) for state in JobState},
    "waiting": Settled(Verdict.APPLIED, JobState.READY),
    "lost": Settled(Verdict.LOST),
    "ended": Settled(Verdict.LOST, JobState.COMPLETED),
    "missing": Settled(Verdict.MISSING),
    "busy": Settled(Verdict.BUSY),
}
