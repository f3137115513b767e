"""Keys of `windlass top`: what they choose, and what they ask for."""

from __future__ import annotations

from dataclasses import replace as changed

import pytest
from msgspec.structs import replace

from tests.unit.top_pictures import EMPTY, SHOP
from windlass.cli.top import formats
from windlass.cli.top.glyphs import Glyphs
from windlass.cli.top.keys import Action, Look, Pause, Quit, Retry, press
from windlass.cli.top.panes import PANES
from windlass.cli.top.picture import Picture, Speed, TaskLine
from windlass.cli.top.screen import Keys
from windlass.cli.top.view import View
from windlass.store.figures import Depth


class Person:
    """Presses keys before one picture."""

    def __init__(self, picture: Picture | None = SHOP, tenant: str | None = None) -> None:
        self.picture = picture
        self.tenant = tenant
        self.view = View()
        if picture is not None:
            self.view.settle(picture)

    def press(self, *keys: str) -> Action | None:
        action = None
        for key in keys:
            action = press(key, self.view, self.picture, self.tenant)
        return action

    def chosen(self) -> object:
        return self.view.choices[self.view.focus].key

    @property
    def order(self) -> list[str | int]:
        assert self.picture is not None
        pane = self.view.pane
        return [pane.key(row) for row in self.view.rows(pane, self.picture)]


def test_tab_goes_round_the_tables() -> None:
    person = Person()
    seen = []
    for _ in range(6):
        seen.append(person.view.focus)
        person.press("tab")
    assert seen == [*PANES, "tasks"]
    person.press("backtab", "left")
    assert person.view.focus == "workers"
    person.press("right")
    assert person.view.focus == "tasks"


def test_the_cursor_stays_within_the_table() -> None:
    person = Person()
    assert person.chosen() == "mail"
    person.press("down")
    assert person.chosen() == "report"
    person.press("j", "j", "pagedown")
    assert person.chosen() == "video"
    person.press("k")
    assert person.chosen() == "report"
    person.press("home", "up", "pageup")
    assert person.chosen() == "mail"
    person.press("end")
    assert person.chosen() == "video"


def test_the_cursor_stays_on_its_row_when_others_move() -> None:
    person = Person()
    person.press("down")
    fast = TaskLine("zip", Speed(1_000.0), 0)
    picture = replace(SHOP, tasks=(*SHOP.tasks, fast))
    person.view.settle(picture)
    person.picture = picture
    assert person.order == ["zip", "mail", "report", "video"]
    assert person.chosen() == "report"
    assert person.press("p") == Pause("task", "report", False)


def test_where_a_row_is_gone_the_next_is_chosen() -> None:
    person = Person()
    person.press("end")
    person.view.settle(replace(SHOP, tasks=SHOP.tasks[:2]))
    assert person.chosen() == "report"
    person.view.settle(EMPTY)
    assert person.chosen() is None


def test_s_sorts_by_the_next_column_and_S_turns_it_round() -> None:
    person = Person()
    assert person.order == ["mail", "report", "video"]
    person.press("s")
    assert person.order == ["report", "mail", "video"]
    person.press("s")
    assert person.order[0] == "video"
    person.press("S")
    assert person.order == ["mail", "report", "video"]
    person.press("s", "s", "s")
    assert person.order == ["mail", "report", "video"]
    person.press("S")
    assert person.order == ["video", "report", "mail"]
    assert person.chosen() == "video"
    person.press("s")
    assert person.order == ["mail", "report", "video"]


@pytest.mark.parametrize("name", PANES)
def test_every_order_of_every_table_sorts(name: str) -> None:
    pane = PANES[name]
    person = Person()
    person.view.focus = name
    before = person.order
    titles = [column.title for column in pane.columns]
    for order in pane.orders:
        assert order.title in titles
        person.press("s")
        assert sorted(map(str, person.order)) == sorted(map(str, before))
    assert person.order == before


def test_p_pauses_what_is_not_paused_for_this_tenant() -> None:
    person = Person()
    assert person.press("p") == Pause("task", "mail", True)
    assert person.press("down", "p") == Pause("task", "report", False)
    assert person.press("tab", "p") == Pause("queue", "encoding", True)
    assert person.press("down", "p") == Pause("queue", "letters", True)
    assert Person(tenant="acme").press("tab", "down", "p") == Pause("queue", "letters", False)
    assert Person(tenant="acme").press("down", "p") == Pause("task", "report", True)


def test_r_retries_the_chosen_failure() -> None:
    person = Person()
    person.view.focus = "failures"
    assert person.press("r") == Retry(7)
    assert person.press("down", "r") == Retry(4)


def test_keys_that_fit_nothing_say_what_to_choose() -> None:
    person = Person()
    assert person.press("r") is None
    assert "failed job" in person.view.message
    person.view.focus = "workers"
    assert person.press("p") is None
    assert "task or a queue" in person.view.message
    assert person.press("down") is None
    assert person.view.message == ""


def test_other_keys() -> None:
    person = Person()
    assert person.press("q") == Quit()
    assert person.press(" ") == Look()
    assert person.press("x") is None
    assert person.press("?") is None
    assert person.view.is_helping
    assert person.press("p") is None
    assert not person.view.is_helping
    assert person.press("?", "q") == Quit()


@pytest.mark.parametrize("picture", [None, EMPTY])
def test_without_rows_no_key_does_anything(picture: Picture | None) -> None:
    person = Person(picture)
    for name in PANES:
        person.view.focus = name
        for key in ("s", "S", "p", "r", "up", "down", "end"):
            assert person.press(key) is None
    assert person.view.subject(picture) is None


def test_the_subject_is_a_task_or_a_queue() -> None:
    person = Person()
    assert person.view.subject(SHOP) == ("task", "mail")
    person.view.focus = "queues"
    assert person.view.subject(SHOP) == ("queue", "encoding")
    person.view.focus = "running"
    assert person.view.subject(SHOP) is None
    assert changed(person.view).subject(SHOP) is None


def test_what_a_terminal_sends_is_read_as_keys() -> None:
    keys = Keys()
    assert keys.read(b"q\tS?") == ["q", "tab", "S", "?"]
    assert keys.read(b"\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[1~\x1b[F\x1b[Z") == [
        *("up", "down", "pageup", "pagedown", "home", "end", "backtab")
    ]
    assert keys.read(b"\x1b[1;5C\x1b[200~") == []
    assert keys.read(b"\x1b") == []
    assert keys.read(b"[") == []
    assert keys.read(b"Ap") == ["up", "p"]
    assert keys.read(b"\x1b\x1bq\xff\xc3\xa4") == ["q", "ä"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (10_000, "10.0k"),
        (99_999, "99.9k"),
        (123_456, "123k"),
        (999_999, "999k"),
        (1_000_000, "1.00M"),
        (45_678_901, "45.6M"),
        (2_000_000_000, "2.00G"),
    ],
)
def test_numbers_are_never_rounded_up(value: int, text: str) -> None:
    assert formats.number(value) == text
    assert formats.depth(Depth(value, is_estimate=True)) == f"~{text}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0, "0ms"),
        (0.0004, "0ms"),
        (0.9996, "1.0s"),
        (9.96, "10s"),
        (59.6, "1m"),
        (3_599.7, "1h"),
        (90, "1m30s"),
        (3_660, "1h1m"),
        (90_000, "1d1h"),
        (86_400, "1d"),
        (86_460, "1d"),
        (-3, "-3.0s"),
    ],
)
def test_lengths_of_time(seconds: float | None, text: str) -> None:
    assert formats.span(seconds) == text


def test_rates_and_parts() -> None:
    rates = (0, 0.004, 0.4, 9.99, 9.999, 99.96, 1234.4, 12_345)
    assert [formats.rate(rate) for rate in rates] == [
        *("0.0", "0.00", "0.40", "9.99", "10.0", "100", "1,234", "12.3k")
    ]
    assert [formats.percent(part) for part in (0, 0.001, 0.999, 1, 1.5)] == [
        *("", "<1%", "99%", "100%", "100%")
    ]


def test_bars_and_curves() -> None:
    glyphs = Glyphs()
    assert [glyphs.bar(part, 4) for part in (0, 0.3, 0.999, 1, 2, -1, float("nan"))] == [
        *("░░░░", "█░░░", "███░", "████", "████", "░░░░", "░░░░")
    ]
    assert glyphs.curve((0, 1, 4, 8), 3) == "▂▅█"
    assert glyphs.curve((8, 0), 5) == "█ "
    assert glyphs.curve((0, 0), 5) == ""
    assert glyphs.curve((), 5) == ""
    assert glyphs.curve((1,), 0) == ""
