"""Pages about jobs: the list, one job, and changing many."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tests.dashboard.kit import Dashboard, Read, fail, shown
from windlass import JobSpec
from windlass.server.dashboard import figures, search
from windlass.server.dashboard.pages import bulk
from windlass.store.records import ClaimRequest, Complete, Fail, Note


async def add(kit: Dashboard, count: int, task: str = "mail", **options: object) -> list[int]:
    specs = [JobSpec(task, {"n": n}, **options) for n in range(count)]  # type: ignore[arg-type]
    return [job.id for job in await kit.app.client.add_jobs(specs)]


def test_an_empty_database_says_what_to_do() -> None:
    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        assert "There are no jobs yet." in (await browser.get("/jobs")).text
        assert "Nothing has failed." in (await browser.get("/")).text
        assert "No job is like this." in (await browser.get("/jobs?state=failed")).text

    shown(check)


def test_jobs_are_listed_the_newest_first_and_paged_while_jobs_are_added() -> None:
    async def check(kit: Dashboard) -> None:
        ids = await add(kit, 120)
        browser = kit.browser()
        first = await browser.get("/jobs")
        assert first.jobs == ids[:-51:-1]
        assert "Older" in first.text
        assert "Newest" not in first.text
        await add(kit, 5)
        older = next(link["href"] for link in first.all("a") if link.get("rel") == "next")
        second = await browser.get(older)
        assert second.jobs == ids[-51:-101:-1]
        assert "Newest" in second.text
        last = await browser.get(next(a["href"] for a in second.all("a") if a.get("rel") == "next"))
        assert last.jobs == ids[-101::-1]
        assert not [a for a in last.all("a") if a.get("rel") == "next"]

    shown(check)


def test_jobs_are_found_by_state_task_queue_key_tenant_and_number() -> None:
    async def check(kit: Dashboard) -> None:
        client = kit.app.client
        plain = (await client.add_job("a")).id
        queued = (await client.add_job("b", queue="line")).id
        keyed = (await client.add_job("c", key="k", delay=60)).id
        foreign = (await client.for_tenant("acme").add_job("d")).id
        browser = kit.browser()
        for words, found in {
            "": [foreign, keyed, queued, plain],
            "?state=ready": [foreign, queued, plain],
            "?state=scheduled&state=failed": [keyed],
            "?task=a": [plain],
            "?queue=line": [queued],
            "?key=k": [keyed],
            "?tenant=acme": [foreign],
            "?task=a&queue=line": [],
        }.items():
            assert (await browser.get(f"/jobs{words}")).jobs == found, words
        assert f"job {queued}" in (await browser.get(f"/jobs/find?number={queued}")).text
        await browser.get("/jobs/find?number=no", status=400)
        await browser.get("/jobs/find", status=404)
        await browser.get("/jobs?state=unknown", status=400)
        await browser.get("/jobs?since=soon", status=400)
        await browser.get("/jobs?after=-1", status=400)

    shown(check)


def test_jobs_are_found_by_when_they_were_added() -> None:
    async def check(kit: Dashboard) -> None:
        ids: list[int] = []
        instants: list[datetime] = []
        for _ in range(9):
            [id] = await add(kit, 1)
            ids.append(id)
            job = await kit.app.client.get_job(id)
            assert job is not None
            instants.append(job.created_at)
            await asyncio.sleep(60)
        client = kit.app.client
        for since in range(9):
            for until in (*range(since, 9), None):
                wanted = search.Search(
                    since=instants[since], until=None if until is None else instants[until]
                )
                within = await search.bounds(client, wanted)
                found = await search.page(client, wanted, within, None, 100)
                assert [job.id for job in found] == ids[since:until][::-1], (since, until)
        late = search.Search(since=instants[-1] + timedelta(hours=1))
        assert [batch async for batch in search.batches(client, late)] == []
        browser = kit.browser()
        text = instants[4].astimezone(UTC).replace(tzinfo=None).isoformat()
        page = await browser.get(f"/jobs?since={text}")
        assert page.jobs == ids[4:][::-1]
        assert (await browser.get(f"/jobs?until={text}&after={ids[3]}")).jobs == ids[:3][::-1]

    shown(check)


def test_a_job_is_shown_with_all_that_is_known_of_it() -> None:
    async def check(kit: Dashboard) -> None:
        client = kit.app.client
        added = await client.add_job(
            "mail", {"to": "ada"}, queue="line", key="k", flags=["gpu"], priority=3, keep=600
        )
        [lease] = await kit.store.claim(ClaimRequest(worker="w", tasks=None, limit=1))
        await kit.store.note(lease, Note(progress='[0.25,"a quarter"]', entry='{"step":1}'))
        browser = kit.browser()
        page = await browser.get(f"/jobs/{added.id}")
        for words in ("line", "gpu", "a quarter", '{"step":1}', '"to": "ada"', "kept", "running"):
            assert words in page.text, words
        assert [bar["value"] for bar in page.all("progress")] == ["25"]
        assert "Stop" in page.text
        await kit.store.settle([(lease, Fail("ValueError: no\nTraceback: …", delay=30.0))])
        page = await browser.get(f"/jobs/{added.id}")
        assert "Traceback: …" in page.text
        assert "Run now" in page.text
        assert "Failed attempts" in page.text
        await asyncio.sleep(60)
        await kit.store.promote(10)
        [lease] = await kit.store.claim(ClaimRequest(worker="w", tasks=None, limit=1))
        await kit.store.settle([(lease, Complete('{"sent":true}', keep=600))])
        page = await browser.get(f"/jobs/{added.id}")
        assert '"sent": true' in page.text
        assert f"/jobs/{added.id}/retry" not in [form.get("action") for form in page.all("form")]

    shown(check)


def test_what_is_not_there_is_told_with_a_way_on() -> None:
    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        assert "There is no job 99" in (await browser.get("/jobs/99", status=404)).text
        for path in ("/jobs/x", "/jobs/0", "/jobs/9" + 30 * "9", "/jobs/1/2/3"):
            page = await browser.get(path, status=404)
            assert "/jobs" in page.links, path

    shown(check)


def test_a_failed_job_is_retried_from_its_page() -> None:
    async def check(kit: Dashboard) -> None:
        [id] = await add(kit, 1)
        await fail(kit, id)
        browser = kit.browser()
        await browser.get(f"/jobs/{id}")
        page = await browser.press(f"/jobs/{id}/retry")
        assert "The job runs again." in page.text
        job = await kit.app.client.get_job(id)
        assert job is not None
        assert job.state == "ready"
        page = await browser.press(f"/jobs/{id}/cancel")
        assert "cancelled" in page.text
        page = await browser.send(f"/jobs/{id}/cancel")
        assert "Nothing was changed" in page.text

    shown(check)


def test_many_jobs_are_changed_after_a_count() -> None:
    async def check(kit: Dashboard) -> None:
        ids = await add(kit, 70)
        others = await add(kit, 3, task="other")
        await fail(kit, *ids, *others)
        browser = kit.browser()
        page = await browser.get("/jobs/change?verb=retry&of=all&state=failed&task=mail")
        assert "Retry 70 jobs?" in page.text
        page = await browser.press("/jobs/change")
        assert "70 jobs run again." in page.text
        assert browser.path == "/jobs?state=failed&task=mail&done=retry&n=70"
        counts = await kit.app.client.counts()
        assert (counts["ready"], counts["failed"]) == (70, 3)

    shown(check)


def test_ticked_jobs_are_changed_and_no_others() -> None:
    async def check(kit: Dashboard) -> None:
        ids = await add(kit, 5)
        browser = kit.browser()
        chosen = f"id={ids[1]}&id={ids[3]}"
        page = await browser.get(f"/jobs/change?verb=delete&of=ticked&task=mail&{chosen}")
        assert "Delete 2 jobs?" in page.text
        page = await browser.press("/jobs/change")
        assert "2 jobs are deleted." in page.text
        assert (await browser.get("/jobs")).jobs == [ids[4], ids[2], ids[0]]
        page = await browser.get(f"/jobs/change?verb=cancel&of=ticked&id={ids[0]}")
        assert "Cancel 1 job?" in page.text
        await browser.press("/jobs/change")
        assert browser.path.startswith(f"/jobs/{ids[0]}?")

    shown(check)


@pytest.mark.parametrize(
    "query",
    [
        "verb=retry&of=all",
        "verb=retry&of=ticked&state=failed",
        "verb=explode&of=all&state=failed",
        "of=all&state=failed",
        "verb=retry&of=ticked&id=x",
    ],
)
def test_a_change_of_everything_or_nothing_is_refused(query: str) -> None:
    async def check(kit: Dashboard) -> None:
        await kit.browser().get(f"/jobs/change?{query}", status=400)

    shown(check)


def test_a_large_change_stops_after_a_while_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BATCH", 10)
    monkeypatch.setattr(bulk, "LONGEST", 0.0)
    monkeypatch.setattr(figures, "MOST_COUNTED", 20)

    async def check(kit: Dashboard) -> None:
        await add(kit, 35)
        browser = kit.browser()
        page = await browser.get("/jobs/change?verb=delete&of=all&task=mail")
        assert "Delete 20+ jobs?" in page.text
        seen: list[Read] = []
        while browser.path == "/jobs/change" or "/change?" in browser.path:
            seen.append(await browser.press("/jobs/change"))
        assert "10 are done; these are left." in seen[0].text
        assert "35 jobs are deleted." in seen[-1].text
        assert sum((await kit.app.client.counts()).values()) == 0

    shown(check)


def test_notices_say_only_what_they_can() -> None:
    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        page = await browser.get("/jobs?done=you+won&n=3")
        assert "won" not in page.text
        assert "3 jobs run again." in (await browser.get("/jobs?done=retry&n=3")).text
        assert "run again" not in (await browser.get("/jobs?done=retry&n=<b>")).text

    shown(check)
