"""Settings from arguments, the environment and a file: settings that work, or one ConfigError."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.kit import fuzz
from tests.fuzz.values import integers, made, texts, values
from windlass import App
from windlass.config import NAMES, Settings, load
from windlass.errors import ConfigError, MissingExtraError, WindlassError

pytestmark = pytest.mark.slow

names = st.sampled_from(NAMES)
TOML = (
    "",
    "tool = 5",
    "[tool]\nwindlass = 5",
    "[tool]\nwindlass = []",
    "[tool.windlass]\nlease = nan",
    "lease = inf",
    "lease = 1979-05-27T07:32:00Z",
    "lease = " + "9" * 5_000,
    "lease = " + "[" * 5_000 + "]" * 5_000,
    "lease = {a = 1}",
    "concurrency = 1.5",
    "concurrency = true",
    "max_attempts = 4294967296",
    'schema = ""',
    'schema = "\\u0000"',
    'url = ["sqlite:///x.db"]',
    'worker_name = "\\u202e"',
    "[lease]",
    "lease = 1\nlease = 2",
    "\x00",
    "\ufeff",
)


def outcome(work: Any) -> Settings | None:
    try:
        found = work()
    except ConfigError as error:
        assert 0 < len(str(error)) < 2_000
        str(error).encode()
        return None
    assert isinstance(found, Settings)
    return found


def test_arguments(tmp_path: Path) -> None:
    @fuzz(400)
    @given(st.dictionaries(names, values, max_size=2))
    def check(arguments: dict[str, Any]) -> None:
        outcome(lambda: load(made(arguments), environ={}, folder=tmp_path))

    check()


def test_the_environment(tmp_path: Path) -> None:
    words = st.sampled_from(
        ["DATABASE_URL", "PGDATABASE", *(f"WINDLASS_{n.upper()}" for n in NAMES)]
    )

    @fuzz(400)
    @given(st.dictionaries(words, texts | integers.map(str), max_size=2))
    def check(environ: dict[str, str]) -> None:
        outcome(lambda: load({}, environ=environ, folder=tmp_path))

    check()


def test_a_file(tmp_path: Path) -> None:
    lines = st.builds(lambda name, value: f"{name} = {value}", names, texts | integers.map(str))
    written = st.sampled_from(TOML) | lines | st.lists(lines, max_size=3).map("\n".join)

    @fuzz(300)
    @given(st.sampled_from(["windlass.toml", "pyproject.toml"]), written, st.booleans())
    def check(name: str, text: str, is_in_table: bool) -> None:
        text = f"[tool.windlass]\n{text}" if is_in_table else text
        (tmp_path / name).write_bytes(text.encode(errors="surrogatepass"))
        outcome(lambda: load({}, environ={}, folder=tmp_path))
        (tmp_path / name).unlink()

    check()


def test_an_app_of_odd_settings() -> None:
    """What is refused is refused when the app is made, and not when its first job is added."""
    words = st.dictionaries(
        st.sampled_from(["url", "schema", "worker_name", "max_attempts", "keep", "timeout"]),
        values,
        min_size=1,
        max_size=2,
    )

    @fuzz(300)
    @given(words)
    def check(arguments: dict[str, Any]) -> None:
        try:
            App(**made({"url": "memory://", **arguments}))
        except WindlassError as error:
            assert not isinstance(error, MissingExtraError)
            assert 0 < len(str(error)) < 2_000
            assert re.search(r"\S", str(error))
            str(error).encode()

    check()
