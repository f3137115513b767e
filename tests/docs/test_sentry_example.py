"""The middleware on the page about monitoring, with Sentry's own SDK and a fake transport."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from tests.docs.doc_pages import DOCS
from windlass import App, RetryAfter


class Kept(Transport):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        event = envelope.get_event()
        if event is not None:
            self.events.append(event)


@pytest.fixture
def kept() -> Iterator[Kept]:
    transport = Kept()
    sentry_sdk.init(
        dsn="https://key@sentry.invalid/1",
        transport=transport,
        default_integrations=False,
        auto_session_tracking=False,
    )
    yield transport
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


def documented() -> Any:
    """The function `report` of the page."""
    page = (DOCS / "monitoring.md").read_text(encoding="utf-8")
    code = page.partition("# reporting.py\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)
    return names["report"]


def test_each_failed_attempt_is_reported_and_nothing_else(kept: Kept) -> None:
    app = App("memory://", middleware=[documented()])

    @app.task
    async def welcome(how: str) -> None:
        sentry_sdk.set_tag("said inside", how)
        if how == "later":
            raise RetryAfter(1000)
        if how != "well":
            raise LookupError(how)

    @app.task(max_attempts=1)
    def thread(how: str) -> None:
        sentry_sdk.set_tag("said inside", how)
        raise LookupError(how)

    async def body() -> None:
        async with app:
            for how in ("well", "badly", "later"):
                await welcome.using(max_attempts=3).aenqueue(how=how)
            await thread.aenqueue(how="thread")
            await app.run_once()

    asyncio.run(body())
    events = {event["tags"]["said inside"]: event for event in kept.events}
    assert set(events) == {"badly", "thread"}
    assert len(kept.events) == 2
    first, last = events["badly"], events["thread"]
    assert (first["tags"]["task"], first["transaction"]) == ("welcome", "welcome")
    assert first["contexts"]["job"] == {"id": 2, "attempt": 1, "queue": None}
    [error] = first["exception"]["values"]
    assert (error["type"], error["value"]) == ("LookupError", "badly")
    assert error["stacktrace"]["frames"][-1]["function"] == "welcome"
    assert last["level"] == "fatal", "no attempt is left"
    assert first.get("level", "error") == "error"
