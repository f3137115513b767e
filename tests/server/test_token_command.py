"""`windlass token`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.postgres.cluster import fresh_database, shared_cluster
from windlass.cli import cli
from windlass.server.tokens import digest_of, is_token


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.db'}"
        return
    with fresh_database(shared_cluster(18)) as found:
        yield found


def call(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(
        cli, ["token", *arguments, "-c", url], prog_name="windlass", catch_exceptions=False
    )


def good(url: str, *arguments: str) -> str:
    result = call(url, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def shown(url: str) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(good(url, "list", "--json"))}


def test_tokens_are_made_listed_and_revoked(url: str) -> None:
    text = good(url, "create", "ci", "--role", "producer").strip()
    assert is_token(text)
    made = json.loads(
        good(
            url, "create", "mailer", "--tenant", "acme", "--role", "worker", "--role", "producer",
            "--task", "mail", "--task", "sms", "--expires", "30d", "--json",
        )
    )  # fmt: skip
    assert is_token(made["token"]) and made["token"] != text
    listed = good(url, "list")
    everything = listed + good(url, "list", "--json")
    assert "mail, sms" in listed and "acme" in listed and listed.count("good") == 2
    assert text not in everything and digest_of(text) not in everything
    found = shown(url)
    assert found["ci"] | {"tenant": None, "tasks": None, "expires_at": None} == found["ci"]
    assert found["mailer"]["roles"] == ["worker", "producer"]
    assert found["mailer"]["expires_at"] > found["mailer"]["created_at"]
    assert good(url, "revoke", "ci") == "revoked ci\n"
    assert good(url, "revoke", "ci") == "revoked ci\n"
    assert (shown(url)["ci"]["is_good"], shown(url)["mailer"]["is_good"]) == (False, True)
    assert "revoked" in good(url, "list")
    again = call(url, "create", "ci", "--role", "admin")
    assert again.exit_code == 1 and "another name" in again.output


def test_a_webhook_secret_is_one_of_its_tenant(url: str) -> None:
    good(url, "create", "ci", "--role", "admin")  # which makes the database
    mine = good(url, "webhook-secret")
    assert mine.startswith("whsec_") and good(url, "webhook-secret") == mine
    acme = json.loads(good(url, "webhook-secret", "--tenant", "acme", "--json"))
    assert acme["tenant"] == "acme" and acme["secret"] != mine.strip()
    assert good(url, "webhook-secret", "--rotate") != mine
    assert good(url, "webhook-secret", "--tenant", "acme").strip() == acme["secret"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "x"), "--role"),
        (("create", "x", "--role", "root"), "root"),
        (("create", "", "--role", "admin"), "printable"),
        (("create", "a\nb", "--role", "admin"), "printable"),
        (("create", "x" * 200, "--role", "admin"), "printable"),
        (("create", "x", "--role", "producer", "--task", "mail"), "--task"),
        (("create", "x", "--role", "worker", "--task", "windlass.webhook"), "Windlass itself"),
        (("create", "x", "--role", "worker", "--task", ""), "empty"),
        (("create", "x", "--role", "worker", "--expires", "soon"), "length of time"),
        (("create", "x", "--role", "worker", "--expires", "0"), "more than 0"),
        (("create", "x", "--role", "worker", "--tenant", "t" * 200), "tenant"),
        (("list", "-c", "memory://"), "one process"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    file = tmp_path / "jobs.db"
    result = CliRunner().invoke(
        cli, ["token", arguments[0], "-c", f"sqlite:///{file}", *arguments[1:]]
    )
    assert result.exit_code == 2 and words in result.output
    assert not file.exists()


def test_a_token_that_is_not_there_is_told(url: str) -> None:
    good(url, "create", "ci", "--role", "admin")
    result = call(url, "revoke", "other")
    assert result.exit_code == 1 and "windlass token list" in result.output


def test_only_create_makes_a_database(tmp_path: Path) -> None:
    where = f"sqlite:///{tmp_path / 'jobs.db'}"
    for arguments in (("list",), ("revoke", "ci"), ("webhook-secret",)):
        result = call(where, *arguments)
        assert result.exit_code == 1 and "no database" in result.output
    assert not (tmp_path / "jobs.db").exists()
    assert "is new" in call(where, "create", "ci", "--role", "admin").output
    assert good(where, "list").count("\n") == 2
