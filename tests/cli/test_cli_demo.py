"""The demo checks its own claims; here it is run as in CI, without a terminal."""

from __future__ import annotations

import os
import re
import signal

import pytest

from tests.cli.program import Program


@pytest.mark.slow
def test_the_demo_happens(program: Program) -> None:
    program.write("windlass.toml", "this is not TOML")
    process = program.start("demo", WINDLASS_URL="sqlite:///must-not-be-touched.db")
    assert process.wait() == 0, process.output
    assert process.count("✓") == 6
    assert "\r" not in process.output
    assert not (program.folder / "must-not-be-touched.db").exists()


def test_a_demo_that_is_stopped_leaves_no_worker(program: Program) -> None:
    process = program.start("demo")
    process.wait_for_line("added 300 jobs")
    workers = [int(pid) for pid in re.findall(r"\(process (\d+)\)", process.output)]
    assert len(workers) == 2
    process.send(signal.SIGTERM)
    assert process.wait() == 1
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
