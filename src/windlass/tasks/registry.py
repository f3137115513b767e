"""The tasks one program knows, by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from windlass.errors import DuplicateTaskError, UnknownTaskError
from windlass.tasks.task import Task

AnyTask = Task[Any, Any]


class Registry:
    """Names to tasks; a name belongs to one function."""

    def __init__(self) -> None:
        self._tasks: dict[str, AnyTask] = {}

    def add(self, task: AnyTask) -> None:
        known = self._tasks.get(task.name)
        if known is not None and known.function is not task.function and not _same(known, task):
            raise DuplicateTaskError(
                f"two functions are called task {task.name!r}; give one of them another name="
            )
        self._tasks[task.name] = task

    def find(self, name: str) -> AnyTask | None:
        return self._tasks.get(name)

    def get(self, name: str) -> AnyTask:
        task = self._tasks.get(name)
        if task is None:
            close = difflib.get_close_matches(name, self._tasks, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise UnknownTaskError(f"no task is called {name!r}{hint}")
        return task

    def __iter__(self) -> Iterator[AnyTask]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tasks)


def _same(one: AnyTask, other: AnyTask) -> bool:
    """Whether both come from one definition, as when a script is imported a second time."""
    return (
        one.__qualname__ == other.__qualname__
        and _module_file(one) is not None
        and _module_file(one) == _module_file(other)
    )


def _module_file(task: AnyTask) -> str | None:
    code = getattr(task.function, "__code__", None)
    return getattr(code, "co_filename", None)
