"""The overview, failures, chains, tasks and queues, schedules, workers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.dashboard.kit import Dashboard, Read, fail, shown
from windlass import JobSpec
from windlass.model.cron import parse_crontab
from windlass.server.dashboard import figures
from windlass.server.dashboard.figures import history, quantile, work
from windlass.server.dashboard.pages import tasks, workers
from windlass.server.dashboard.plot import plot
from windlass.store.figures import Figures, Rate, TaskFigures
from windlass.store.records import ClaimRequest, Complete, Fail, NewJob

SOME = Figures(ok=80, retry=15, failed=5, waited=20_000_000, ran=5_000_000)
SOME.waits[1] = 100
SOME.runs[0] = 100


def cells(page: Read) -> list[str]:
    return [" ".join(cell.text.split()) for cell in page.all("td")]


# ── the overview ──


def test_the_overview_shows_depths_rates_and_times() -> None:
    async def check(kit: Dashboard) -> None:
        await kit.app.client.add_jobs([JobSpec("mail") for _ in range(3)])
        await kit.store.note_rates([TaskFigures("mail", SOME), TaskFigures("ship", SOME)])
        await asyncio.sleep(30)
        browser = kit.browser()
        page = await browser.get("/")
        figure = next(span for span in page.all("span") if span.get("data-figure") == "ready")
        assert figure.text == "3"
        assert "oldest ready" in page.text
        assert cells(page)[:6] == ["mail", "100", "6.67", "20", "20 %", "200ms"]
        assert "30s" in page.text
        lines = page.all("polyline")
        assert {line["class"] for line in lines} >= {"plot plot-done", "plot plot-failed"}
        for minutes in (15, 360):
            page = await browser.get(f"/?minutes={minutes}")
            assert "mail" in page.text
        await browser.get("/?minutes=7", status=400)

    shown(check)


def test_the_history_of_charts_has_every_step() -> None:
    async def check(kit: Dashboard) -> None:
        await kit.store.note_rates([TaskFigures("mail", SOME)])
        await asyncio.sleep(60)
        answer = await kit.browser().http.get("/history?minutes=15")
        assert answer.headers["content-type"] == "application/json"
        told = json.loads(answer.text)
        assert len(told["at"]) in (89, 90, 91)
        assert sum(told["done"]) * told["step"] == pytest.approx(100)
        assert sum(told["failed"]) * told["step"] == pytest.approx(20)
        assert len([value for value in told["wait"] if value is not None]) == 1

    shown(check)


def test_the_step_under_way_is_left_out() -> None:
    found = [Rate(120_000_000, "", SOME), Rate(180_000_000, "", SOME)]
    told = history(found, 120, 60.0, 200_000_000)
    assert told.at == [60, 120]
    assert told.done == [0.0, round(100 / 60, 3)]
    assert told.wait == [None, 0.2]


def test_times_are_as_exact_as_their_buckets() -> None:
    counts = [0] * 10
    assert quantile(counts, 0.95) is None
    counts[0] = 100
    assert quantile(counts, 0.95) == 0.0095
    counts[9] = 100
    assert quantile(counts, 0.95) == 1800.0
    assert work(Figures(), 60.0).failing == 0.0
    assert work(SOME, 100.0).per_second == 1.0


def test_lines_end_where_nothing_is_known() -> None:
    drawn = plot("x", "X", "s", a_b=[1.0, None, 2.0, 2.0], none=[None])
    assert [len(line.pieces) for line in drawn.lines] == [2, 0]
    assert drawn.lines[0].name == "a b"
    assert drawn.most == 2.0
    assert plot("x", "X", "s", a=[]).lines[0].pieces == []
    assert plot("x", "X", "s", a=[0.0, 0.0]).lines[0].pieces == ["0.0,138.0 600.0,138.0"]


# ── failures ──


def test_failures_are_grouped_by_error_and_retried_as_a_group() -> None:
    async def check(kit: Dashboard) -> None:
        client = kit.app.client
        jobs = await client.add_jobs([JobSpec("mail", {"n": n}) for n in range(12)])
        ids = [job.id for job in jobs]
        await fail(kit, *ids[:8], error="ConnectionError: no answer")
        await fail(kit, *ids[8:11], error="ValueError: no address")
        browser = kit.browser()
        page = await browser.get("/failures")
        assert "ConnectionError: no answer" in page.text
        numbers = [link.text for link in page.all("a") if link.get("class") == "row-link"]
        assert sorted(numbers) == ["3", "8"]
        large = next(link["href"] for link in page.all("a") if link.text == "8")
        retry = next(
            link["href"]
            for link in page.all("a")
            if "verb=retry" in link.get("href") and large.partition("?")[2] in link["href"]
        )
        assert (await browser.get(large)).jobs == ids[7::-1]
        page = await browser.get(retry)
        assert "Retry 8 jobs?" in page.text
        await browser.press("/jobs/change")
        counts = await client.counts()
        assert (counts["failed"], counts["ready"]) == (3, 9)

    shown(check)


def test_failures_of_tenants_are_told_apart() -> None:
    async def check(kit: Dashboard) -> None:
        for tenant in ("acme", "zeus"):
            job = await kit.app.client.for_tenant(tenant).add_job("mail")
            await fail(kit, job.id, error="ValueError: same")
        page = await kit.browser().get("/failures")
        assert {"acme", "zeus"} <= set(cells(page))
        own = await kit.signed_in("operator", tenant="acme")
        assert "zeus" not in (await own.get("/failures")).text

    shown(check)


# ── chains ──


async def a_chain(kit: Dashboard, **options: Any) -> int:
    chain = await kit.app.client.start_chain("pay", {"order": 7}, key="order-7", **options)
    return chain.id


def test_chains_are_listed_found_and_paged() -> None:
    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        assert "There are no chains." in (await browser.get("/chains")).text
        ids = [(await kit.app.client.start_chain("pay", {"n": n})).id for n in range(60)]
        [lease] = await kit.store.claim(ClaimRequest(worker="w", tasks=None, limit=1))
        await kit.store.settle([(lease, Fail("ValueError: no money", final=True))])
        page = await browser.get("/chains")
        assert page.jobs == ids[:-51:-1]
        older = next(link["href"] for link in page.all("a") if link.get("rel") == "next")
        page = await browser.get(older)
        assert page.jobs == ids[-51::-1]
        assert "no money" in page.text
        assert (await browser.get("/chains?state=failed")).jobs == [ids[0]]
        page = await browser.get("/chains?task=other&tenant=acme")
        assert "No chain is like this." in page.text
        await browser.get("/chains?state=odd", status=400)

    shown(check)


def test_a_chain_is_drawn_cancelled_retried_and_deleted() -> None:
    async def check(kit: Dashboard) -> None:
        id = await a_chain(kit)
        browser = kit.browser()
        page = await browser.get(f"/chains/{id}")
        assert "order-7" in page.text
        assert f"/jobs/{id}" in page.links
        assert "cancelled" in (await browser.press(f"/chains/{id}/cancel")).text
        assert "The chain is open again." in (await browser.press(f"/chains/{id}/retry")).text
        await browser.get(f"/chains/{id}/delete")
        page = await browser.press(f"/chains/{id}/delete")
        assert "There are no chains." in page.text
        await browser.get(f"/chains/{id}", status=404)
        await browser.get(f"/chains/{id}/delete", status=404)
        await browser.send(f"/chains/{id}/retry", status=404)

    shown(check)


def test_a_chain_that_others_need_is_not_deleted() -> None:
    async def check(kit: Dashboard) -> None:
        id = await a_chain(kit)
        await kit.app.client.start_chain("ship", blockers=[id])
        browser = kit.browser()
        page = await browser.get(f"/chains/{id}")
        assert "1 job waits for this chain" in page.text
        await browser.get(f"/chains/{id}/delete")
        page = await browser.send(f"/chains/{id}/delete", status=409)
        assert "forbids" in page.text

    shown(check)


def test_a_chain_that_has_ended_shows_what_it_made() -> None:
    async def check(kit: Dashboard) -> None:
        id = await a_chain(kit)
        [lease] = await kit.store.claim(ClaimRequest(worker="w", tasks=None, limit=1))
        await kit.store.settle([(lease, Complete(next=NewJob("ship")))])
        [lease] = await kit.store.claim(ClaimRequest(worker="w", tasks=None, limit=1))
        await kit.store.settle([(lease, Complete('{"shipped":7}'))])
        browser = kit.browser()
        page = await browser.get(f"/chains/{id}")
        assert '"shipped": 7' in page.text
        assert "Retry" not in page.text
        page = await browser.send(f"/chains/{id}/cancel", status=409)

    shown(check)


# ── tasks and queues ──


def test_tasks_and_queues_are_shown_paused_and_resumed() -> None:
    async def check(kit: Dashboard) -> None:
        client = kit.app.client
        await client.add_jobs([JobSpec("mail"), JobSpec("mail"), JobSpec("pick", queue="line")])
        await kit.store.note_rates([TaskFigures("old", SOME)])
        browser = kit.browser()
        page = await browser.get("/tasks")
        rows = [" ".join(row.text.split()) for row in page.all("tr")]
        assert "mail active 2 0 0 0 0.0 – – – Pause" in rows
        assert "line active 1 0 0 0 Pause" in rows
        assert any(row.startswith("old active 0 0 0 0 1.67 20 % 200ms") for row in rows)
        page = await browser.send("/tasks/pause", task="mail")
        assert "It is paused" in page.text
        await browser.send("/tasks/pause", queue="line")
        paused = await client.paused()
        assert (paused.tasks, paused.queues) == (("mail",), ("line",))
        rows = [" ".join(row.text.split()) for row in (await browser.get("/tasks")).all("tr")]
        assert "line paused 1 0 0 0 Resume" in rows
        await browser.send("/tasks/resume", task="mail")
        await browser.send("/tasks/resume", queue="line")
        assert (await client.paused()).tasks == ()
        await browser.send("/tasks/pause", status=400)
        await browser.send("/tasks/pause", status=400, task="a", queue="b")

    shown(check)


def test_what_is_paused_for_a_tenant_is_resumed_for_it() -> None:
    async def check(kit: Dashboard) -> None:
        client = kit.app.client.for_tenant("acme")
        await client.pause(task="mail")
        await client.pause(queue="line")
        browser = kit.browser()
        page = await browser.get("/tasks")
        assert cells(page).count("acme") == 2
        await browser.send("/tasks/resume", task="mail", tenant="acme")
        await browser.send("/tasks/resume", queue="line", tenant="acme")
        assert (await client.paused()).tasks == ()

    shown(check)


def test_so_many_tasks_are_shown_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MOST_NAMES", 3)

    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        assert "No task is known yet." in (await browser.get("/tasks")).text
        await kit.app.client.add_jobs([JobSpec(f"t{n}", queue=f"q{n}") for n in range(5)])
        page = await browser.get("/tasks")
        assert "2 more tasks are left out" in page.text
        assert "2 more queues are left out" in page.text

    shown(check)


# ── schedules ──


def test_schedules_are_shown_paused_resumed_and_triggered() -> None:
    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        assert "No schedule is known." in (await browser.get("/schedules")).text
        [known] = parse_crontab("30 4 * * mon  report ?id=weekly&tz=Europe/Berlin\n")
        await kit.store.register([known])
        await kit.store.register([known], "acme")
        page = await browser.get("/schedules")
        assert "Europe/Berlin" in page.text
        assert "acme" in cells(page)
        page = await browser.send("/schedules/pause", id="weekly")
        assert "paused" in page.text
        paused = {info.tenant: info.paused_at for info in await kit.app.client.list_schedules()}
        assert paused[None] is not None
        assert paused["acme"] is None
        await browser.send("/schedules/resume", id="weekly")
        page = await browser.send("/schedules/trigger", id="weekly", tenant="acme")
        assert "One job was added" in page.text
        [job] = await kit.app.client.for_tenant("acme").list_jobs()
        assert job.task == "report"
        await browser.send("/schedules/trigger", status=404, id="other")
        await browser.send("/schedules/trigger", status=400)

    shown(check)


# ── workers ──


def test_workers_are_shown_with_what_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MOST_RUNNING", 2)

    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        assert "No worker is known." in (await browser.get("/workers")).text
        await kit.app.client.add_jobs([JobSpec("mail"), JobSpec("pick", queue="line")])
        await kit.store.claim(ClaimRequest(worker="ada-1", tasks=None, limit=2, lease=30.0))
        page = await browser.get("/workers")
        assert "alive" in page.text
        assert "ada-1 2 jobs · lease ends in 30s" in page.text
        assert len(page.jobs) == 2
        assert "there are more" in page.text
        await asyncio.sleep(45)
        page = await browser.get("/workers")
        assert "No worker is alive" in page.text
        assert "its jobs are taken back" in page.text

    shown(check)


def test_a_tenant_sees_the_names_of_workers_without_what_tells_tokens_apart() -> None:
    async def check(kit: Dashboard) -> None:
        await kit.app.client.for_tenant("acme").add_job("mail")
        name = f"ada@{12 * 'a'}.{12 * 'b'}"
        await kit.store.claim(ClaimRequest(worker=name, tasks=None, limit=1))
        own = await kit.signed_in("operator", tenant="acme")
        page = await own.get("/workers")
        assert name not in page.text
        assert "ada" in page.text
        assert len(page.jobs) == 1
        job = await own.get(f"/jobs/{page.jobs[0]}")
        assert name not in job.text

    shown(check)


def test_the_modules_of_figures_agree_on_windows() -> None:
    for minutes, step in figures.WINDOWS.items():
        assert minutes * 60 % step == 0
        assert step % 10 == 0
