"""Where a server is and who calls: URLs, the token, TLS."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.remote.certificates import make_certificate, server_context
from tests.remote.serving import ADMIN, serving
from windlass import App
from windlass import config as configuration
from windlass.errors import ConfigError, StoreUnavailableError
from windlass.store_kinds import KINDS, kind_of, make_store
from windlass.stores.remote import RemoteStore, ServerAddress

SECRET = "wl_this-is-a-secret"


@pytest.mark.parametrize(
    ("url", "host", "port", "name"),
    [
        ("grpc://db.example", "db.example", 9091, "db.example:9091"),
        ("grpc://db.example:7000/", "db.example", 7000, "db.example:7000"),
        ("grpcs://10.0.0.7", "10.0.0.7", 9091, "10.0.0.7:9091"),
        ("grpc://[::1]:7000", "::1", 7000, "[::1]:7000"),
    ],
)
def test_a_url_names_a_host_and_a_port(url: str, host: str, port: int, name: str) -> None:
    address = ServerAddress.parse(url)
    assert (address.host, address.port, address.name) == (host, port, name)
    assert address.is_encrypted == url.startswith("grpcs")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("grpc://", "names no host"),
        ("grpc://:9091", "names no host"),
        ("grpc://host:port", "names no server"),
        ("grpc://host:99999", "names no server"),
        ("grpc://host/path", "more than a host and a port"),
        ("grpc://host?token=x", "more than a host and a port"),
        ("grpc://user:hidden@host", "by the setting token, or by WINDLASS_TOKEN"),
    ],
)
def test_a_url_that_says_something_else_is_refused(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        App(url)
    assert "hidden" not in str(refused.value)


def test_settings_of_tls_need_a_url_with_tls() -> None:
    with pytest.raises(ConfigError, match="for grpcs:// URLs"):
        App("grpc://host", tls_ca="ca.pem")


def test_the_kinds_are_registered() -> None:
    assert kind_of("grpc://x") is kind_of("grpcs://x") is KINDS["grpc"]
    store = make_store(configuration.load({"url": "grpc://x"}, environ={}))
    assert isinstance(store, RemoteStore)
    assert not store.capabilities.upkeep
    assert not store.capabilities.sql


def test_a_missing_extra_names_the_install_line() -> None:
    program = (
        "import sys\n"
        "sys.modules['zttp'] = None\n"
        "from windlass import App\n"
        "try:\n"
        "    App('grpc://host')\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip().startswith("MissingExtraError")
    assert "pip install 'windlass[remote]'" in done.stdout


# ── the token ──


def test_the_token_comes_from_the_environment_and_is_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WINDLASS_TOKEN", SECRET)
    app = App("grpc://127.0.0.1:1")
    assert app.settings.token == SECRET
    shown = [repr(app), repr(app.settings), str(app.settings), app.place, repr(app.store)]

    async def main() -> None:
        with pytest.raises(StoreUnavailableError) as refused:
            await app.open()
        shown.append(f"{refused.value!r}")

    asyncio.run(main())
    assert not any(SECRET in text for text in shown)


@pytest.mark.parametrize("token", ["has space", "näh", "", "x" * 9_000, "nul\0", 7, ["wl_x"]])
def test_a_token_that_cannot_be_one_is_refused_without_being_shown(token: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        App("grpc://host", token=token)
    assert "token" in str(refused.value)
    assert str(token) not in str(refused.value) or not str(token)


# ── TLS ──


def _works(address: ServerAddress) -> None:
    async def main() -> None:
        store = RemoteStore(address)
        await store.open()
        assert await store.now() > 0
        await store.close()

    asyncio.run(main())


def test_a_server_with_a_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = make_certificate(tmp_path, "server")
    other = make_certificate(tmp_path, "other")
    with serving("memory://", tls=server_context(own)) as served:

        def to(ca: Path | None) -> ServerAddress:
            named = None if ca is None else str(ca)
            return served.address(ADMIN, is_encrypted=True, ca=named)

        _works(to(own))
        for unknown in (other, None):
            with pytest.raises(StoreUnavailableError, match="certificate") as refused:
                _works(to(unknown))
            assert not refused.value.is_temporary
        monkeypatch.setenv("SSL_CERT_FILE", str(own))
        _works(to(None))
        with pytest.raises(StoreUnavailableError):
            _works(served.address(ADMIN))
        with pytest.raises(ConfigError, match=r"no\.pem cannot be used"):
            _works(to(tmp_path / "no.pem"))


def test_a_server_that_asks_for_certificates(tmp_path: Path) -> None:
    own = make_certificate(tmp_path, "server")
    client = make_certificate(tmp_path, "client")
    with serving("memory://", tls=server_context(own, client)) as served:
        address = served.address(ADMIN, is_encrypted=True, ca=str(own), certificate=str(client))
        _works(address)
        with pytest.raises(StoreUnavailableError):
            _works(served.address(ADMIN, is_encrypted=True, ca=str(own)))
