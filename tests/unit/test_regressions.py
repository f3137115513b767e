"""Small rules about settings, URLs and signatures that were once broken."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Optional, TypedDict

import pytest

from tests.patience import PATIENCE
from windlass import App, Context, config
from windlass.errors import ConfigError
from windlass.tasks.signature import TypedStyle

CTX = object.__new__(Context)


def _or_none(n: int, ctx: Context | None = None) -> Any:
    return n, ctx


def _optional(n: int, ctx: Optional[Context]) -> Any:  # noqa: UP045 - the spelling is the test
    return n, ctx


def _annotated(n: int, ctx: Annotated[Context, "what the job can say"]) -> Any:
    return n, ctx


def _both(n: int, *, ctx: Annotated[Context | None, "either"] = None) -> Any:
    return n, ctx


@pytest.mark.parametrize("function", [_or_none, _optional, _annotated, _both])
def test_a_context_is_filled_in_however_its_annotation_is_spelt(function: Any) -> None:
    args, kwargs = TypedStyle("t", function).bind('{"n": 1}', CTX)
    assert function(*args, **kwargs) == (1, CTX)


def test_a_class_whose_name_ends_in_context_is_an_ordinary_argument() -> None:
    class RequestContext(TypedDict):  # local: its annotation is a name nobody can look up
        user: int

    def function(context: RequestContext) -> Any:
        return context

    args, kwargs = TypedStyle("t", function).bind('{"context": {"user": 1}}', CTX)
    assert function(*args, **kwargs) == {"user": 1}


@pytest.mark.parametrize("lease", [0.5, 0.999])
def test_a_lease_below_a_second_is_refused(lease: float, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lease must be"):
        config.load({"lease": lease}, environ={}, folder=tmp_path)
    assert config.load({"lease": 1.0}, environ={}, folder=tmp_path).lease == 1.0


def test_options_in_a_sqlite_url_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"mode=ro"):
        App("sqlite:///w?mode=ro")


def test_a_hash_in_a_sqlite_url_belongs_to_the_file_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def body() -> None:
        async with App("sqlite:///w#x.db"):
            assert (tmp_path / "w#x.db").exists()
            assert not (tmp_path / "w").exists()

    asyncio.run(asyncio.wait_for(body(), PATIENCE))
