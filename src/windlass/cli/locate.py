"""From `MODULE:APP` to the App: `shop:app`, `shop.work:jobs`, `shop`, `path/to/shop.py:app`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from windlass.app import App
from windlass.errors import ConfigError, CrontabError, TaskLoadError
from windlass.model.outcome import clip, message_of


def find_app(target: str) -> App:
    """The app `target` names.

    ConfigError if there is no such module or attribute, or it is no App; TaskLoadError if the
    module raises while it is imported.
    """
    module_part, attribute = _split(target)
    module = _import(module_part)
    if attribute:
        return _attribute(module, module_part, attribute)
    return _only_app(module, module_part)


def source_folder(target: str) -> Path:
    """The folder whose changes may change the app: a file's own, else the current one."""
    module_part, _ = _split(target)
    return Path(module_part).resolve().parent if _is_file(module_part) else Path.cwd()


def _split(target: str) -> tuple[str, str]:
    module, separator, attribute = target.rpartition(":")
    if not separator:
        return target, ""
    if not module or not attribute:
        raise ConfigError(f"{target!r} is not MODULE:APP; write shop:app or path/to/shop.py:app")
    return module, attribute


def _is_file(module: str) -> bool:
    return module.endswith(".py") or "/" in module


def _import(name: str) -> ModuleType:
    _put_first(str(Path.cwd()))
    try:
        return _import_file(Path(name)) if _is_file(name) else importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"there is no module {name!r} here; run in its folder, or write path/to/file.py:app"
            ) from error
        raise _raised(name, error) from error
    except (ConfigError, CrontabError):
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's module may raise anything, a cancellation too
        raise _raised(name, error) from error


def _raised(name: str, error: BaseException) -> TaskLoadError:
    return TaskLoadError(
        f"{name} cannot be imported: {type(error).__name__}: {clip(message_of(error), 2_000)}"
        " (--log-level debug shows where)"
    )


def _import_file(path: Path) -> ModuleType:
    """Import by the file's own name where that finds this file, so that child processes can too."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    file = path.resolve()
    _put_first(str(file.parent))
    if file.stem not in sys.modules and file.stem.isidentifier():
        return importlib.import_module(file.stem)
    spec = importlib.util.spec_from_file_location(f"windlass_app_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _put_first(folder: str) -> None:
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


def _attribute(module: ModuleType, name: str, attribute: str) -> App:
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            apps = _apps(module)
            hint = f"; it has {' and '.join(apps)}" if apps else "; it has no App at all"
            raise ConfigError(f"{name} has no {attribute!r}{hint}")
        found = getattr(found, part)
    if not isinstance(found, App):
        raise ConfigError(f"{name}:{attribute} is a {type(found).__name__}, not a windlass.App")
    return found


def _only_app(module: ModuleType, name: str) -> App:
    apps = _apps(module)
    if len(set(map(id, apps.values()))) == 1:
        return next(iter(apps.values()))
    if "app" in apps:
        return apps["app"]
    if not apps:
        raise ConfigError(f"{name} has no windlass.App; make one with app = App()")
    raise ConfigError(f"{name} has several Apps; choose one: {name}:{min(apps)}")


def _apps(module: ModuleType) -> dict[str, App]:
    return {name: value for name, value in vars(module).items() if isinstance(value, App)}
