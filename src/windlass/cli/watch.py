"""Which changes of the source start the workers anew. Needs the extra `watch`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from windlass.errors import MissingExtraError

_SOURCES = (".py", ".toml")
_DATABASES = (".db", "-wal", "-shm", "-journal")
_QUIET_MS = 200


class Watcher:
    """Watches a folder: Python and TOML files, or with `every_file` all but databases."""

    def __init__(self, folder: Path, *, every_file: bool) -> None:
        try:
            import watchfiles
        except ImportError:
            raise MissingExtraError("--watch", "watch") from None
        self._watchfiles = watchfiles
        self._ignore = watchfiles.DefaultFilter()
        self.folder = folder
        self._every_file = every_file

    def _is_source(self, change: Any, path: str) -> bool:
        if not self._ignore(change, path) or path.endswith(_DATABASES):
            return False
        return self._every_file or path.endswith(_SOURCES)

    async def changes(self, stop: asyncio.Event) -> AsyncIterator[Path]:
        """One changed file for each burst of changes, until `stop` is set."""
        watching = self._watchfiles.awatch(
            self.folder, watch_filter=self._is_source, stop_event=stop, debounce=_QUIET_MS
        )
        async for changed in watching:
            yield Path(min(path for _, path in changed))
