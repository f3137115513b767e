"""Deliveries as clients hold them: opaque bytes that prove a lease, on every server of a database.

The bytes carry what a store needs to settle, renew and note, and a code over it (HMAC) made with a
secret that the servers share. So a server that has never seen a client can judge what it presents,
and no client can make up the delivery of another.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from secrets import token_hex

import msgspec

from windlass.model import payload as payloads
from windlass.model.job import DEFAULT_TENANT
from windlass.store.records import Lease
from windlass.store.server import ServerStore
from windlass.store.webhooks import WEBHOOK, address_of

SECRET = "deliveries"  # noqa: S105
"""The name of the secret in the database."""
_CODE = 16
_VERSION = b"\x01"


class Delivery(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What the bytes say. `seconds` is how long the delivery is its client's, each time."""

    job_id: int
    token: int
    worker: str
    tenant: str
    task: str
    attempts: int
    deliveries: int
    seconds: float
    queue: str | None = None
    max_attempts: int | None = None
    keep: float | None = None
    webhook: str | None = None
    chain: int | None = None
    step: int | None = None
    blockers_total: int | None = None

    @property
    def lease(self) -> Lease:
        """The lease, as far as a store needs it; it does not carry the job."""
        meta = None if self.webhook is None else payloads.encode_meta({WEBHOOK: self.webhook})
        return Lease(
            job_id=self.job_id,
            token=self.token,
            worker=self.worker,
            attempts=self.attempts,
            deliveries=self.deliveries,
            run_at=0,
            revision=0,
            resets=0,
            suspect=False,
            created_at=0,
            updated_at=0,
            last_error=None,
            task=self.task,
            tenant=self.tenant,
            queue=self.queue,
            max_attempts=self.max_attempts,
            keep=self.keep,
            meta=meta,
            chain=self.chain,
            step=self.step,
            blockers_total=self.blockers_total,
        )


def delivery_of(lease: Lease, seconds: float) -> Delivery:
    """What is remembered of a lease after its job was handed out."""
    return Delivery(
        lease.job_id,
        lease.token,
        lease.worker,
        lease.tenant,
        lease.task,
        lease.attempts,
        lease.deliveries,
        seconds,
        lease.queue,
        lease.max_attempts,
        lease.keep,
        None if lease.meta is None else address_of(lease.meta),
        lease.chain,
        lease.step,
        lease.blockers_total,
    )


class Deliveries:
    """Seals deliveries, and opens those that were sealed with the same secret."""

    def __init__(self, secret: bytes) -> None:
        self._hash = hmac.new(secret, digestmod=sha256)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Delivery).decode

    def seal(self, lease: Lease, seconds: float = 0.0) -> bytes:
        """The bytes for a lease that is its client's for so many seconds at a time."""
        return self.sealed(delivery_of(lease, seconds))

    def sealed(self, delivery: Delivery) -> bytes:
        said = self._encode(delivery)
        return _VERSION + self._code(said) + said

    def open(self, data: bytes, tenant: str | None) -> Lease | None:
        """The lease in these bytes; None if they are not ours, or of a job of another tenant than
        this one (None is all of them)."""
        delivery = self.unsealed(data, tenant)
        return None if delivery is None else delivery.lease

    def unsealed(self, data: bytes, tenant: str | None) -> Delivery | None:
        code, said = data[1 : 1 + _CODE], data[1 + _CODE :]
        if data[:1] != _VERSION or not hmac.compare_digest(code, self._code(said)):
            return None
        try:
            delivery = self._decode(said)
        except msgspec.MsgspecError:  # of another version, under the same secret
            return None
        return delivery if tenant is None or delivery.tenant == tenant else None

    def _code(self, said: bytes) -> bytes:
        code = self._hash.copy()
        code.update(said)
        return code.digest()[:_CODE]


async def open_deliveries(store: ServerStore) -> Deliveries:
    """Deliveries under the database's own secret, which is made where there is none."""
    secret = await store.secret(SECRET, token_hex(32), DEFAULT_TENANT)
    return Deliveries(secret.encode())
