"""Which changes of the source start the workers anew. Needs the extra `watch`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from windlass.errors import MissingExtraError

_SOURCES = (".py", ".toml")
_DATABASES = (".db", "-wal", "-shm", "-journal")
_QUIET_MS = 200


class Watcher:
    """Watches a folder: Python and TOML files, or with `every_file` all but databases; and a
    crontab wherever it is, also one that does not exist yet."""

    def __init__(self, folder: Path, *, every_file: bool, crontab: Path | None = None) -> None:
        try:
            import watchfiles
        except ImportError:
            raise MissingExtraError("--watch", "watch") from None
        self._watchfiles = watchfiles
        self._ignore = watchfiles.DefaultFilter()
        self.folder = folder
        self._every_file = every_file
        self._crontab = crontab

    def describe(self) -> str:
        return str(self.folder) if self._crontab is None else f"{self.folder} and {self._crontab}"

    def _is_source(self, change: Any, path: str) -> bool:
        if not self._ignore(change, path) or path.endswith(_DATABASES):
            return False
        return self._every_file or path.endswith(_SOURCES)

    async def changes(self, stop: asyncio.Event) -> AsyncIterator[Path]:
        """One changed file for each burst of changes, until `stop` is set."""
        found: asyncio.Queue[Path | None] = asyncio.Queue()
        watching = [asyncio.create_task(self._watch(found, stop, self.folder, self._is_source))]
        if self._crontab is not None and self._crontab.parent.is_dir():
            # Its folder rather than the file: editors replace files.
            watching.append(
                asyncio.create_task(
                    self._watch(
                        found, stop, self._crontab.parent, self._is_crontab, recursive=False
                    )
                )
            )
        try:
            while (path := await found.get()) is not None:
                yield path
        finally:
            stop.set()
            await asyncio.gather(*watching)

    def _is_crontab(self, change: Any, path: str) -> bool:
        return Path(path) == self._crontab

    async def _watch(
        self,
        found: asyncio.Queue[Path | None],
        stop: asyncio.Event,
        folder: Path,
        is_wanted: Callable[[Any, str], bool],
        *,
        recursive: bool = True,
    ) -> None:
        try:
            async for changed in self._watchfiles.awatch(
                folder,
                watch_filter=is_wanted,
                stop_event=stop,
                debounce=_QUIET_MS,
                recursive=recursive,
            ):
                found.put_nowait(Path(min(path for _, path in changed)))
        finally:
            found.put_nowait(None)
