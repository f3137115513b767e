"""A folder of tasks: `tasks/hello.py` is task `hello`, `tasks/users/verify.py` is `users/verify`.

A Python file defines `task(payload, helpers)` or a function of the file's own name. Any other file
its owner may execute is a task too, by its name without the ending. Names are letters, digits, `_`
and `-`; what begins with `_` or `.` is left alone.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from windlass.errors import TaskLoadError
from windlass.model.outcome import clip, message_of
from windlass.tasks.executable import executable_task
from windlass.tasks.options import TaskOptions
from windlass.tasks.task import Enqueuer, Task, make_task

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_logger = logging.getLogger("windlass")


def load_folder(folder: str | os.PathLike[str], enqueuer: Enqueuer) -> list[Task[Any, Any]]:
    """Every task in the folder, by name. A Python file wins over an executable of its name."""
    root = Path(folder)
    if not root.is_dir():
        raise TaskLoadError(f"there is no tasks folder at {root}")
    tasks: dict[str, Task[Any, Any]] = {}
    for path in sorted(_files(root), key=lambda path: (path.suffix != ".py", path)):
        parts = path.relative_to(root).with_suffix("").parts
        if not all(_NAME.fullmatch(part) for part in parts):
            _logger.warning("%r is no task: names are letters, digits, _ and -", str(path))
            continue
        name = "/".join(parts)
        if name in tasks:
            _logger.warning("%s is left out: task %s is already another file's", path, name)
            continue
        function = load_file(path) if path.suffix == ".py" else executable_task(path)
        tasks[name] = make_task(name, function, TaskOptions(), enqueuer, typed=False)
    return list(tasks.values())


def _files(root: Path) -> Iterator[Path]:
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if any(part.startswith(("_", ".")) for part in relative.parts) or not path.is_file():
            continue
        if path.suffix == ".py" or os.access(path, os.X_OK):
            yield path


def load_file(path: str | os.PathLike[str]) -> Callable[..., Any]:
    """The function a task file defines."""
    file = Path(path)
    module_name = "windlass_tasks_" + re.sub(r"\W", "_", str(file.resolve().with_suffix("")))
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise TaskLoadError(f"{file} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    module.__windlass_file__ = str(file)  # type: ignore[attr-defined]
    sys.modules[module_name] = module
    own_name = file.stem.replace("-", "_")
    try:
        spec.loader.exec_module(module)
        function = getattr(module, "task", None)
        if function is None:
            function = getattr(module, own_name, None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's module may raise anything, a cancellation too
        sys.modules.pop(module_name, None)
        why = clip(message_of(error), 2_000)
        raise TaskLoadError(f"{file} cannot be loaded: {type(error).__name__}: {why}") from error
    if isinstance(function, Task):
        function = function.function
    if not callable(function):
        raise TaskLoadError(f"{file} defines neither task(payload, helpers) nor {own_name}()")
    found: Callable[..., Any] = function
    return found
