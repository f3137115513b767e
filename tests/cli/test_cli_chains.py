"""Chains on the command line: adding, looking, changing."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from click.testing import Result

from tests.cli.program import Program, wait_until

ORDERS = """
import asyncio
from pathlib import Path
from windlass import App, Context

app = App()


@app.task
async def charge(ctx: Context, order: int) -> object:
    return ctx.continue_with(ship, order=order)


@app.task(max_attempts=1)
def ship(order: int) -> str:
    if not Path("stock").exists():
        raise ValueError("nothing in stock")
    return f"order {order} shipped"


@app.task
async def split(ctx: Context, count: int) -> object:
    parts = [ctx.start(part, number=number) for number in range(count)]
    return ctx.continue_with(merge.using(blockers=parts))


@app.task
async def part(number: int) -> int:
    return number * number


@app.task
async def merge(ctx: Context) -> int:
    return sum(chain.output for chain in ctx.blockers)


@app.task
async def approval(order: int) -> None:
    Path("asked").touch()
    await asyncio.Event().wait()
"""


@pytest.fixture
def shop(program: Program) -> Program:
    program.write("shop.py", ORDERS)
    return program


def work(shop: Program) -> None:
    """Run what is there, in a process."""
    done = shop.run("run", "shop:app", "--once")
    assert done.returncode == 0, done.stderr


def ok(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(result: Result, code: int = 1) -> str:
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("windlass: ")
    return line


def shown(shop: Program, *words: str) -> Any:
    return json.loads(ok(shop.call(*words, "--json")))


# ── adding ──


def test_a_chain_is_started_worked_on_and_shown(shop: Program) -> None:
    shop.write("stock", "")
    assert ok(shop.call("add", "charge", '{"order": 7}', "--chain")) == "1\n"
    assert shown(shop, "chains", "show", "1")["chain"]["state"] == "open"
    work(shop)
    chain = shown(shop, "chains", "show", "1")["chain"]
    assert (chain["state"], chain["length"]) == ("completed", 2)
    assert chain["output"] == "order 7 shipped"
    assert ok(shop.call("chains", "show", "1")) == (
        'chain 1  charge  completed, 2 jobs → "order 7 shipped"\n'
    )


def test_an_open_chain_with_the_key_is_the_answer(shop: Program) -> None:
    words = ("add", "charge", '{"order": 7}', "--chain", "--key", "order-7", "--key-window", "1h")
    assert ok(shop.call(*words)) == "1\n"
    again = shop.call(*words)
    assert (ok(again), "chain 1 is open and has this key" in again.stderr) == ("1\n", True)
    assert shown(shop, *words)["deduplicated"] is True
    shop.app.sync.complete_chain(1)
    assert ok(shop.call(*words)) == "1\n", "its key counts for an hour more"
    assert len(shop.jobs()) == 0


def test_a_job_waits_for_its_blockers_and_tells_so(shop: Program) -> None:
    for number in (1, 2):
        assert ok(shop.call("add", "part", '{"number": 3}', "--chain")) == f"{number}\n"
    words = ("add", "merge", "--blocker", "1", "--blocker", "2", "--on-blocker-failure", "wait")
    assert shown(shop, *words)["state"] == "blocked"
    told = ok(shop.call("jobs", "show", "3"))
    assert "waits for:   2 of 2 chains\n" in told
    assert "blockers:\n  chain 1 part open\n  chain 2 part open\n" in told
    assert "chain:" not in told
    assert "chain:       1, step 0\n" in ok(shop.call("jobs", "show", "1"))
    assert [chain["id"] for chain in shown(shop, "jobs", "show", "3")["blockers"]] == [1, 2]
    assert "1 job waits for it: 3\n" in ok(shop.call("chains", "show", "1"))
    work(shop)
    assert shop.jobs() == []


def test_a_file_of_chains(shop: Program) -> None:
    lines = [
        {"task": "part", "payload": {"number": 1}, "chain": True},
        {"task": "part", "payload": {"number": 2}, "chain": True, "key": "k", "key_window": 60},
        {"task": "part", "payload": {"number": 3}, "chain": True, "key": "k"},
    ]
    text = "\n".join(map(json.dumps, lines))
    assert ok(shop.call("add", "--jsonl", "-", input=text)) == "2 chains started\n"
    job = {"task": "merge", "blockers": [1, 2], "on_blocker_failure": "run"}
    assert ok(shop.call("add", "--jsonl", "-", input=json.dumps(job))) == "1 job added\n"
    assert shop.job(3).blockers_open == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"task": "t", "chain": true}', "line 2: chains and other jobs cannot be in one file"),
        ('{"task": "t", "blockers": [0]}', "line 2: no chain has the id 0"),
        ('{"task": "t", "key_window": 5}', "line 2: key_window is for chains"),
        ('{"task": "t", "on_blocker_failure": "cry"}', "line 2: Invalid enum value 'cry'"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_stored(shop: Program, line: str, said: str) -> None:
    result = shop.call("add", "--jsonl", "-", input='{"task": "t"}\n' + line)
    assert said in refused(result)
    assert shop.jobs() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--key-window", "60"), "--key-window is for chains"),
        (("--chain", "--key-window", "60"), "key_window needs a key"),
        (("--chain", "--key", "k", "--key-window", "soon"), "not a length of time"),
        (("--chain", "--key", "k", "--key-window", "99999999999d"), "is too long"),
        (("--chain", "--key", "k", "--key-mode", "replace"), "has no mode"),
        (("--blocker", "0"), "--blocker"),
        (("--blocker", "seven"), "--blocker"),
        (("--on-blocker-failure", "cry"), "--on-blocker-failure"),
    ],
)
def test_wrong_usage_is_one_line(shop: Program, words: tuple[str, ...], said: str) -> None:
    assert said in refused(shop.call("add", "t", *words), code=2)
    assert not shop.file.exists()


def test_an_unknown_blocker_stores_nothing(shop: Program) -> None:
    job = shop.add("t")
    line = refused(shop.call("add", "merge", "--blocker", str(job.id), "--blocker", "99"))
    assert f"there is no chain {job.id}, 99" in line
    assert len(shop.jobs()) == 1


# ── looking ──


def test_list_pages_and_selects(shop: Program) -> None:
    for number in range(3):
        shop.app.sync.start_chain("part" if number else "charge", {"number": number})
    shop.app.sync.complete_chain(2, 4)
    page = shop.call("chains", "list", "--limit", "2")
    header, *rows = ok(page).splitlines()
    assert header.split()[:4] == ["ID", "STATE", "TASK", "JOBS"]
    assert [row.split()[:4] for row in rows] == [
        ["3", "open", "part", "1"],
        ["2", "completed", "part", "1"],
    ]
    assert "--after 2" in page.stderr

    def ids(*words: str) -> list[int]:
        return [chain["id"] for chain in shown(shop, "chains", "list", *words)]

    assert ids("--after", "2") == [1]
    assert ids("--state", "open") == [3, 1]
    assert ids("--state", "open", "--state", "completed") == [3, 2, 1]
    assert ids("--task", "charge") == [1]
    nothing = shop.call("chains", "list", "--state", "failed")
    assert (ok(nothing), nothing.stderr) == ("", "no chains\n")
    refused(shop.call("chains", "list", "--state", "ready"), code=2)


def test_show_draws_blockers_of_blockers_and_their_states(shop: Program) -> None:
    sync = shop.app.sync
    first = sync.start_chain("part", {"number": 1}, key="k")
    second = sync.start_chain("part", {"number": 2}, blockers=[first])
    sync.start_chain("merge", blockers=[first, second], on_blocker_failure="wait")
    sync.permanently_fail_jobs([first.id], "no paper")
    assert ok(shop.call("chains", "show", "3")).splitlines() == [
        "chain 3  merge  open, 1 job",
        "└─ job 3  step 0  merge  blocked, waits for 2 of 2 chains",
        "   ├─ chain 1  part  failed, 1 job, key k: no paper",
        '   │  └─ job 1  step 0  part {"number":1}  failed, attempt 25 of 25: no paper',
        "   └─ chain 2  part  failed, 1 job: chain 1, which this job waited for, failed",
        '      └─ job 2  step 0  part {"number":2}  failed: chain 1, which this job waited for,'
        " failed",
        "         └─ chain 1  part  failed, 1 job, key k, shown elsewhere in this tree: no paper",
    ]
    tree = shown(shop, "chains", "show", "3")
    (job,) = tree["jobs"]
    assert [below["chain"]["id"] for below in job["blockers"]] == [1, 2]
    assert job["blockers"][1]["jobs"][0]["blockers"][0]["is_repeated"] is True
    assert (tree["waiting"], job["left_off"]) == ([], {})


def test_a_fan_out_in_one_step(shop: Program) -> None:
    shop.app.sync.start_chain("split", {"count": 30}, keep=600)
    shop.app.sync.pause(task="part")
    work(shop)
    drawn = ok(shop.call("chains", "show", "1")).splitlines()
    assert drawn[0] == "chain 1  split  open, 2 jobs"
    assert drawn[1] == "├─ job 1  step 0  split  completed"
    assert drawn[2].endswith("step 1  merge  blocked, waits for 30 of 30 chains")
    assert drawn[-1] == "   └─ … and 10 chains more: 10 open"
    shop.app.sync.resume(task="part")
    work(shop)
    assert shown(shop, "chains", "show", "1")["chain"]["output"] == sum(n * n for n in range(30))


def test_an_unknown_chain_is_one_line(shop: Program) -> None:
    job = shop.add("t")
    assert f"no chain {job.id}" in refused(shop.call("chains", "show", str(job.id)))
    for words in (("complete", "9"), ("cancel", "9"), ("retry", "9")):
        assert "there is no chain 9" in refused(shop.call("chains", *words))
    gone = shop.call("chains", "delete", "9")
    assert (gone.exit_code, gone.stdout) == (1, "0 chains deleted\n")
    assert "there is no chain 9" in gone.stderr


# ── changing ──


def test_complete_by_hand_with_an_output(shop: Program) -> None:
    shop.app.sync.start_chain("approval", {"order": 7})
    assert ok(shop.call("chains", "complete", "1", '{"by": "ada"}')) == "chain 1 completed\n"
    assert shown(shop, "chains", "show", "1")["chain"]["output"] == {"by": "ada"}
    assert "chain 1 is completed already" in refused(shop.call("chains", "complete", "1"))


def test_complete_by_hand_and_go_on(shop: Program) -> None:
    shop.app.sync.start_chain("approval", {"order": 7}, priority=3)
    words = ("chains", "complete", "1", '{"order": 7}', "--then", "ship", "--run-at", "+1h")
    assert ok(shop.call(*words, "--flag", "eu")) == "chain 1 goes on with ship, job 2\n"
    job = shop.job(2)
    assert (job.task, job.payload, job.state) == ("ship", {"order": 7}, "scheduled")
    assert (job.priority, job.flags, job.chain, job.step) == (3, ("eu",), 1, 1)
    line = refused(shop.call("chains", "complete", "1", "--queue", "q"), code=2)
    assert "give --then TASK too" in line
    refused(shop.call("chains", "complete", "1", "{bad"), code=2)


def test_complete_while_a_worker_runs_it(shop: Program) -> None:
    shop.app.sync.start_chain("approval", {"order": 7})
    worker = shop.start("run", "shop:app")
    wait_until("the question", (shop.folder / "asked").exists)
    assert ok(shop.call("chains", "complete", "1", "true")) == "chain 1 completed\n"
    worker.wait_for_line("already_completed")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert shown(shop, "chains", "show", "1")["chain"]["output"] is True


def test_a_failed_chain_is_retried(shop: Program) -> None:
    shop.app.sync.start_chain("charge", {"order": 7})
    shop.app.sync.add_job("merge", blockers=[1])
    work(shop)
    chain = shown(shop, "chains", "show", "1")["chain"]
    assert (chain["state"], "nothing in stock" in chain["error"]) == ("failed", True)
    assert shop.job(2).state == "failed"
    assert "retry chain 1 first" in refused(shop.call("jobs", "retry", "2"))
    shop.write("stock", "")
    assert ok(shop.call("chains", "retry", "1")) == "1 chain open again\n"
    assert shop.job(2).state == "blocked"
    again = shop.call("chains", "retry", "1")
    assert (again.exit_code, again.stdout) == (1, "0 chains open again\n")
    assert "chain 1 is open; it was not changed" in again.stderr
    assert ok(shop.call("chains", "complete", "1", "1")) == "chain 1 completed\n"
    work(shop)
    assert shop.jobs() == []


def test_cancel_is_all_or_none(shop: Program) -> None:
    for _ in range(2):
        shop.app.sync.start_chain("charge", {"order": 7})
    shop.app.sync.complete_chain(2)
    assert "chain 2 is completed already" in refused(shop.call("chains", "cancel", "1", "2"))
    assert shown(shop, "chains", "show", "1")["chain"]["state"] == "open"
    assert [chain["state"] for chain in shown(shop, "chains", "cancel", "1")] == ["cancelled"]


def test_delete_refuses_what_others_need_and_cascades(shop: Program) -> None:
    first = shop.app.sync.start_chain("part", {"number": 1})
    second = shop.app.sync.start_chain("merge", blockers=[first])
    line = refused(shop.call("chains", "delete", str(first.id)))
    assert f"job {second.id} names it as a blocker" in line
    assert ok(shop.call("chains", "delete", str(second.id), "--cascade")) == "2 chains deleted\n"
    assert shop.jobs() == []
    assert shown(shop, "chains", "list") == []


@pytest.mark.parametrize("verb", ["cancel", "retry", "delete", "show", "complete"])
def test_a_verb_needs_a_chain(shop: Program, verb: str) -> None:
    refused(shop.call("chains", verb), code=2)
    refused(shop.call("chains", verb, "one"), code=2)


# ── tenants ──


def test_a_tenant_sees_and_changes_its_own_chains(shop: Program) -> None:
    words = ("add", "charge", '{"order": 7}', "--chain", "--key", "k", "--tenant")
    assert ok(shop.call(*words, "acme")) == "1\n"
    assert ok(shop.call(*words, "")) == "2\n"
    assert [chain["id"] for chain in shown(shop, "chains", "list", "--tenant", "acme")] == [1]
    header, *rows = ok(shop.call("chains", "list")).splitlines()
    assert header.split()[:2] == ["TENANT", "ID"]
    assert [row.split()[0] for row in rows] == ["2", "acme"]
    assert "no chain 1" in refused(shop.call("chains", "cancel", "1", "--tenant", "other"))
    assert "no chain 1" in refused(shop.call("add", "t", "--blocker", "1"))
    drawn = ok(shop.call("chains", "show", "1", "--tenant", "acme"))
    assert drawn.startswith("chain 1  charge  open, 1 job, key k, tenant acme\n")


def test_a_database_that_is_not_there_is_not_made(shop: Program) -> None:
    for words in (("list",), ("show", "1"), ("cancel", "1")):
        assert "there is no database" in refused(shop.call("chains", *words))
    assert not shop.file.exists()
