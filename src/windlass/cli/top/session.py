"""Looks, keys and changes, until it is over.

There is one look after another, and one change at a time; keys are answered meanwhile. A look that
fails leaves the last picture where it is, says why, and is followed by the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from windlass.app import App
from windlass.cli.base import one_line
from windlass.cli.place import Place
from windlass.cli.top.frame import UNANSWERED, Frame
from windlass.cli.top.keys import Look, Pause, Quit, Retry, press
from windlass.cli.top.picture import Picture, look
from windlass.cli.top.screen import Screen
from windlass.cli.top.view import View
from windlass.engine.signals import Signals
from windlass.errors import WindlassError

PATIENCE = 2.0
"""Seconds of a look after which it is told that there is no answer yet."""


async def show(app: App, place: Place, every: float) -> None:
    """Until q or a signal. What cannot be mended by waiting is raised, if it is there from the
    beginning."""
    session = Session(app, place, every)
    await session.begin()
    with _quiet(), Screen(session.pressed, session.draw, session.over.set) as screen:
        await session.run(screen)


class Session:
    """What is shown, and who watches."""

    def __init__(self, app: App, place: Place, every: float) -> None:
        self._app = app
        self._place = place
        self._every = every
        self._view = View()
        self._picture: Picture | None = None
        self._trouble = ""
        self._screen: Screen | None = None
        self._frame: Frame | None = None
        self._asked = asyncio.Event()
        """To look at once."""
        self._changing: asyncio.Task[None] | None = None
        self.over = asyncio.Event()

    async def begin(self) -> None:
        """The first look; a database that is away for a while is waited for."""
        try:
            self._saw(await look(self._app))
        except WindlassError as error:
            if not getattr(error, "is_temporary", False):
                raise
            self._trouble = one_line(error)

    async def run(self, screen: Screen) -> None:
        self._screen, self._frame = screen, Frame(self._app.place, screen.glyphs)
        signals = Signals(lambda name: self.over.set(), self.over.set)
        signals.install()
        looking = asyncio.create_task(self._look_on(), name="windlass-top")
        over = asyncio.create_task(self.over.wait())
        try:
            self.draw()
            await asyncio.wait({looking, over}, return_when=asyncio.FIRST_COMPLETED)
            if looking.done():
                looking.result()  # a fault of ours
        finally:
            signals.remove()
            tasks = [task for task in (looking, over, self._changing) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def draw(self) -> None:
        if self._screen is not None and self._frame is not None:
            size = self._screen.size
            self._screen.draw(self._frame.lines(self._picture, self._view, size, self._trouble))

    def pressed(self, key: str) -> None:
        tenant = self._app.settings.tenant
        action = press(key, self._view, self._picture, tenant)
        match action:
            case None:
                pass
            case Quit():
                self.over.set()
            case Look():
                self._asked.set()
            case Pause() | Retry() if self._changing is None or self._changing.done():
                self._changing = asyncio.create_task(self._change(action))
            case _:
                self._view.say("the last change is still under way")
        self.draw()

    def _saw(self, picture: Picture) -> None:
        self._picture, self._trouble = picture, ""
        self._view.settle(picture)

    async def _look_on(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), self._every)
            self._asked.clear()
            looking = asyncio.create_task(look(self._app, self._view.subject(self._picture)))
            try:
                while not (await asyncio.wait({looking}, timeout=PATIENCE))[0]:
                    self._trouble = UNANSWERED
                    self.draw()
                self._saw(looking.result())
            except (WindlassError, OSError) as error:
                self._trouble = one_line(error)
            finally:
                looking.cancel()
            self.draw()

    async def _change(self, action: Pause | Retry) -> None:
        try:
            self._view.say(await change(self._place, action))
            self._asked.set()
        except (WindlassError, OSError) as error:
            self._view.say(one_line(error), is_trouble=True)
        self.draw()


async def change(place: Place, action: Pause | Retry) -> str:
    """Do it, on a connection of its own, since the one for looking changes nothing; and say what
    became of it."""
    app = place.open_app()
    try:
        match action:
            case Pause(kind=kind, name=name, is_pausing=is_pausing):
                verb = app.client.pause if is_pausing else app.client.resume
                await verb(**{kind: name})
                tenant = app.settings.tenant
                owner = f" of tenant {tenant!r}" if tenant else ""
                done = "paused; p resumes it" if is_pausing else "resumed"
                return f"{kind} {name}{owner} is {done}"
            case Retry(job=job):
                changed = await app.client.retry_jobs([job])
                return f"job {job} will run" if changed else f"job {job} is no longer failed"
    finally:
        await app.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """No line of the log goes to the screen; what concerns the picture is told there."""
    logger = logging.getLogger("windlass")
    handler, before = logging.NullHandler(), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
