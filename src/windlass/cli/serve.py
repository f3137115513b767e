"""`windlass serve`: one serving process, or a supervisor of several."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from windlass import config
from windlass.app import App
from windlass.cli import supervised
from windlass.cli.base import Command
from windlass.cli.locate import find_app
from windlass.cli.metrics import figures_folder, shared_figures
from windlass.cli.place import connection_option, log_level_option, schema_option
from windlass.cli.run import leave_early_on_signals, loop_factory, wait_for_database
from windlass.cli.values import seconds_option
from windlass.errors import ConfigError, MissingExtraError
from windlass.observe import logs
from windlass.server.settings import (
    DEFAULT_BIND,
    DEFAULT_GRPC_BIND,
    DEFAULT_KEEP,
    Address,
    Dashboard,
    ServeSettings,
    make_settings,
)
from windlass.server.sockets import address_of, open_port

PORTS = "_WINDLASS_PORTS"
"""In the environment of a supervised process: the descriptor of the REST port's socket, and where
the streams' port is."""

_SETTINGS = (
    "bind",
    "grpc_bind",
    "processes",
    "tls_cert",
    "tls_key",
    "tls_client_ca",
    "jwks",
    "jwt_issuer",
    "jwt_audience",
    "insecure",
    "open_probes",
    "webhook_allow",
    "grace",
    "keep",
    "rate",
    "dashboard",
)


@click.command(
    cls=Command,
    examples=(
        "windlass serve                                  # sqlite:///windlass.db, loopback only",
        "windlass serve -c postgresql://db.example/shop  # any number of them over one database",
        "windlass serve shop:app --processes 2           # with the options of its tasks",
        "windlass serve --bind 0.0.0.0:8080 --tls-cert cert.pem --tls-key key.pem",
        "windlass serve --jwks https://id.example/keys --jwt-issuer https://id.example"
        " --jwt-audience jobs",
    ),
)
@click.argument("target", metavar="[MODULE:APP]", required=False)
@connection_option
@schema_option
@click.option("--bind", metavar="HOST:PORT", help=f"The port of REST.  [default: {DEFAULT_BIND}]")
@click.option(
    "--grpc-bind",
    metavar="HOST:PORT",
    help=f"The port of the streams.  [default: {DEFAULT_GRPC_BIND}]",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Processes to start and keep alive; they share both ports.",
)
@click.option("--tls-cert", metavar="FILE", help="Serve TLS on both ports with this certificate.")
@click.option("--tls-key", metavar="FILE", help="Its key, without a passphrase.")
@click.option(
    "--tls-client-ca",
    metavar="FILE",
    help="Ask clients for a certificate, too, that one of these authorities has signed.",
)
@click.option("--jwks", metavar="FILE|URL", help="Take JWTs that are signed with these keys.")
@click.option("--jwt-issuer", metavar="NAME", help="Who must have made them (claim iss).")
@click.option("--jwt-audience", metavar="NAME", help="For whom they must be made (claim aud).")
@click.option(
    "--insecure",
    is_flag=True,
    help="Start without any token on an address that other machines reach: everyone is an admin.",
)
@click.option(
    "--open-probes",
    is_flag=True,
    help="Answer /healthz, /readyz and /metrics without a token on every address.",
)
@click.option(
    "--max-payload",
    type=click.IntRange(1),
    metavar="BYTES",
    help="The largest payload.  [default: the setting max_payload, 256 KiB]",
)
@click.option(
    "--webhook-allow",
    metavar="CIDR",
    multiple=True,
    help="Let webhooks be posted to this private network; may be repeated.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    metavar="CALLS",
    help="The most REST calls per second and token, in each process.  [default: any number]",
)
@click.option(
    "--keep",
    metavar="TIME",
    callback=seconds_option,
    help="How long completed jobs are kept that do not say: seconds, or 90m, 12h, 7d."
    "  [default: the setting keep, or 24h]",
)
@click.option(
    "--grace",
    type=click.FloatRange(0, 86_400),
    metavar="SECONDS",
    help="How long a stop takes results.  [default: 25]",
)
@click.option(
    "--dashboard",
    type=click.Choice([choice.value for choice in Dashboard]),
    default=Dashboard.ON.value,
    show_default=True,
    help="Pages in a browser, on the port of REST; read-only ones change nothing.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), help="[default: text]")
@log_level_option(expose_value=True)
@click.pass_context
def serve(ctx: click.Context, /, **options: Any) -> None:
    """Serve the jobs to programs in any language, by REST and by gRPC streams, and to people by the
    dashboard.

    Callers show a token, which windlass token create makes. As long as there is none, the server
    answers programs of this machine only, and takes each for an admin.

    MODULE:APP names an App whose tasks' options then apply to jobs that are added; without it any
    task can be named. A server does the upkeep of the database and posts webhooks, and runs no
    other jobs. It keeps nothing of its own: any number of them work over one PostgreSQL.

    SIGTERM, SIGHUP or Ctrl-C hands out nothing more and takes results until no stream is open or
    the grace is over; a second one waits no longer, and a third ends the process at once.
    """
    supervisor = supervised.connect()
    settings = make_settings(**{name: options[name] for name in _SETTINGS})
    _check_extra()
    if supervisor is None and settings.processes > 1:
        if not options["target"]:
            _check_store(_make_app(options), settings)
        ctx.exit(_supervise(settings, options))
    ctx.call_on_close(leave_early_on_signals())
    app = _make_app(options)
    _check_store(app, settings)
    rest, streams = _given_ports() or _own_ports(settings)
    logs.configure(
        options["log_level"] or app.settings.log_level,
        options["log_format"] or app.settings.log_format,
    )
    with rest, asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(app, settings, rest, streams, figures_folder(), supervisor))


def _check_extra() -> None:
    """MissingExtraError where a package is missing that only servers need."""
    try:
        import windlass.server.serving  # noqa: F401
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] == "windlass":
            raise
        raise MissingExtraError(f"windlass serve (which imports {error.name})", "server") from error


def _make_app(options: Mapping[str, Any]) -> App:
    for_app = {
        "url": options["connection"],
        "schema": options["schema"],
        "max_payload": options["max_payload"],
    }
    if options["target"]:
        app = find_app(options["target"])
        app.configure(**for_app)
    else:
        app = App(options["connection"], **{n: v for n, v in for_app.items() if n != "url"})
    if options["keep"] is not None or app.settings.keep is None:
        app.configure(keep=DEFAULT_KEEP if options["keep"] is None else options["keep"])
    return app


def _check_store(app: App, settings: ServeSettings) -> None:
    """ConfigError where its jobs cannot be served; the database need not be there yet."""
    able = app.store.capabilities
    if not able.server:
        raise ConfigError(f"the jobs in {app.place} cannot be served: name the database itself")
    if settings.processes > 1 and not able.shared:
        raise ConfigError(
            "jobs in memory:// live in one process; leave out --processes, or name a file or a"
            " database: -c sqlite:///jobs.db"
        )


async def _serve(
    app: App,
    settings: ServeSettings,
    rest: socket.socket,
    streams: Address,
    figures: Path | None,
    supervisor: supervised.Supervised | None,
) -> None:
    from windlass.server.serving import Serving

    def begun() -> None:
        gc.collect()
        gc.freeze()  # what is there now stays, so no collection need look at it again
        if supervisor is not None:
            supervisor.say_ready()

    await wait_for_database(app)
    try:
        await Serving(app, settings, rest, streams, figures).run(begun)
    finally:
        await app.close()


# ── ports and processes ──


def _own_ports(settings: ServeSettings) -> tuple[socket.socket, Address]:
    """The REST port, bound; and where the streams' port is, which can be opened."""
    rest = open_port(settings.bind, "--bind")
    try:
        with open_port(settings.grpc_bind, "--grpc-bind") as streams:
            # Port 0 is chosen again when it is opened: nothing need know it before.
            return rest, Address(address_of(streams).host, settings.grpc_bind.port)
    except BaseException:
        rest.close()
        raise


def _given_ports() -> tuple[socket.socket, Address] | None:
    """As the supervisor of this process has opened them."""
    ports = os.environ.pop(PORTS, None)
    if ports is None:
        return None
    number, host, port = ports.split(" ")
    os.set_inheritable(int(number), False)
    return socket.socket(fileno=int(number)), Address(host, int(port))


def _supervise(settings: ServeSettings, options: Mapping[str, Any]) -> int:
    from windlass.cli.supervisor import Supervisor

    command = [sys.executable, "-P", "-m", "windlass", *sys.argv[1:]]
    with ExitStack() as stack:
        figures = stack.enter_context(shared_figures())
        rest = stack.enter_context(open_port(settings.bind, "--bind"))
        streams = open_port(settings.grpc_bind, "--grpc-bind", shared=True)
        stack.enter_context(streams)
        at = address_of(streams)
        chosen = config.load({name: options[name] for name in ("log_level", "log_format")})
        logs.configure(chosen.log_level, chosen.log_format)
        supervisor = Supervisor(
            command,
            settings.processes,
            None,
            noun="server",
            descriptors=(rest.fileno(),),
            environment={PORTS: f"{rest.fileno()} {at.host} {at.port}", **figures.environment},
            on_end=figures.keep,
        )
        return asyncio.run(supervisor.run())
