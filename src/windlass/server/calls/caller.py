"""What one caller of the verbs may ask for, and under which names.

* Its tenant: a caller that is no admin asks for its own tenant, or names none, which is the same.
  To name another is refused.
* Its workers: their names get a suffix on the way in, made from the tenant and the token's name,
  and lose it on the way out. So no token can renew, retire or check a worker of another, however
  it calls its own.
* Its leases: each is sealed when it is handed out. What comes back without a good seal is as if
  there were no such job.

An admin asks as it likes, and its workers are called as it says.
"""

from __future__ import annotations

import hmac
from binascii import hexlify
from collections.abc import Sequence
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from windlass.model.chain import Chain
from windlass.model.job import FailedAttempt, Job
from windlass.server.calls.refusals import Refused
from windlass.server.identity import Identity, Power, claimable
from windlass.server.visible import SUFFIX, may_read, readable, seen_chain
from windlass.store.records import Lease
from windlass.wire.calls import Held, encode, proof, sealed, slim

MOST_NAME = 900
"""Characters of a worker's name, which gets a suffix."""


class Caller:
    """One identity, on one stream or several."""

    def __init__(self, identity: Identity, secret: bytes) -> None:
        self.identity = identity
        self.is_admin = identity.is_admin
        self._sealing = blake2b(key=secret, digest_size=16)
        kind = "jwt" if identity.digest is None else "token"
        # JWTs may share a name: what one is for tells apart those that may not settle the same.
        of = f" {sorted(identity.tasks)}" if identity.digest is None and identity.tasks else ""
        token_mark = _mark(f"{kind} {identity.name}{of}")
        self.suffix = "" if self.is_admin else f"@{_mark(identity.tenant)}.{token_mark}"

    # ── powers and tenants ──

    def require(self, power: Power, verb: str) -> None:
        if not self.identity.may(power):
            roles = ", ".join(sorted(self.identity.roles))
            raise Refused(
                f"the token {self.identity.name!r} may not call {verb}: its role is {roles},"
                f" and that needs the power to {power.value}"
            )

    def tenant(self, asked: str | None) -> str | None:
        """The tenant to look in; None is all of them."""
        return asked if self.is_admin else self.own(asked)

    def own(self, asked: str | None) -> str:
        """The tenant that a name, or a new job, belongs to: the caller's own where none is named,
        and on the wire the default one has no name."""
        if self.is_admin:
            return asked or self.identity.tenant
        if asked and asked != self.identity.tenant:
            raise Refused(
                f"the token {self.identity.name!r} is for one tenant, and not for {asked!r}; ask"
                " for that one's jobs with a token of its own, or leave the tenant out"
            )
        return self.identity.tenant

    def tenants(self, asked: Sequence[str] | None) -> tuple[str, ...] | None:
        """The tenants whose jobs a worker takes."""
        if self.is_admin:
            return None if asked is None else tuple(asked)
        for name in asked or ():
            self.own(name)
        return (self.identity.tenant,)

    def claims(self, asked: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """The tasks among these whose jobs it may take; StoreError if there is none."""
        if self.is_admin:
            return asked
        chosen = claimable(self.identity, asked)
        if asked != () and chosen == ():
            allowed = ", ".join(self.identity.tasks or ("every task but Windlass's own",))
            raise Refused(
                f"the token {self.identity.name!r} is for other tasks than this worker has; it is"
                f" for: {allowed}"
            )
        return chosen

    def reads(self, task: str) -> bool:
        """Whether it may see jobs of this task."""
        return may_read(self.identity, task)

    # ── workers ──

    def worker(self, name: str) -> str:
        """What the store calls a worker of this caller."""
        if not name or len(name) > MOST_NAME or "\0" in name:
            raise Refused(f"a worker's id has 1 to {MOST_NAME} characters, and no NUL")
        return name + self.suffix

    def shown(self, name: str) -> str:
        return name.removesuffix(self.suffix) if self.suffix else name

    def has(self, worker: str) -> bool:
        """Whether a worker, as the store calls it, is one of this caller."""
        return bool(self.suffix) and worker.endswith(self.suffix)

    # ── jobs and chains ──

    def job(self, job: Job) -> Job:
        if not self.suffix:
            return job
        if job.locked_by is not None and SUFFIX.search(job.locked_by):
            job = replace(job, locked_by=readable(job.locked_by))
        if any(SUFFIX.search(it.worker or "") for it in job.errors):
            job = replace(job, errors=tuple(map(self._attempt, job.errors)))
        return job

    def _attempt(self, failed: FailedAttempt) -> FailedAttempt:
        worker = failed.worker
        return failed if worker is None else replace(failed, worker=readable(worker))

    def chain(self, chain: Chain[object]) -> Chain[object]:
        """What the caller sees of a chain."""
        return self.named(seen_chain(self.identity, chain))

    def named(self, chain: Chain[object]) -> Chain[object]:
        """The chain, with its workers' names as the caller knows them."""
        return chain if chain.job is None else replace(chain, job=self.job(chain.job))

    # ── leases ──

    def hand_out(self, lease: Lease) -> msgspec.Raw:
        """The lease as it crosses, sealed."""
        seal = self._seal(lease)
        return sealed(replace(lease, worker=self.shown(lease.worker)), seal)

    def take_back(self, lease: Held) -> Held | None:
        """The lease as the store knows it; None unless it was handed out to this caller, and is of
        a task that it may claim."""
        tasks = self.identity.tasks
        if tasks is not None and not self.is_admin and lease.task not in tasks:
            return None
        known = slim(lease)
        if self.suffix:
            known.worker += self.suffix
        is_good = self.is_admin or hmac.compare_digest(lease.seal.encode(), self._seal(known))
        return known if is_good else None

    def _seal(self, lease: Lease) -> bytes:
        seal = self._sealing.copy()
        seal.update(encode(proof(lease)))
        return hexlify(seal.digest())


def _mark(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()
