"""`--metrics-port`, and what several processes share so that each can show the metrics of all."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.errors import ConfigError, MissingExtraError, StoreError
from windlass.model.names import brief
from windlass.observe.logs import scoped
from windlass.server.settings import Address, parse_address
from windlass.server.sockets import address_of, open_port

if TYPE_CHECKING:
    from windlass.app import App
    from windlass.observe.scraping import ScrapePort
    from windlass.store.figures import Depths, FigureStore

FLAG = "--metrics-port"
_FOLDER = "_WINDLASS_FIGURES"
_PORT = "_WINDLASS_METRICS_PORT"
"""In the environment of a supervised process: the folder, and the descriptor of the socket."""
_PATIENCE = 2.0
"""Seconds within which the database must tell its depths; a scrape does not wait for longer."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a supervisor gives to its processes, and what it does when one has ended."""

    environment: Mapping[str, str]
    keep: Callable[[int], None] = lambda process: None
    descriptors: tuple[int, ...] = ()


@contextmanager
def shared_figures() -> Iterator[Given]:
    """A folder for the figures of several processes."""
    from windlass.observe.sharing import keep_ended

    with tempfile.TemporaryDirectory(prefix="windlass-figures-") as name:
        folder = Path(name)
        yield Given({_FOLDER: name}, lambda process: keep_ended(folder, process))


@contextmanager
def shared_port(text: str | None) -> Iterator[Given]:
    """The same, and the socket that all of them answer on; nothing where no port is asked for."""
    if text is None:
        yield Given({})
        return
    _check_extra()
    with ExitStack() as stack:
        opened = stack.enter_context(open_port(_address(text), FLAG))
        opened.listen()
        figures = stack.enter_context(shared_figures())
        environment = {**figures.environment, _PORT: str(opened.fileno())}
        yield Given(environment, figures.keep, (opened.fileno(),))


def figures_folder() -> Path | None:
    """As the supervisor of this process has made it."""
    name = os.environ.pop(_FOLDER, None)
    return None if name is None else Path(name)


def metrics_port(text: str | None) -> MetricsPort | None:
    """The port that this process shows metrics on, bound: its supervisor's, or its own."""
    given = os.environ.pop(_PORT, None)
    if given is not None:
        os.set_inheritable(int(given), False)
        return MetricsPort(socket.socket(fileno=int(given)), figures_folder())
    if text is None:
        return None
    _check_extra()
    return MetricsPort(open_port(_address(text), FLAG), None)


class MetricsPort:
    """Shows the metrics of an app's worker while it works."""

    def __init__(self, opened: socket.socket, folder: Path | None) -> None:
        self._opened = opened
        self._folder = folder
        self._stack = ExitStack()
        self._stack.callback(opened.close)

    def start(self, app: App) -> None:
        """Before the worker, on its event loop; the app counts from now on."""
        from windlass.observe.instruments import Instruments
        from windlass.observe.prometheus import add_depths, figure_store, rendered
        from windlass.observe.scraping import ScrapePort

        if app.instruments is None:
            app.instruments = Instruments()
        look = app.instruments.look
        if self._folder is not None:
            from windlass.observe.sharing import SharedFigures

            shared = SharedFigures(self._folder, look)
            shared.start()
            self._stack.callback(shared.close)
            look = shared.look
        loop = asyncio.get_running_loop()

        def page(accept: str) -> tuple[bytes, str]:
            snapshot = look()
            store = figure_store(app.store)
            if store is not None:
                add_depths(snapshot, _depths(store, loop))
            return rendered(snapshot, accept)

        port: ScrapePort = ScrapePort(self._opened, page)
        port.start()
        where = address_of(self._opened)
        scoped(app.logger, "cli").info("metrics on http://%s/metrics", where)
        self._stack.callback(port.close)

    def close(self) -> None:
        self._stack.close()


def _depths(store: FigureStore, loop: asyncio.AbstractEventLoop) -> Depths | None:
    """What the database says, asked from a thread; None where it does not answer in time, or the
    event loop has no time for the question."""
    asking = asyncio.run_coroutine_threadsafe(store.depths(), loop)
    try:
        return asking.result(_PATIENCE)
    except (StoreError, TimeoutError, concurrent.futures.CancelledError):
        asking.cancel()
        return None


def _address(text: str) -> Address:
    if not text.isdecimal():
        return parse_address(text, FLAG)
    if int(text) > 65_535:
        raise ConfigError(f"{FLAG} must be a port from 0 to 65535, not {brief(text)}")
    return Address("127.0.0.1", int(text))


def _check_extra() -> None:
    """MissingExtraError where the package is missing that writes the metrics."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise MissingExtraError(f"{FLAG} (which imports prometheus_client)", "metrics") from None
