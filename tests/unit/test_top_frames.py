"""`windlass top` as lines: all that fits, and nothing that is cut into nonsense."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from tests.docs.doc_pages import DOCS
from tests.unit.top_pictures import EMPTY, HOSTILE, SHOP
from windlass.cli.top.frame import Frame, Size, flow, share
from windlass.cli.top.glyphs import Glyphs
from windlass.cli.top.panes import PANES
from windlass.cli.top.picture import Picture
from windlass.cli.top.view import View

PLACE = "sqlite:///windlass.db"


def draw(
    picture: Picture | None,
    width: int = 80,
    height: int = 24,
    *,
    view: View | None = None,
    trouble: str = "",
    is_ascii: bool = False,
) -> list[str]:
    view = view or View()
    if picture is not None:
        view.settle(picture)
    frame = Frame(PLACE, Glyphs(is_ascii=is_ascii))
    found = [line.plain for line in frame.lines(picture, view, Size(width, height), trouble)]
    assert len(found) == height
    assert max(cell_len(line) for line in found) <= width
    return [line.rstrip() for line in found]


def view_on(focus: str) -> View:
    return View(focus=focus)


def test_the_page_shows_what_a_terminal_does() -> None:
    page = (DOCS / "monitoring.md").read_text(encoding="utf-8")
    shown = page.partition("```text\nwindlass top")[2].partition("\n```")[0]
    assert f"windlass top{shown}".splitlines() == draw(SHOP, 80, 22)


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 120, 200])
def test_any_picture_fits_any_terminal(width: int) -> None:
    for number, height in enumerate((1, 2, 5, 8, 11, 16, 24, 50)):
        for focus in PANES:
            for picture in (EMPTY, SHOP, HOSTILE):
                draw(picture, width, height, view=view_on(focus), is_ascii=bool(number % 2))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_numbers_are_whole_or_not_there(width: int) -> None:
    text = "\n".join(draw(SHOP, width, 40))
    numbers = {"1,204", "102", "0.4", "11s", "38ms", "20ms", "2.1s", "12ms", "85ms", "30s"}
    numbers |= {"101", "0.40", "0.05", "100%", "226ms", "1m11s", "1h1m", "21s", "40s"}
    numbers |= {"30%", "99%", "1/25", "2/25", "1/3", "1.0s", "3.0s"}
    names = (
        "30 s",
        "May",
        "host-7-e47dceb9",
        "host-8-0badcafe",
        "11:55:36",
        "frame 30",
        "frame 99",
    )
    for name in names:
        text = text.replace(name, "")
    text = re.sub(r"\b(TASK|QUEUE|WORKER) \d+", r"\1", text)
    found = {word.strip("▼▲") for word in text.split() if re.search(r"\d", word)}
    found = {word for word in found if not re.fullmatch(r"[0-9]|frame|host-.*…|[\w-]+…", word)}
    assert found <= numbers


def test_a_narrow_terminal_has_the_main_columns() -> None:
    text = draw(SHOP, 60, 30)
    assert any(re.search(r"TASK 3 +▼PER S FAIL  RUN WAITED   TOOK", line) for line in text)
    assert any("RUNNING TASK 3" in line and "PROGRESS" in line for line in text)
    assert all("WORKER" not in line for line in text if "RUNNING TASK" in line)
    assert any("LookupError: there is" in line and line.endswith("…") for line in text)
    assert text[-1] == "q quit  ? keys  p pause/resume  Tab table  s sort  ↑↓ row"


def test_what_steers_a_terminal_is_shown_as_a_dot() -> None:
    for line in draw(HOSTILE, 200, 60):
        assert line.isprintable(), ascii(line)


def test_states_have_signs_without_colours_and_without_unicode() -> None:
    text = "\n".join(draw(SHOP, 100, 30, is_ascii=True))
    assert "o 1,204 ready  > 3 running  x 7 failed" in text
    assert " = report" in text
    assert "##......  30%" in text
    assert text.isascii()


def test_paused_tasks_and_dead_workers_have_a_sign() -> None:
    text = draw(SHOP, 100, 30)
    assert [line for line in text if line.startswith(" ‖ ")] == [
        line for line in text if ("report  " in line and "‖" in line) or "letters" in line
    ]
    assert any(line.startswith(" ✖ host-8-0badcafe") and "over 40s" in line for line in text)


def test_the_line_of_the_chosen_task_tells_its_depths() -> None:
    assert draw(SHOP)[-2] == "task mail:  1,204 ready  oldest ready 11s"
    assert draw(SHOP, view=view_on("queues"))[-2] == ""


def test_below_a_failure_is_its_whole_error() -> None:
    view = view_on("failures")
    view.settle(SHOP)
    view.move(1, SHOP)
    whole = "job 4: TimeoutError: the archive has not answered for 30 s"
    assert draw(SHOP, 60, view=view)[-2] == whole
    assert draw(SHOP, 40, view=view)[-3:-1] == [
        "job 4: TimeoutError: the archive has not",
        "answered for 30 s",
    ]


def test_below_a_running_job_is_what_it_tells() -> None:
    view = view_on("running")
    view.settle(SHOP)
    assert draw(SHOP, 60, view=view)[-2] == ""
    view.move(1, SHOP)
    assert draw(SHOP, 60, view=view)[-2] == "job 3 on host-7-e47dceb9: frame 99"


def test_trouble_goes_before_messages() -> None:
    view = View()
    view.say("job 7 will run")
    assert draw(SHOP, view=view)[-2] == "job 7 will run"
    text = draw(SHOP, view=view, trouble="the file is gone; put it back")
    assert text[-2] == "trying again: the file is gone; put it back"
    assert "1,204 ready" in text[1]


def test_long_trouble_has_three_lines() -> None:
    text = draw(SHOP, 60, trouble="word " * 100)
    assert text[-4].startswith("trying again: word word")
    assert text[-2].endswith("…")
    assert "word" not in text[-5]


def test_before_the_first_picture() -> None:
    assert draw(None)[1] == "looking …"
    text = draw(None, trouble="cannot connect to localhost:5432")
    assert text[1] == ""
    assert text[-2] == "trying again: cannot connect to localhost:5432"


def test_empty_tables_say_what_to_do() -> None:
    text = "\n".join(draw(EMPTY))
    assert "0 ready" in text
    assert "windlass run MODULE:APP" in text
    assert "no job has failed" in text


def test_a_store_without_rates_says_so() -> None:
    picture = Picture(depths=SHOP.depths, speed=None)
    assert draw(picture)[2].startswith("this server tells no rates  oldest ready 11s")


def test_help_shows_keys_and_signs() -> None:
    view = View(is_helping=True)
    text = "\n".join(draw(SHOP, view=view))
    for key in ("Tab, Shift-Tab", "pause the chosen", "run the chosen failed", "q, Ctrl-C"):
        assert key in text
    assert "‖ paused  ● ready" in text
    assert "‖" not in "\n".join(draw(SHOP, view=view, is_ascii=True))


def test_the_row_of_the_cursor_is_always_in_sight() -> None:
    for steps in (0, 7, 30, 59):
        view = View()
        view.settle(HOSTILE)
        view.move(steps, HOSTILE)
        text = draw(HOSTILE, 80, 24, view=view)
        assert sum(line.startswith("❯") for line in text) == 1


def test_only_the_chosen_row_and_the_titles_of_its_table_stand_out() -> None:
    frame, view = Frame(PLACE, Glyphs()), View()
    view.settle(SHOP)
    lines = frame.lines(SHOP, view, Size(80, 24))

    def whole(style: str) -> list[str]:
        return [
            line.plain.split()[0]
            for line in lines
            if any(
                str(span.style) == style and span.end - span.start == len(line.plain)
                for span in line.spans
            )
        ]

    assert whole("bold") == ["❯"]
    assert whole("reverse") == ["TASK"]
    assert whole("dim underline") == ["QUEUE", "JOB", "JOB", "WORKER"]
    assert not any(str(line.style) for line in lines[:-1] if line.plain[:1] == " ")


def test_more_running_jobs_than_are_told_are_marked() -> None:
    assert any("RUNNING TASK 5+" in line for line in draw(HOSTILE, 100, 40))


@pytest.mark.parametrize("height", range(30))
@pytest.mark.parametrize("focus", PANES)
def test_tables_share_the_lines_there_are(height: int, focus: str) -> None:
    rows = dict(zip(PANES, (20, 0, 5, 1, 2), strict=True))
    given = share(rows, focus, height)
    assert sum(given.values()) <= height
    assert focus in given
    assert list(given) == [name for name in PANES if name in given]
    if height >= 10:
        assert min(given.values()) >= 2
        assert len(given) == 5
        assert sum(given.values()) == height


def test_pieces_are_left_out_as_a_whole() -> None:
    from rich.text import Text

    pieces = [Text("one"), Text("two"), Text("three")]
    assert [line.plain for line in flow(pieces, 8, most=2)] == ["one  two", "three"]
    assert [line.plain for line in flow(pieces, 7, most=2)] == ["one", "two"]
    assert [line.plain for line in flow([], 7, most=2)] == [""]
