"""Which errors are one group; tests/postgres/test_figures.py compares what PostgreSQL says."""

from __future__ import annotations

import pytest

from windlass.model.fingerprint import fingerprint_of_error, fingerprint_of_text, first_of_tenant
from windlass.model.outcome import describe

ALIKE = [
    ("no user 12", "no user 7"),
    ("lost 0x7f3A00 at 0", "lost 0Xffee at 99"),
    ("no file '/tmp/a'", "no file '/tmp/b c'"),
    ('said "yes" twice', 'said "" twice'),
    ("job 0d3c41c4-9f04-4a79-8a0e-2f3d7f5ad1b5", "job 1d3c41c4-9f04-4b79-8a0e-aaaaaaaaaaaa"),
    ("etag deadbeefdeadbeef gone", "etag abcdefabcdefabcdef gone"),
    ("first line\nand 1", "first line\nand more"),
    ("x" * 300 + "a", "x" * 300 + "b"),
]
UNLIKE = [
    ("no user", "no shop"),
    ("KeyError: 'a'", "ValueError: 'a'"),
    ("beef is gone", "feed is gone"),
    ("it's", "it's'"),
]


def _of(text: str, tenant: str = "", task: str = "t") -> str:
    return fingerprint_of_text(tenant, task, text)


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_varies_does_not_count(one: str, other: str) -> None:
    assert _of(one) == _of(other)


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_what_is_said_counts(one: str, other: str) -> None:
    assert _of(one) != _of(other)


def test_tasks_and_tenants_count() -> None:
    assert len({_of("no"), _of("no", task="u"), _of("no", "acme"), _of("no", "t", "")}) == 4
    assert _of("no", "acme").startswith(first_of_tenant("acme"))
    assert len(_of("no")) == 16


def _raised(kind: type[Exception], where: int) -> str:
    def here() -> None:
        raise kind("no")

    def there() -> None:
        raise kind("no")

    try:
        (here, there)[where]()
    except kind as error:
        return describe(error)
    raise AssertionError


def test_the_place_of_an_exception_counts() -> None:
    found = {
        fingerprint_of_error("", "t", _raised(kind, where))
        for kind in (ValueError, KeyError)
        for where in (0, 1)
    }
    assert len(found) == 4
    assert fingerprint_of_error("", "t", _raised(ValueError, 0)) in found


def test_a_line_more_or_another_folder_is_the_same_place() -> None:
    trace = 'ValueError: no\n\nTraceback\n  File "/srv/a/users.py", line 8, in load\n    boom()'
    same = trace.replace("/srv/a/", "C:\\app\\").replace("line 8", "line 90")
    assert fingerprint_of_error("", "t", trace) == fingerprint_of_error("", "t", same)
    assert fingerprint_of_error("", "t", trace) != fingerprint_of_text("", "t", trace)
    broken = 'ValueError: no\n  File "users.py, line 8'
    assert fingerprint_of_error("", "t", broken) == fingerprint_of_text("", "t", broken)


def test_text_that_is_no_unicode_has_a_fingerprint() -> None:
    assert _of("\ud800") != _of("?")
