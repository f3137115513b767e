"""What is posted of a job's end, and the task that posts it.

A call that is answered by 2xx has arrived. Anything else (another status, also 4xx and 3xx; no
answer in time; an address that is not allowed) fails the attempt, and it is tried again as `RETRY`
says: 8 times in half a day. Of an answer's body little is read, and nothing is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import httpx
import msgspec

from windlass.clock import SYSTEM, Clock, to_datetime, to_micros
from windlass.errors import Poison, ValidationError
from windlass.model.job import Job
from windlass.model.retry import Retry
from windlass.server.webhooks.addresses import Network, check_address
from windlass.server.webhooks.signing import secret_of, sign
from windlass.server.webhooks.transport import CheckedTransport, Resolver, resolve
from windlass.store.server import ServerStore
from windlass.store.webhooks import EndedJob
from windlass.version import __version__

RETRY = Retry.exponential(5.0, 5.0, 6 * 3600.0, jitter=0.2)
MAX_ATTEMPTS = 8

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 10.0
TOTAL_TIMEOUT = 20.0
"""Seconds: for a connection, between two pieces of the answer, and for one call in all."""
_MOST_READ = 16_384
"""Bytes of an answer. A connection whose answer is longer is closed rather than used again."""
_MOST_CONNECTIONS = 100


class WebhookError(Exception):
    """Raised when a call did not arrive; the text is the attempt's error."""


class PostedJob(msgspec.Struct):
    """A job that has ended, with the names of `windlass jobs show --json`."""

    id: int
    task: str
    state: str
    output: msgspec.Raw
    last_error: str | None
    attempts: int
    key: str | None
    queue: str | None
    tenant: str | None
    chain: int | None
    created_at: datetime
    finished_at: datetime | None


class Event(msgspec.Struct):
    """The body of a call."""

    type: Literal["job.completed", "job.failed", "job.cancelled"]
    timestamp: datetime
    data: PostedJob


def body_of(job: EndedJob) -> bytes:
    """The same for each attempt: receivers may compare."""
    finished_at = to_datetime(job.created_at if job.finished_at is None else job.finished_at)
    names = {field: getattr(job, field) for field in _SAME}
    posted = PostedJob(
        **names,
        last_error=job.error,
        created_at=to_datetime(job.created_at),
        finished_at=finished_at,
    )
    kind = cast(Any, f"job.{job.state}")
    return msgspec.json.encode(Event(kind, finished_at, posted))


_SAME = ("id", "task", "state", "output", "attempts", "key", "queue", "tenant", "chain")


def message_id(call: Job) -> str:
    """The same for all attempts of one end, and for no other end: also when a database is made
    anew, and its ids with it."""
    return f"msg_{to_micros(call.created_at):x}_{call.id}"


class Poster:
    """Posts calls. Make it by `open_poster`."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        store: ServerStore,
        allow: tuple[Network, ...],
        clock: Clock,
        total_timeout: float,
    ) -> None:
        self._client = client
        self._store = store
        self._allow = allow
        self._clock = clock
        self._total_timeout = total_timeout

    async def post(self, call: Job, url: str, job: EndedJob) -> int:
        """The status of the answer, which is 2xx. WebhookError for anything else; Poison for what
        is no address at all, and never will be. `call` is the job that posts the end of `job`."""
        try:
            check_address(url, self._allow)
        except ValidationError as error:
            raise Poison(str(error)) from None
        secret = await secret_of(self._store, job.tenant or "")
        body = body_of(job)
        headers = sign(secret, message_id(call), self._clock.now() // 1_000_000, body)
        try:
            async with asyncio.timeout(self._total_timeout):
                status = await self._call(url, body, headers)
        except TimeoutError:
            raise WebhookError(
                f"{_origin(url)} did not answer within {self._total_timeout:g} s"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise WebhookError(f"{_origin(url)} could not be called: {why}") from None
        if not 200 <= status < 300:
            raise WebhookError(f"{_origin(url)} answered {status}")
        return status

    async def _call(self, url: str, body: bytes, headers: dict[str, str]) -> int:
        async with self._client.stream("POST", url, content=body, headers=headers) as response:
            read = 0
            async for piece in response.aiter_raw():
                read += len(piece)
                if read > _MOST_READ:
                    break
            return response.status_code


@asynccontextmanager
async def open_poster(
    store: ServerStore,
    allow: tuple[Network, ...] = (),
    *,
    clock: Clock = SYSTEM,
    resolver: Resolver = resolve,
    read_timeout: float = READ_TIMEOUT,
    total_timeout: float = TOTAL_TIMEOUT,
) -> AsyncIterator[Poster]:
    transport = CheckedTransport(allow, connections=_MOST_CONNECTIONS, resolver=resolver)
    async with httpx.AsyncClient(
        transport=transport,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(read_timeout, connect=CONNECT_TIMEOUT),
        headers={
            "content-type": "application/json",
            "user-agent": f"windlass/{__version__}",
            "accept": "*/*",
        },
    ) as client:
        yield Poster(client, store, allow, clock, total_timeout)


def _origin(url: str) -> str:
    """Without path and query: they may hold a secret of the receiver."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
