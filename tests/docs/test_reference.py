"""What exists is documented, what is documented exists, and every link leads somewhere."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import msgspec
import pytest

import windlass
import windlass.testing
from tests.docs.doc_pages import DOCS, ROOT, all_text, pages, table_rows, without_blocks
from windlass import errors
from windlass.client.chains import ChainVerbs
from windlass.config import NAMES, Settings
from windlass.observe.events import EVENTS
from windlass.store.port import ChainStore, Store, WorkStore
from windlass.tasks.abort import AbortReason
from windlass.tasks.options import TaskOptions

TEXT = all_text()
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def is_mentioned(name: str, text: str = TEXT) -> bool:
    """Whether the name stands in code: in backticks or a block, as a whole word."""
    return re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", text) is not None


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def names_in(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


# ── names ──


@pytest.mark.parametrize("name", sorted(set(windlass.__all__) - {"__version__"}))
def test_a_public_name_is_mentioned(name: str) -> None:
    assert is_mentioned(name)


@pytest.mark.parametrize(
    "name",
    ["drain", "assert_enqueued", "assert_continued_with", "windlass_testing", "windlass_clock"],
)
def test_help_for_tests_is_mentioned(name: str) -> None:
    assert is_mentioned(name, page("running.md"))


@pytest.mark.parametrize(
    "name", [name for name, kind in vars(errors).items() if inspect.isclass(kind)
             and issubclass(kind, errors.WindlassError)]
)  # fmt: skip
def test_an_exception_is_mentioned_on_the_page_of_tasks(name: str) -> None:
    assert is_mentioned(name, page("tasks.md"))


INNER = (
    *("add_typed", "start_typed", "prepare_chain", "prepare_next"),
    *("prepare_jobs", "prepare_chains", "is_kept"),
)
"""What task handles, contexts and the server call."""


@pytest.mark.parametrize("verb", [v for v in vars(windlass.Client) if not v.startswith("_")])
def test_a_verb_of_the_client_is_mentioned(verb: str) -> None:
    assert verb in INNER or is_mentioned(verb, page("tasks.md"))


@pytest.mark.parametrize("verb", [v for v in vars(ChainVerbs) if not v.startswith("_")])
def test_a_verb_about_chains_is_mentioned(verb: str) -> None:
    assert verb in INNER or is_mentioned(verb, page("chains.md"))


@pytest.mark.parametrize("name", windlass.Chain.__struct_fields__)
def test_a_field_of_a_chain_is_mentioned(name: str) -> None:
    assert is_mentioned(name, page("chains.md"))


@pytest.mark.parametrize("name", [n for n in vars(windlass.Context) if not n.startswith("_")])
def test_a_name_of_the_context_is_mentioned(name: str) -> None:
    assert f"ctx.{name}" in page("tasks.md")


@pytest.mark.parametrize("name", windlass.Job.__struct_fields__)
def test_a_field_of_a_job_is_mentioned(name: str) -> None:
    assert is_mentioned(name, page("tasks.md"))


@pytest.mark.parametrize("reason", list(AbortReason))
def test_an_abort_reason_is_mentioned(reason: AbortReason) -> None:
    assert f"`{reason.value}`" in page("tasks.md")


@pytest.mark.parametrize(
    "verb",
    sorted(v for v in {*vars(WorkStore), *vars(ChainStore), *vars(Store)} if not v.startswith("_")),
)
def test_a_verb_of_the_port_is_mentioned(verb: str) -> None:
    assert is_mentioned(verb, page("architecture.md"))


# ── tables ──


def shown(value: object) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_the_table_of_settings_is_the_settings() -> None:
    rows = table_rows(DOCS / "running.md", "## Settings")
    documented = {row[0].strip("`"): row[1].strip("`") for row in rows}
    defaults = {field.name: field.default for field in msgspec.structs.fields(Settings)}
    assert documented == {name: shown(defaults[name]) for name in NAMES}
    assert all(row[2] for row in rows)


def test_the_table_of_events_is_the_events() -> None:
    rows = table_rows(DOCS / "tasks.md", "## Events")
    assert {row[0].strip("`"): row[1] for row in rows} == EVENTS


def test_the_table_of_task_options_is_complete() -> None:
    rows = table_rows(DOCS / "tasks.md", "## Declaring a task")
    options = {"name", *TaskOptions.__struct_fields__}
    assert {row[0].strip("`") for row in rows} == options


def test_the_table_of_job_options_is_complete() -> None:
    rows = table_rows(DOCS / "tasks.md", "## Adding jobs")
    named = set(names_in([row[0] for row in rows])) - {"using"}
    assert named == {*windlass.JobSpec.__struct_fields__, "connection"} - {"task", "payload"}


# ── pages ──


def anchors(text: str) -> set[str]:
    """The names GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{page.name}: {target} leads nowhere"
        if anchor:
            there = anchors(found.read_text(encoding="utf-8"))
            assert anchor in there, f"{page.name}: {target} has no such heading"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_a_page_is_reached_from_another(page: Path) -> None:
    others = [other for other in pages() if other != page]
    assert any(
        (other.parent / target.partition("#")[0]).resolve() == page
        for other in others
        for target in LINK.findall(other.read_text(encoding="utf-8"))
    )


@pytest.mark.parametrize("page", sorted((DOCS / "decisions").glob("*.md")), ids=lambda p: p.name)
def test_a_decision_has_its_four_parts_and_is_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == ["Problem", "Decision", "Why not", "Consequences"]
    assert len(text.splitlines()) <= 60


def test_the_quickstart_is_short() -> None:
    assert len(page("quickstart.md").splitlines()) <= 150


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:src/windlass|engine|stores|tasks)/[\w/]+\.\w+)`",
                                  page("architecture.md"))))
)  # fmt: skip
def test_a_file_named_by_the_architecture_exists(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / "src/windlass" / path).exists()
