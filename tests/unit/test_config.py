"""Settings: arguments > environment > file > defaults, each of them checked."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from windlass import App, ConfigError
from windlass.config import NAMES, Settings, changed, load


def write(folder: Path, text: str, name: str = "windlass.toml") -> None:
    (folder / name).write_text(text)


def test_defaults(tmp_path: Path) -> None:
    settings = load(environ={}, folder=tmp_path)
    assert settings == Settings()
    assert settings.url == "sqlite:///windlass.db"
    assert (settings.lease, settings.reap_interval, settings.poll_interval) == (30, 5, 2)
    assert (settings.grace, settings.timeout, settings.keep) == (25, None, None)
    assert (settings.max_attempts, settings.max_resets, settings.concurrency) == (25, 5, 10)
    assert (settings.max_pool_size, settings.prefetch) == (10, None)


def test_precedence(tmp_path: Path) -> None:
    write(tmp_path, "lease = 10\ngrace = 10\nconcurrency = 10")
    environ = {"WINDLASS_GRACE": "20", "WINDLASS_CONCURRENCY": "20", "WINDLASS_KEEP": ""}
    settings = load({"concurrency": 30, "lease": None}, environ=environ, folder=tmp_path)
    assert (settings.lease, settings.grace, settings.concurrency) == (10, 20, 30)
    assert settings.keep is None


def test_changes_read_neither_environment_nor_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "lease = 10")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_GRACE", "20")
    before = Settings(concurrency=3)
    after = changed(before, {"keep": timedelta(minutes=1), "crontab_file": tmp_path, "lease": None})
    assert after == Settings(concurrency=3, keep=60.0, crontab_file=str(tmp_path))
    assert before == Settings(concurrency=3)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"leese": 1}, "unknown setting 'leese'"),
        ({"lease": "soon"}, "lease cannot be 'soon' .from an argument"),
        ({"lease": 0.5}, "lease must be between a second and a day"),
    ],
)
def test_changes_are_checked(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        changed(Settings(), arguments)


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"WINDLASS_URL": "memory://", "DATABASE_URL": "x://"}, "memory://"),
        ({"DATABASE_URL": "postgresql://h/d", "PGDATABASE": "z"}, "postgresql://h/d"),
        ({"PGDATABASE": "mine"}, "postgresql:///mine"),
        ({"PGHOST": "h"}, "sqlite:///file.db"),
    ],
)
def test_where_the_url_comes_from(tmp_path: Path, environ: dict[str, str], url: str) -> None:
    write(tmp_path, 'url = "sqlite:///file.db"')
    assert load(environ=environ, folder=tmp_path).url == url


def test_pyproject_is_read_where_windlass_toml_is_missing(tmp_path: Path) -> None:
    write(tmp_path, "[tool.windlass]\nlease = 7\n", "pyproject.toml")
    assert load(environ={}, folder=tmp_path).lease == 7
    write(tmp_path, "lease = 8\n")
    assert load(environ={}, folder=tmp_path).lease == 8


def test_a_pyproject_without_our_table(tmp_path: Path) -> None:
    write(tmp_path, "[tool.other]\nx = 1\n", "pyproject.toml")
    assert load(environ={}, folder=tmp_path) == Settings()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("windlass.toml", "leese = 1", "unknown setting 'leese'; there are: url"),
        ("pyproject.toml", "[tool.windlass]\nleese = 1", "unknown setting 'leese'"),
        ("windlass.toml", "lease = ", "cannot be read"),
        ("windlass.toml", 'lease = "soon"', r"lease cannot be .soon. \(from .*windlass.toml\)"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, text: str, says: str) -> None:
    write(tmp_path, text, name)
    with pytest.raises(ConfigError, match=says):
        load(environ={}, folder=tmp_path)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "windlass.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(environ={}, folder=tmp_path)


def test_a_bad_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="WINDLASS_LEASE cannot be 'abc'"):
        load(environ={"WINDLASS_LEASE": "abc"}, folder=tmp_path)


def test_timedeltas_are_seconds(tmp_path: Path) -> None:
    settings = load({"lease": timedelta(minutes=1)}, environ={}, folder=tmp_path)
    assert settings.lease == 60.0


def test_unknown_arguments() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'workers'"):
        load({"workers": 3}, environ={})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("lease", 0.4, "between a second and a day"),
        ("lease", float("nan"), "between a second"),
        ("reap_interval", 0, "more than 0 seconds"),
        ("poll_interval", 2000, "it is not milliseconds"),
        ("poll_interval", 0, "more than 0"),
        ("grace", -1, "between 0 seconds and a day"),
        ("timeout", 0, "more than 0 seconds"),
        ("timeout", float("inf"), "more than 0 seconds"),
        ("keep", -1, "at least 0 seconds"),
        ("max_attempts", 0, "at least 1"),
        ("max_resets", 0, "at least 1"),
        ("concurrency", 0, "at least 1"),
        ("concurrency", 10_001, "at most 10000"),
        ("max_pool_size", 0, "at least 1"),
        ("max_payload", 0, "at least 1"),
        ("prefetch", -1, "at least 0"),
        ("synchronous", "off", "Invalid enum value"),
        ("concurrency", "many", r"concurrency cannot be .many. \(from an argument\)"),
    ],
)
def test_ranges(name: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load({name: value}, environ={})


@pytest.mark.parametrize("lease", [0.5, 0.999])
def test_a_lease_below_a_second_is_refused(lease: float, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lease must be"):
        load({"lease": lease}, environ={}, folder=tmp_path)
    assert load({"lease": 1.0}, environ={}, folder=tmp_path).lease == 1.0


def test_every_setting_has_an_environment_variable(tmp_path: Path) -> None:
    values = {
        "url": "memory://",
        "schema": "s",
        "synchronous": "normal",
        "migrate": "check",
        "listen": "False",
        "prepared_statements": "False",
        "rates": "False",
        "worker_name": "w",
        "log_level": "debug",
        "log_format": "json",
    }
    environ = {f"WINDLASS_{name.upper()}": values.get(name, "7") for name in NAMES}
    settings = load(environ=environ, folder=tmp_path)
    for name in NAMES:
        assert str(getattr(settings, name)) in (values.get(name), "7", "7.0")


def test_the_app_takes_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from datetime import timedelta

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_URL", "memory://")
    app = App(keep=timedelta(minutes=1), lease=10)
    assert (app.settings.url, app.settings.keep, app.settings.lease) == ("memory://", 60, 10)
    assert repr(app) == "<windlass.App memory:// with 0 tasks>"


@pytest.mark.parametrize(
    "text",
    [
        "lease = " + "9" * 5_000,
        "lease = " + "[" * 5_000 + "]" * 5_000,
        'worker_name = "\\u0000"',
        f'log_level = "{"x" * 5_000}"',
    ],
    ids=["endless", "deep", "nul", "long"],
)
def test_a_file_that_no_program_could_use(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    with pytest.raises(ConfigError) as refusal:
        load(environ={}, folder=tmp_path)
    assert len(str(refusal.value)) < 1_000


@pytest.mark.parametrize("text", ["tool = 5", "[tool]\nwindlass = 5"])
def test_a_project_file_without_a_table(tmp_path: Path, text: str) -> None:
    write(tmp_path, text, "pyproject.toml")
    with pytest.raises(ConfigError, match="must be a table"):
        load(environ={}, folder=tmp_path)


def test_an_environment_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not valid Unicode text"):
        load(environ={"WINDLASS_WORKER_NAME": "\udcff"}, folder=tmp_path)
    settings = load(environ={"PGDATABASE": "\udcff"}, folder=tmp_path)
    assert settings.url == "postgresql:///%FF", "the byte that the environment has"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_attempts", 2**31),
        ("max_resets", 2**31),
        ("keep", 1e300),
        ("timeout", 1e300),
        ("concurrency", 10**5_000),
        ("url", 10**5_000),
        ("prefetch", 2**70),
    ],
    ids=["max_attempts", "max_resets", "keep", "timeout", "concurrency", "url", "prefetch"],
)
def test_a_number_that_no_store_could_hold(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        load({name: value}, environ={}, folder=tmp_path)
