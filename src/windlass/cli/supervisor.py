"""Several processes of workers or servers, kept alive.

They are spawned, never forked, each as `python -m windlass run …` (or `serve …`) in a session of
its own: a Ctrl-C in the terminal reaches the supervisor alone, which passes it on, so that no
worker counts it twice. What is said of workers here is true of servers, too.

    a worker …                            the supervisor …
    ended with 0                          lets it be (it ran dry with --once, or was told to stop)
    had its --max-jobs                    starts it anew
    died although it had worked           starts it anew, after a pause of 0.5 to 30 s
    ended with 57 (schema too new)        stops the others and ends with 57
    failed before it ever worked          stops the others and ends with its code
    … while files are watched             waits for the next change
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence

from windlass.cli import supervised
from windlass.cli.base import DONE, FAILED, SCHEMA_TOO_NEW, USAGE
from windlass.cli.watch import Watcher
from windlass.engine.signals import stop_signals
from windlass.observe.logs import scoped

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_HEALTHY = 60.0
"""Seconds of work after which a death counts as the first again."""

_logger = scoped(None, "cli")


class Child:
    """One worker process and the socket that tells whether it works."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        ours: socket.socket,
        changed: asyncio.Event,
        one_works: asyncio.Event,
    ) -> None:
        self.process = process
        self._one_works = one_works
        self.changed = changed
        """Set when the source changed after this process was started."""
        self.is_ready = False
        self.started_at = asyncio.get_running_loop().time()
        self._socket = ours
        ours.setblocking(False)
        asyncio.get_running_loop().add_reader(ours, self._on_readable)

    def _on_readable(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        try:
            self.is_ready = self._socket.recv(1) == supervised.READY
        except OSError:
            pass  # it died; its exit code says more
        if self.is_ready:
            self._one_works.set()

    def signal(self, number: int) -> None:
        try:
            self.process.send_signal(number)
        except ProcessLookupError:
            pass  # ended just now

    async def wait(self) -> int:
        code = await self.process.wait()
        asyncio.get_running_loop().remove_reader(self._socket)
        if not self.is_ready:
            self._on_readable()  # it may have said so with its last breath
        self._socket.close()
        return code


class Supervisor:
    """Keeps `count` processes of `command` running until it is told to stop."""

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        watcher: Watcher | None,
        *,
        noun: str = "worker",
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        on_end: Callable[[int], None] = lambda process: None,
    ) -> None:
        """`noun` is what the log calls a process. Each inherits the descriptors, and has more in
        its environment. `on_end` is told the id of each that has ended."""
        self._command = list(command)
        self._noun = noun
        self._descriptors = tuple(descriptors)
        self._environment = dict(environment or {})
        self._on_end = on_end
        self._count = count
        self._watcher = watcher
        self._children: dict[int, Child] = {}
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()
        self._one_works = asyncio.Event()
        self._signals = 0
        self._exit_code = DONE

    async def run(self) -> int:
        """The exit code: 0 if all ended cleanly, 57 or 2 if a worker said so, else 1."""
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, self._on_signal, number)
        watching = asyncio.create_task(self._watch()) if self._watcher else None
        await asyncio.gather(*(self._keep(slot) for slot in range(self._count)))
        self._stop.set()
        if watching is not None:
            await watching
        return self._exit_code

    # ── one slot ──

    async def _keep(self, slot: int) -> None:
        """Run one process after the other until there is a reason to stop.

        The first goes ahead of the others, so that what keeps all from starting is said once.
        """
        if slot > 0:
            await self._first_of(self._one_works, self._stop)
        pause = 0.0
        while not self._stop.is_set():
            child = await self._start(slot)
            code = await child.wait()
            self._on_end(child.process.pid)
            del self._children[slot]
            lived = asyncio.get_running_loop().time() - child.started_at
            if self._stop.is_set():
                self._note_end(code, child)
                return
            if child.changed.is_set():
                pause = 0.0
            elif code == supervised.AGAIN:
                _logger.info("worker %d had its --max-jobs and starts anew", child.process.pid)
            elif code == DONE:
                self._one_works.set()
                return
            elif code == SCHEMA_TOO_NEW and child.is_ready:
                self._exit_code = code
                self._begin_stop()
                return
            elif not child.is_ready:
                if not await self._never_worked(code, child):
                    return
            else:
                again = pause and lived < _HEALTHY
                pause = min(pause * 2, _LONGEST_PAUSE) if again else _FIRST_PAUSE
                _logger.error(
                    "%s %d died (%s); another starts in %.1f s",
                    self._noun,
                    child.process.pid,
                    _describe(code),
                    pause,
                )
                await self._sleep(pause, child)

    async def _start(self, slot: int) -> Child:
        changed = self._changed
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                env={
                    **os.environ,
                    **self._environment,
                    supervised.MARKER: str(theirs.fileno()),
                },
                pass_fds=(theirs.fileno(), *self._descriptors),
                start_new_session=True,
            )
        child = Child(process, ours, changed, self._one_works)
        self._children[slot] = child
        if self._stop.is_set() or changed.is_set():
            child.signal(signal.SIGTERM)
        return child

    async def _never_worked(self, code: int, child: Child) -> bool:
        """Whether to try again: only a change of the source can help."""
        if self._watcher is not None:
            _logger.error("the worker could not start; waiting for a change of the source")
            await self._first_of(child.changed, self._stop)
            return True
        self._exit_code = code if code in (USAGE, SCHEMA_TOO_NEW) else FAILED
        self._begin_stop()
        return False

    def _note_end(self, code: int, child: Child) -> None:
        """A worker told to stop before it had begun dies of the signal itself, which is clean."""
        clean = code in (DONE, supervised.AGAIN) or (
            not child.is_ready and code in (-signal.SIGTERM, -signal.SIGINT)
        )
        if not clean and self._exit_code == DONE:
            _logger.error("%s %d ended badly (%s)", self._noun, child.process.pid, _describe(code))
            self._exit_code = code if code == SCHEMA_TOO_NEW else FAILED

    # ── what comes from outside ──

    def _on_signal(self, number: signal.Signals) -> None:
        self._signals += 1
        if self._signals == 1:
            _logger.info("%s: %ss finish what they run; again to hurry", number.name, self._noun)
        self._begin_stop()

    def _begin_stop(self) -> None:
        self._stop.set()
        self._signal_all()

    def _signal_all(self) -> None:
        for child in self._children.values():
            child.signal(signal.SIGTERM)

    async def _watch(self) -> None:
        assert self._watcher is not None
        _logger.info("watching %s", self._watcher.describe())
        async for path in self._watcher.changes(self._stop):
            if not self._stop.is_set():
                _logger.info("%s changed: workers start anew", path)
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()
                self._signal_all()

    async def _sleep(self, seconds: float, child: Child) -> None:
        try:
            await asyncio.wait_for(self._first_of(child.changed, self._stop), seconds)
        except TimeoutError:
            pass

    @staticmethod
    async def _first_of(*events: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def _describe(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
