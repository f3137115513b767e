"""When the workers of this process are told to look: by the server's notifications, or here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass.model.job import Job, JobState
from windlass.store.hints import Due, Hints
from windlass.store.port import Listening
from windlass.stores.postgres.calls import Calls, Closable
from windlass.stores.postgres.listener import Listener
from windlass.stores.postgres_connections.address import ServerAddress


class Waking:
    """Listens on `channel`, if it should, from when there is a subscriber and the store is open.

    `expect_new` is called before every hint.
    """

    def __init__(
        self,
        calls: Calls,
        address: ServerAddress,
        channel: str,
        *,
        listens: bool,
        expect_new: Callable[[], None],
        on_migration: Callable[[], None],
    ) -> None:
        self._calls = calls
        self._address = address
        self._channel = channel
        self.listens = listens
        self._expect_new = expect_new
        self._on_migration = on_migration
        self._hints = Hints()
        self._listening: list[Listening] = []
        self._listener: Listener | None = None

    def subscribe(
        self, hint: Callable[[], None], listening: Listening, due: Due
    ) -> Callable[[], None]:
        unsubscribe = self._hints.subscribe(hint, due)
        self._listening.append(listening)
        if self._listener is not None and self._listener.is_listening:
            listening(None)
        self.start()

        def stop() -> None:
            unsubscribe()
            if listening in self._listening:
                self._listening.remove(listening)

        return stop

    def start(self) -> None:
        if self.listens and self._listener is None and self._hints and self._calls.is_open:
            self._listener = Listener(
                self._address,
                self._channel,
                self.hint,
                self._hints.due,
                self._on_migration,
                self._tell_listening,
            )

    def _tell_listening(self, error: BaseException | None) -> None:
        for listening in tuple(self._listening):
            listening(error)

    def stop(self) -> list[Closable]:
        """The parts to close."""
        listener, self._listener = self._listener, None
        return [] if listener is None else [listener]

    def hint(self) -> None:
        """There may be something to claim."""
        self._expect_new()
        self._hints.ready()

    def hint_here(self) -> None:
        """After a write: for workers of this process, when no notification will reach them."""
        self._expect_new()
        if self._listener is None or not self._listener.is_listening:
            self.hint()

    def hint_due(self, seconds: float | None) -> None:
        """A job is due in so many seconds, or at a time that is not known."""
        self._hints.due(seconds)

    def hint_due_here(self) -> None:
        """After a write that may have scheduled jobs, at times that are not known here: for
        workers of this process, when no notification will reach them."""
        if self._listener is None or not self._listener.is_listening:
            self._hints.due(None)

    def hint_scheduled(self, jobs: Iterable[Job]) -> None:
        """After jobs were written: workers of this process know exactly when they are due."""
        waits = [
            (job.run_at - job.updated_at).total_seconds()
            for job in jobs
            if job.state is JobState.SCHEDULED
        ]
        if waits:
            self._hints.due(min(waits))
