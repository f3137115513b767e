"""`windlass serve` as a process, and the identities that its callers have.

Identities are JWTs that the tests sign themselves, for any tenant and role; the server knows the
key by `--jwks`. Tests about Windlass's own tokens make those by `windlass token`.
"""

from __future__ import annotations

import functools
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.patience import PATIENCE
from tests.postgres.cluster import free_port
from tests.server.foreign.streams import Producer, Stream, Worker

T = TypeVar("T")
S = TypeVar("S", bound=Stream)

WINDLASS = (sys.executable, "-P", "-m", "windlass")
ISSUER = "the tests"
AUDIENCE = "servers of the tests"


def until(what: str, look: Callable[[], T | None], patience: float = PATIENCE) -> T:
    """Look until the answer is true; fail, saying what was waited for."""
    deadline = time.monotonic() + patience
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.01)
    return found


@functools.cache
def _key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def key_set() -> str:
    """The public half, as `--jwks` takes it."""
    public = jwt.algorithms.OKPAlgorithm.to_jwk(_key().public_key(), as_dict=True)
    return json.dumps({"keys": [{**public, "kid": "tests", "alg": "EdDSA", "use": "sig"}]})


def identity(
    role: str,
    tenant: str = "",
    tasks: list[str] | None = None,
    *,
    seconds: float = 3600,
    **more: Any,
) -> str:
    """A JWT of this role."""
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": f"{role} of {tenant or 'nobody'}",
        "exp": int(time.time() + seconds),
        "tenant": tenant,
        "role": role,
        **more,
    }
    if tasks is not None:
        claims["tasks"] = tasks
    return jwt.encode(claims, _key(), algorithm="EdDSA", headers={"kid": "tests"})


def environment(**more: str) -> dict[str, str]:
    """Without settings of the caller's."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("WINDLASS_", "PG")) and name != "DATABASE_URL"
    }
    return {**ours, **more}


def windlass(*arguments: str, **variables: str) -> str:
    """Run the program to its end, which must be a good one; its standard output."""
    ended = subprocess.run(
        [*WINDLASS, *arguments],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@dataclass
class Answer:
    """Of a REST call."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass
class Server:
    """One `windlass serve` at ports that stay the same when it is started again."""

    url: str
    folder: Path
    options: tuple[str, ...] = ()
    has_keys: bool = True
    """Whether it accepts the tests' JWTs; without them and without tokens it is open."""
    variables: dict[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = field(default_factory=free_port)
    grpc_port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None
    _streams: list[Stream] = field(default_factory=list)

    # ── the process ──

    @property
    def command(self) -> list[str]:
        keys = self.folder / "keys.json"
        keys.write_text(key_set())
        known = ("--jwks", str(keys), "--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE)
        return [
            *(*WINDLASS, "serve", "-c", self.url),
            *("--bind", f"{self.host}:{self.port}", "--grpc-bind", f"{self.host}:{self.grpc_port}"),
            *(known if self.has_keys else ()),
            *self.options,
        ]

    def start(self) -> Server:
        """Start it, and wait until it is ready."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=environment(**self.variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until("the server to be ready", self._is_ready)
        return self

    def _is_ready(self) -> bool:
        process = self.process
        assert process.poll() is None, f"the server ended with {process.returncode}:\n{self.log}"
        with suppress(OSError, http.client.HTTPException):
            with socket.create_connection((self.host, self.grpc_port), timeout=PATIENCE):
                return self.call("GET", "/readyz").status == 200
        return False

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was not started"
        return self._process

    @property
    def _log(self) -> Path:
        return self.folder / f"serve-{self.port}.log"

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")[-8000:]

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """SIGKILL, for it and all processes that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.wait()

    def close(self) -> None:
        """Leave nothing behind."""
        self.close_streams()
        if self._process is not None:
            self.kill()

    # ── callers ──

    @property
    def address(self) -> str:
        return f"{self.host}:{self.grpc_port}"

    def worker(self, **options: Any) -> Worker:
        """A worker's stream on which nothing was said yet."""
        return self._kept(Worker(self.address, **options))

    def producer(self, **options: Any) -> Producer:
        return self._kept(Producer(self.address, **options))

    def _kept(self, stream: S) -> S:
        self._streams.append(stream)
        return stream

    def close_streams(self) -> None:
        self.close_streams_but(0)

    def close_streams_but(self, first: int) -> None:
        """Close those that were opened after the first so many."""
        while len(self._streams) > first:
            self._streams.pop().close()

    def tenant(self, name: str) -> Tenant:
        return Tenant(self, name)

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        token: str | None = None,
        **headers: str,
    ) -> Answer:
        """One REST call."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        data = None
        if body is not None:
            data = json.dumps(body)
            sent["Content-Type"] = "application/json"
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        found = text.decode()
        if "json" in answer.headers.get("Content-Type", ""):
            found = json.loads(text)
        return Answer(answer.status, found, dict(answer.headers))

    def job(self, id: str) -> dict[str, Any]:
        """A job of any tenant."""
        answer = self.call("GET", f"/v1/jobs/{id}", token=identity("admin"))
        assert answer.status == 200, answer
        found: dict[str, Any] = answer.body
        return found

    def until_job(self, id: str, state: str) -> dict[str, Any]:
        """Wait until it is in this state."""
        return until(f"job {id} to be {state}", lambda: self._if_in(id, state))

    def _if_in(self, id: str, state: str) -> dict[str, Any] | None:
        job = self.job(id)
        return job if job["state"] == state else None

    def make_token(self, name: str, *options: str) -> str:
        """A token of Windlass's own, by `windlass token create`."""
        printed = windlass("token", "create", name, "-c", self.url, *options, **self.variables)
        found = re.search(r"\bwl_\S+", printed)
        assert found is not None, printed
        return found.group()

    def revoke_token(self, name: str) -> None:
        windlass("token", "revoke", name, "-c", self.url, **self.variables)


@dataclass
class Tenant:
    """A tenant on a server, and streams that are its own."""

    server: Server
    name: str

    def worker(self, worker_id: str = "foreign", tasks: list[str] | None = None) -> Worker:
        """A worker's stream with its handshake done."""
        stream = self.server.worker()
        stream.hello(identity("worker", self.name, tasks), worker_id)
        return stream

    def producer(self) -> Producer:
        stream = self.server.producer()
        stream.hello(identity("producer", self.name))
        return stream

    def on(self, other: Server) -> Tenant:
        """The same tenant, through another server."""
        return Tenant(other, self.name)


@contextmanager
def serving(url: str, folder: Path, *options: str, **fields: Any) -> Iterator[Server]:
    """A server for one test."""
    server = Server(url, folder, options, **fields)
    try:
        yield server.start()
    finally:
        server.close()
