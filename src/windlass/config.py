"""Settings: arguments > environment > config file > defaults, and every one of them checked.

The file is `windlass.toml`, or `[tool.windlass]` in `pyproject.toml`, in the current folder. Each
setting is also `WINDLASS_<NAME>` in the environment and a keyword of `App(…)`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from windlass.errors import ConfigError, ValidationError
from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS
from windlass.model.names import LONGEST, LONGEST_POLL, MAX_INT32, MAX_TENANT, brief, check_tenant

DEFAULT_URL = "sqlite:///windlass.db"
_FILES = ("windlass.toml", "pyproject.toml")
_ENVIRONMENT = "the environment"
_ARGUMENT = "an argument"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting with its default. Times are seconds."""

    url: str = DEFAULT_URL
    """Where the jobs are."""
    schema: str = "windlass"
    """The PostgreSQL schema that holds them."""
    tenant: str | None = None
    """Whose jobs: of one tenant alone, in adding, looking and working. Without it jobs are added to
    the default tenant, and those of all tenants are seen and run."""
    lease: float = 30.0
    """How long a worker owns its jobs without a sign of life. Short: quick recovery after a crash,
    but a machine that hangs for longer runs jobs twice. At least 1."""
    reap_interval: float = 5.0
    """How often to look for jobs of dead workers."""
    poll_interval: float = 2.0
    """How often an idle worker looks by itself; hints make it look at once. At most 300."""
    grace: float = 25.0
    """How long a stopping worker waits for running jobs before it hands them back."""
    timeout: float | None = None
    """How long a job may run where its task says nothing; none by default."""
    keep: float | None = None
    """How long completed jobs are kept, with their output; by default they are deleted."""
    keep_chains: float = KEEP_CHAINS
    """How long completed chains can be seen and waited for."""
    keep_failed_chains: float = KEEP_FAILED_CHAINS
    """The same for chains that failed or were cancelled."""
    max_attempts: int = 25
    """Attempts of a job where neither it nor its task says."""
    max_resets: int = 5
    """How often a job may take its worker down before it is failed."""
    max_payload: int = 256 * 1024
    """The largest payload, in bytes of JSON."""
    concurrency: int = 10
    """Jobs one worker runs at a time (slots)."""
    max_pool_size: int = 10
    """PostgreSQL: the most connections handlers share; a worker has up to six more of its own."""
    migrate: Literal["auto", "check", "never"] = "auto"
    """What to do about the schema at start: install or update it, refuse to start unless it is up
    to date, or nothing."""
    listen: bool = True
    """PostgreSQL: hear of new jobs by LISTEN; without it workers only poll."""
    prepared_statements: bool = True
    """PostgreSQL: use sessions to the full. Turn it off behind a transaction pooler."""
    prefetch: int | None = None
    """The most jobs to take ahead of need; chosen by itself by default, 0 takes none."""
    synchronous: Literal["full", "normal"] = "full"
    """SQLite: `full` survives a power cut, `normal` is faster and survives kill -9."""
    crontab_file: str | None = None
    """The crontab; by default the file `crontab` beside the tasks folder, where there is one."""
    token: str | None = None
    """grpc:// and grpcs://: the server's token, made by `windlass token create`. It is shown
    nowhere."""
    tls_ca: str | None = None
    """grpcs://: a file with the certificates to trust; by default those of the system, or of
    SSL_CERT_FILE."""
    tls_certificate: str | None = None
    """grpcs://: a file with this program's own certificate and its key, for servers that ask for
    one."""
    rates: bool = True
    """Whether workers report every ten seconds what they did, for dashboards."""
    worker_name: str | None = None
    """The readable part of a worker's id; host and process by default."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in NAMES if name not in SECRET}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


SECRET = ("token",)
"""Settings whose values are in no message."""
NAMES = tuple(field.name for field in msgspec.structs.fields(Settings))
_TYPES = {field.name: field.type for field in msgspec.structs.fields(Settings)}


def load(
    arguments: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The settings in force. Arguments that are None count as not given; timedeltas are seconds,
    paths are text."""
    environ = os.environ if environ is None else environ
    given = _given(arguments or {})
    from_file, file = _from_file(folder or Path.cwd())
    from_environment = _from_environment(environ)
    return _checked(
        Settings(
            **_converted(from_file, str(file))
            | _converted(from_environment, _ENVIRONMENT)
            | _converted(given, _ARGUMENT)
        )
    )


def changed(settings: Settings, arguments: Mapping[str, Any]) -> Settings:
    """These settings with some of them replaced, all checked as `load` does.

    It reads neither the environment nor a file. Arguments that are None change nothing.
    """
    return _checked(msgspec.structs.replace(settings, **_converted(_given(arguments), _ARGUMENT)))


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: _plain(value) for name, value in arguments.items() if value is not None}
    if unknown := given.keys() - set(NAMES):
        raise ConfigError(f"unknown setting {brief(min(unknown))}; there are: {', '.join(NAMES)}")
    return given


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _converted(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    return {name: _convert(name, value, source) for name, value in values.items()}


def _convert(name: str, value: Any, source: str) -> Any:
    try:
        if isinstance(value, str):
            _check_text(value)
        return msgspec.convert(value, _TYPES[name], strict=False)
    except ValueError as error:  # msgspec's own error is a ValueError too
        where = f"WINDLASS_{name.upper()}" if source == _ENVIRONMENT else name
        if name in SECRET:
            raise ConfigError(f"{where} cannot be used (from {source})") from None
        why = str(error)[:200]  # it quotes the value
        raise ConfigError(f"{where} cannot be {brief(value)} (from {source}): {why}") from None


def _check_text(text: str) -> None:
    """Refuse what no database and no log can hold; an environment can have both."""
    if "\x00" in text:
        raise ValueError("it contains NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it is not valid Unicode text") from None


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in NAMES:
        text = environ.get(f"WINDLASS_{name.upper()}")
        if text is not None and text != "":
            found[name] = text
    if "url" not in found:
        if url := environ.get("DATABASE_URL"):
            found["url"] = url
        elif database := environ.get("PGDATABASE"):
            # libpq reads the other PG* variables itself.
            name = quote(database, safe="", errors="surrogateescape")
            found["url"] = f"postgresql:///{name}"
    return found


def _from_file(folder: Path) -> tuple[dict[str, Any], Path | None]:
    for name in _FILES:
        path = folder / name
        if not path.is_file():
            continue
        try:
            content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        except RecursionError:
            raise ConfigError(f"{path} cannot be read: it is nested too deeply") from None
        except (OSError, ValueError) as error:  # no UTF-8, no TOML, an integer without end
            raise ConfigError(f"{path} cannot be read: {error}") from None
        if name == "pyproject.toml":
            content = _table(_table(content, "tool", path), "windlass", path)
            if not content:
                continue
        if unknown := content.keys() - set(NAMES):
            raise ConfigError(
                f"{path}: unknown setting {brief(min(unknown))}; there are: {', '.join(NAMES)}"
            )
        return content, path
    return {}, None


def _table(content: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: {name} must be a table, written [tool.windlass]")
    return found


def _checked(settings: Settings) -> Settings:
    """The same settings; ConfigError where a value is outside its range."""

    def refuse(name: str, must: str) -> None:
        raise ConfigError(f"{name} must be {must}, not {brief(getattr(settings, name))}")

    if settings.tenant is not None and len(settings.tenant) > MAX_TENANT:
        refuse("tenant", f"at most {MAX_TENANT} characters long")
    try:
        check_tenant(settings.tenant)
    except ValidationError as error:
        raise ConfigError(str(error)) from error
    if not 1 <= settings.lease <= 86_400:
        refuse("lease", "between a second and a day")
    if not 0 < settings.reap_interval <= 3_600:
        refuse("reap_interval", "more than 0 seconds and at most an hour")
    if not 0 < settings.poll_interval <= LONGEST_POLL:
        most = f"at most {LONGEST_POLL:g} seconds (it is not milliseconds)"
        refuse("poll_interval", f"more than 0 and {most}")
    if not 0 <= settings.grace <= 86_400:
        refuse("grace", "between 0 seconds and a day")
    if settings.timeout is not None and not 0 < settings.timeout <= LONGEST:
        refuse("timeout", "more than 0 seconds and finite")
    if settings.keep is not None and not 0 <= settings.keep <= LONGEST:
        refuse("keep", "at least 0 seconds and finite")
    for name in ("keep_chains", "keep_failed_chains"):
        if not 0 <= getattr(settings, name) <= LONGEST:
            refuse(name, "at least 0 seconds and finite")
    for name in ("max_attempts", "max_resets", "concurrency", "max_pool_size", "max_payload"):
        if getattr(settings, name) < 1:
            refuse(name, "at least 1")
        if getattr(settings, name) > MAX_INT32:
            refuse(name, f"at most {MAX_INT32}")
    if settings.concurrency > 10_000:
        refuse("concurrency", "at most 10000")
    if settings.token is not None and not re.fullmatch(r"[\x21-\x7e]{1,8192}", settings.token):
        raise ConfigError("token must be 1 to 8192 letters, digits and signs, without spaces")
    if settings.prefetch is not None and not 0 <= settings.prefetch <= MAX_INT32:
        refuse("prefetch", f"at least 0 and at most {MAX_INT32}")
    return settings
