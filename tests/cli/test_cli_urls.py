"""No password is ever shown."""

from __future__ import annotations

import pytest

from windlass import App
from windlass.observe.urls import without_password, without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hunter2@db/shop", "postgresql://me:***@db/shop"),
        ("postgres://me:hunter2@a:1,b:2/shop?x=1", "postgres://me:***@a:1,b:2/shop?x=1"),
        ("postgresql://me:hun/ter2@db/shop", "postgresql://me:***@db/shop"),
        ("postgresql://me:hun@ter2@db/shop", "postgresql://me:***@db/shop"),
        ("postgresql://me:hun\nter2@db/shop", "postgresql://me:***@db/shop"),
        ("postgresql://:hunter2@db/shop", "postgresql://:***@db/shop"),
        (
            "postgresql://db/shop?user=me&password=hunter2",
            "postgresql://db/shop?user=me&password=***",
        ),
        ("postgresql:///shop?sslpassword=hunter2&a=b", "postgresql:///shop?sslpassword=***&a=b"),
        ("host=db password=hunter2 user=me", "host=db password=*** user=me"),
        ("host=db password = 'hun ter2'", "host=db password = ***"),
        ("postgresql://me@db/shop", "postgresql://me@db/shop"),
        ("postgresql:///shop", "postgresql:///shop"),
        ("sqlite:////srv/jobs.db", "sqlite:////srv/jobs.db"),
        ("my_db", "my_db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_what_is_quoted_from_a_url_with_a_password_is_hidden() -> None:
    text = 'invalid token: "hunter2"'
    assert without_secrets(text, "postgresql://me:hunter2@db/x") == 'invalid token: "***"'
    assert without_secrets(text, "postgresql://db/x") == text


def test_an_app_shows_itself_without_its_password() -> None:
    app = App("postgresql://me:hunter2@db/shop")
    assert repr(app) == "<windlass.App postgresql://me:***@db/shop with 0 tasks>"
