"""A serving process: its start, what it refuses to start with, and its end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from click.testing import CliRunner

from tests.cli.program import wait_until
from tests.patience import PATIENCE
from tests.server.certificates import make_certificates
from tests.server.conftest import Serve
from tests.server.served import SOURCES, Served, start_windlass
from windlass import App
from windlass.cli import cli
from windlass.errors import ConfigError
from windlass.server.service import Service
from windlass.server.serving import Serving
from windlass.server.settings import Address, make_settings, parse_address
from windlass.server.sockets import address_of, open_port
from windlass.server.tls import server_context
from windlass.store.server import ServerStore, Token


def refused(*arguments: str) -> str:
    """What the command says that cannot open its ports; it exits with 2."""
    given = ["serve", "-c", "memory://", *arguments]
    result = CliRunner().invoke(cli, given, prog_name="windlass", catch_exceptions=False)
    assert result.exit_code == 2, result.output
    assert result.output.count("\n") == 1
    return result.output


def start_and_stop(*, token: bool = False, **given: Any) -> list[str]:
    """Serve a database in memory from this process until it has begun; what it logged."""
    settings = make_settings(**{"bind": "127.0.0.1:0", "grpc_bind": "127.0.0.1:0", **given})
    said: list[str] = []
    logger = logging.getLogger("windlass.start_and_stop")
    logger.propagate = False
    logger.setLevel("INFO")
    logger.handlers = [logging.Handler()]
    logger.handlers[0].emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]

    async def body() -> None:
        async with App("memory://", logger=logger) as app:
            if token:
                made = Token(name="ci", digest="d", roles=("admin",), created_at=1)
                await cast(ServerStore, app.store).add_token(made)
            with open_port(settings.bind, "--bind") as rest:
                with open_port(settings.grpc_bind, "--grpc-bind") as streams:
                    at = Address(address_of(streams).host, 0)
                serving = Serving(app, settings, rest, at)
                async with asyncio.timeout(PATIENCE):
                    await serving.run(serving.stop)

    asyncio.run(body())
    return said


# ── the start ──


def test_without_a_token_it_serves_this_machine_and_says_so(serve: Serve) -> None:
    server = serve()
    assert server.process.count("every program on this machine is an admin") == 1
    with server.caller() as caller:
        assert caller.post("/v1/jobs", json={"task": "mail"}).status_code == 201
        assert len(caller.get("/v1/jobs").json()["jobs"]) == 1
        for lie in ({"host": "jobs.example"}, {"x-forwarded-for": "127.0.0.1"}):
            assert caller.get("/v1/jobs", headers=lie).status_code == 401
        page = {"content-type": "text/plain"}
        answer = caller.post("/v1/jobs", content='{"task": "mail"}', headers=page)
        assert answer.status_code == 401
        token = server.token("producer")
        assert caller.get("/v1/jobs").status_code == 401
        assert token not in server.process.output
    with server.caller(token) as caller:
        assert len(caller.get("/v1/jobs").json()["jobs"]) == 1
    assert server.stop() == 0


@pytest.mark.parametrize("port", ["bind", "grpc_bind"])
@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_it_serves_no_other_machine_without_a_token(port: str, address: str) -> None:
    with pytest.raises(ConfigError, match=r"windlass token create.*--insecure"):
        start_and_stop(**cast(dict[str, Any], {port: address}))


def test_insecure_serves_all_and_warns() -> None:
    said = start_and_stop(bind="0.0.0.0:0", insecure=True)
    assert "everyone who reaches these ports is an admin" in said[0]
    assert "REST on http://0.0.0.0:" in said[1]


def test_with_a_token_it_serves_other_machines() -> None:
    said = start_and_stop(bind="0.0.0.0:0", grpc_bind="0.0.0.0:0", token=True)
    assert len(said) == 2 and "streams on 0.0.0.0:" in said[0] and "dashboard" in said[1]


def test_an_app_of_one_tenant_is_not_served() -> None:
    async def body() -> None:
        async with App("memory://", tenant="acme") as app:
            with pytest.raises(ConfigError, match="WINDLASS_TENANT"):
                await Service(app, make_settings()).start()

    asyncio.run(body())


# ── what it cannot start with ──


@pytest.mark.parametrize("flag", ["--bind", "--grpc-bind"])
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_port_in_use_is_told(flag: str, processes: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ports = {"--bind": "127.0.0.1:0", "--grpc-bind": "127.0.0.1:0"}
        ports[flag] = f"127.0.0.1:{port}"
        given = [word for pair in ports.items() for word in pair]
        said = refused("-c", "sqlite:///nowhere.db", "--processes", processes, *given)
    assert f"{flag}: port {port} is in use" in said


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_port_that_several_servers_share_is_in_use(processes: str) -> None:
    with open_port(parse_address("127.0.0.1:0", ""), "", shared=True) as shared:
        shared.listen()
        port = shared.getsockname()[1]
        ports = ("--bind", "127.0.0.1:0", "--grpc-bind", f"127.0.0.1:{port}")
        said = refused("-c", "sqlite:///nowhere.db", "--processes", processes, *ports)
    assert "is in use" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--bind", "8080"), "HOST:PORT"),
        (("--bind", "127.0.0.1:99999"), "no port"),
        (("--bind", "nowhere.invalid:0"), "cannot be resolved"),
        (("--bind", "192.0.2.1:0"), "no address 192.0.2.1"),
        (("--tls-cert", "cert.pem"), "go together"),
        (("--tls-cert", "a.pem", "--tls-key", "b.pem"), "no file a.pem"),
        (("--tls-client-ca", "ca.pem"), "needs --tls-cert"),
        (("--jwks", "https://id.example/keys"), "--jwt-issuer"),
        (("--jwt-issuer", "x"), "without --jwks"),
        (("--jwks", "keys", "--jwt-issuer", "x", "--jwt-audience", "y"), "no file keys"),
        (("--jwks", "ftp://x", "--jwt-issuer", "x", "--jwt-audience", "y"), "https://"),
        (("--jwks", "http://x", "--jwt-issuer", "x", "--jwt-audience", "y"), "https://"),
        (("--webhook-allow", "10.0.0.1/8"), "--webhook-allow"),
        (("--grace", "-1"), "--grace"),
        (("--rate", "0"), "--rate"),
        (("--keep", "soon"), "length of time"),
        (("--processes", "2", "-c", "memory://"), "live in one process"),
        (("-c", "mysql://x"), "no store"),
        (("-c", "grpc://127.0.0.1:1"), "cannot be served"),
        (("-c", "grpc://127.0.0.1:1", "--processes", "2"), "cannot be served"),
        (("--bind", "127.0.0.1:8080", "--grpc-bind", "127.0.0.1:8080"), "both port 8080"),
        (("--bind", "127.0.0.1:8080", "--grpc-bind", ":8080"), "both port 8080"),
    ],
)
def test_what_cannot_be_used_is_told(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused("--bind", "127.0.0.1:0", "--grpc-bind", "127.0.0.1:0", *arguments)


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ImportError('no', name='uvicorn')")
    process = start_windlass(tmp_path, "serve", PYTHONPATH=f"{tmp_path}:{SOURCES}")
    try:
        assert process.wait() == 1
        assert "pip install 'windlass[server]'" in process.output
    finally:
        process.end()


# ── TLS ──


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority `ca.pem`, and of it `server.pem` and `client.pem` with their keys."""
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


def trusting(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "ca.pem"))


def test_tls_and_certificates_of_clients(serve: Serve, certificates: Path) -> None:
    files = {name: str(certificates / name) for name in ("server.pem", "server.key", "ca.pem")}
    server = serve(
        "--tls-cert",
        files["server.pem"],
        "--tls-key",
        files["server.key"],
        "--tls-client-ca",
        files["ca.pem"],
    )
    assert server.rest.startswith("https://127.0.0.1")
    stranger = trusting(certificates)
    known = trusting(certificates)
    known.load_cert_chain(certificates / "client.pem", certificates / "client.key")
    with server.caller(verify=known) as caller:
        assert caller.get("/v1/jobs").status_code == 200
    with server.caller(verify=stranger) as caller, pytest.raises(httpx.TransportError):
        caller.get("/v1/jobs")
    host, _, port = server.streams.partition(":")
    known.set_alpn_protocols(["h2"])
    with socket.create_connection((host, int(port))) as plain:
        with known.wrap_socket(plain, server_hostname=host) as wrapped:
            assert wrapped.selected_alpn_protocol() == "h2"
    assert server.stop() == 0


def test_files_that_are_no_certificates_are_told(tmp_path: Path, certificates: Path) -> None:
    (tmp_path / "bad.pem").write_text("no")
    bad, key = str(tmp_path / "bad.pem"), str(certificates / "server.key")
    for files in ({"tls_key": key, "tls_cert": bad}, {"tls_key": bad, "tls_cert": key}):
        with pytest.raises(ConfigError, match=r"bad\.pem.*PEM"):
            server_context(make_settings(**files))
    good = {"tls_key": key, "tls_cert": str(certificates / "server.pem")}
    with pytest.raises(ConfigError, match="--tls-client-ca"):
        server_context(make_settings(**good, tls_client_ca=bad))


# ── several processes ──


def test_several_processes_share_both_ports(serve: Serve) -> None:
    server = serve("--processes", "2")
    server.process.wait_for_line("REST on", times=2)
    token = server.token("admin")
    with server.caller(token) as caller:
        assert caller.get("/v1/jobs").status_code == 200
    children = _children(server.process.pid)
    assert len(children) == 2
    _kill(children[0])
    server.process.wait_for_line("REST on", times=3)
    with server.caller(token) as caller:
        assert caller.get("/v1/jobs").status_code == 200
    assert server.stop() == 0


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def _kill(pid: int) -> None:
    subprocess.run(["kill", "-9", str(pid)], check=True)


# ── the end ──


@contextmanager
def waiting(server: Served, job: int) -> Iterator[list[int]]:
    """A caller that waits for the result of a job; its answer's status is in the list."""
    statuses: list[int] = []

    def ask() -> None:
        with server.caller() as caller:
            try:
                answer = caller.get(f"/v1/jobs/{job}/result", params={"wait": 50})
                statuses.append(answer.status_code)
            except httpx.TransportError:
                statuses.append(0)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield statuses
    finally:
        thread.join(PATIENCE)


def test_a_stop_answers_those_who_wait_and_it_starts_again(serve: Serve) -> None:
    server = serve("--grace", "100")
    with server.caller() as caller:
        job = caller.post("/v1/jobs", json={"task": "mail"}).json()["id"]
        with waiting(server, job) as statuses:
            wait_until("the request to be there", lambda: _connections(server) > 1)
            assert server.stop(signal.SIGINT) == 0
        assert statuses in ([202], [503])
    assert "nothing new" in server.process.output
    server.start_again()
    with server.caller() as caller:
        assert len(caller.get("/v1/jobs").json()["jobs"]) == 1
    assert server.stop() == 0


def _connections(server: Served) -> int:
    """How many connections to the REST port there are, as the system sees them."""
    port = f":{int(server.rest.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(port) and row[3] == "01" for row in rows)
