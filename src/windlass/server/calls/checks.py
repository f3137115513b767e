"""Jobs that come over the wire: what a client of ours refuses before it sends, any other may send.

Each check here is the one that `client/prepare.py` makes of a job in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from windlass.clock import to_micros
from windlass.errors import InstantError, TaskNameError, ValidationError
from windlass.model import names
from windlass.model import payload as payloads
from windlass.model.outcome import clip
from windlass.server.calls.caller import Caller
from windlass.store.fresh import alike
from windlass.store.records import Complete, Fail, NewChain, NewJob, Note, Outcome
from windlass.store.webhooks import address_of
from windlass.tasks.context import MAX_ENTRY

_LAST = to_micros(datetime(9999, 1, 1, tzinfo=UTC))


class JobChecks:
    """`max_payload` is the most bytes of a payload; `check_webhook` raises for an address that is
    not posted to."""

    def __init__(self, max_payload: int, check_webhook: Callable[[str], object]) -> None:
        self._max_payload = max_payload
        self._check_webhook = check_webhook

    def jobs(self, jobs: Iterable[NewJob], caller: Caller) -> None:
        """Check jobs, and make them the caller's. Those of one call are usually alike but for their
        payloads, and what they have in common is checked once."""
        last: object = None
        first = NewJob(task="")
        for new in jobs:
            common = alike(new)
            if common != last:
                self._job(new, caller)
                last, first = common, new
            else:
                self._payload(new.payload)
                new.tenant, new.is_strict = first.tenant, first.is_strict

    def chains(self, chains: Iterable[NewChain], caller: Caller) -> None:
        for chain in chains:
            names.check_key(chain.key)
            _span(chain.key_window, "key_window")
            self._job(chain.job, caller)

    def completion(self, completion: Complete, caller: Caller) -> None:
        """What a completion stores beside the output: the next job, and chains that start. They
        are of the tenant of the chain, or of the job, that goes on; an admin's may be any."""
        jobs = [chain.job for chain in completion.starts]
        if completion.next is not None:
            jobs.append(completion.next)
        named = [new.tenant for new in jobs]
        self.chains(completion.starts, caller)
        if completion.next is not None:
            self._job(completion.next, caller)
        if caller.is_admin:
            for new, tenant in zip(jobs, named, strict=True):
                new.tenant = tenant

    def outcome(self, outcome: Outcome) -> Outcome:
        """What a store may write of an end. ValidationError for what no worker of ours sends."""
        match outcome:
            case Complete(output=output, keep=keep):
                if output is not None:
                    value = payloads.decode(output, field="output")
                    payloads.encode_value(value, limit=self._max_payload, field="output")
                names.check_seconds(keep, "keep")
                return outcome
            case Fail(payload=payload, run_at=run_at):
                if not 0 <= outcome.delay * 1e6 < 2**62:
                    raise ValidationError("delay must be at least 0", field="delay")
                names.check_max_attempts(outcome.max_attempts)
                if payload is not None:
                    payloads.encode_value(payloads.decode(payload), limit=self._max_payload)
                _instant(run_at)
                return replace(outcome, error=clip(outcome.error))
            case _:
                return outcome

    def note(self, note: Note) -> None:
        """ValidationError for what is no note of a job."""
        if note.progress is not None:
            try:
                progress = msgspec.json.decode(note.progress, type=tuple[float, str])
            except msgspec.MsgspecError as error:
                raise ValidationError(f"progress: {error}", field="progress") from None
            if not 0.0 <= progress[0] <= 1.0:
                raise ValidationError("progress lies between 0 and 1", field="progress")
            payloads.encode_value(progress, field="progress")
        if note.entry is not None:
            entry = payloads.decode(note.entry, field="entry")
            payloads.encode_value(entry, limit=MAX_ENTRY, field="entry")

    def _job(self, new: NewJob, caller: Caller) -> None:
        if names.check_task(new.task).startswith(names.RESERVED):
            raise TaskNameError(
                f"{new.task!r} is reserved: names that begin with {names.RESERVED!r} are of jobs"
                " that Windlass adds for itself",
                field="task",
            )
        self._payload(new.payload)
        names.check_queue(new.queue)
        names.check_max_attempts(new.max_attempts)
        names.check_key(new.key)
        names.check_priority(new.priority)
        names.check_flags(new.flags)
        names.check_seconds(new.keep, "keep")
        if new.meta is not None:
            self._meta(new.meta)
        names.check_tenant(new.tenant)
        new.tenant = caller.own(new.tenant)
        new.is_strict = int(bool(new.is_strict))
        _span(new.delay, "delay")
        _instant(new.run_at)

    def _payload(self, text: str) -> None:
        payloads.encode_value(payloads.decode(text), limit=self._max_payload)

    def _meta(self, text: str) -> None:
        value = payloads.decode(text, field="meta")
        payloads.encode_value(value, limit=payloads.MAX_META, field="meta")
        if (url := address_of(text)) is not None:
            self._check_webhook(url)


def _instant(run_at: int | None) -> None:
    if run_at is not None and not 0 <= run_at <= _LAST:
        raise InstantError("run_at must lie between 1970 and 9999", field="run_at")


def _span(micros: int, field: str) -> None:
    if not 0 <= micros < 2**62:  # stores know no instant after the year 9999 anyway
        raise ValidationError(f"{field} must be at least 0, and 63 bits long", field=field)
