"""Several processes, one answer: no counter goes back, and nothing is counted twice."""

from __future__ import annotations

from pathlib import Path

from windlass.observe import metrics
from windlass.observe.instruments import Instruments
from windlass.observe.sharing import SharedFigures, keep_ended
from windlass.observe.snapshot import encode


def claims(shared: SharedFigures) -> float:
    return shared.look().counters[metrics.CLAIMED_JOBS.name][()]


def elsewhere(folder: Path, process: int, jobs: int, *, slots: int = 0) -> None:
    """What another process has written."""
    instruments = Instruments()
    instruments.claimed(jobs, 0.01)
    found = instruments.look()
    found.add(metrics.SLOTS, ("idle",), slots)
    (folder / f"{process}.figures").write_bytes(encode(found))


def test_what_all_have_written_is_added_up(tmp_path: Path) -> None:
    own = Instruments()
    shared = SharedFigures(tmp_path, own.look)
    elsewhere(tmp_path, 1, 10, slots=4)
    elsewhere(tmp_path, 2, 5, slots=4)
    own.claimed(1, 0.01)
    assert claims(shared) == 16
    assert claims(shared) == 16, "one's own file is not read in addition"
    assert shared.look().gauges[metrics.SLOTS.name] == {("idle",): 8}


def test_of_a_process_that_has_ended_the_counters_stay(tmp_path: Path) -> None:
    shared = SharedFigures(tmp_path, Instruments().look)
    for process in (1, 2):
        elsewhere(tmp_path, process, 10, slots=4)
        keep_ended(tmp_path, process)
        keep_ended(tmp_path, process)
    elsewhere(tmp_path, 3, 1, slots=4)
    assert claims(shared) == 21
    assert shared.look().gauges[metrics.SLOTS.name] == {("idle",): 4}
    bins = shared.look().histograms[metrics.CLAIM_SECONDS.name][()]
    assert bins.total == 3


def test_what_was_told_once_is_told_again_by_others(tmp_path: Path) -> None:
    """One is asked and then killed: it had written what it told."""
    one, other = Instruments(), Instruments()
    first = SharedFigures(tmp_path, one.look)
    first._own = tmp_path / "1.figures"
    one.claimed(7, 0.01)
    assert claims(first) == 7
    keep_ended(tmp_path, 1)
    assert claims(SharedFigures(tmp_path, other.look)) == 7


def test_the_last_figures_are_written_at_the_end(tmp_path: Path) -> None:
    own = Instruments()
    shared = SharedFigures(tmp_path, own.look)
    shared.start()
    own.claimed(3, 0.01)
    shared.close()
    other = SharedFigures(tmp_path, Instruments().look)
    other._own = tmp_path / "other.figures"
    assert claims(other) == 3


def test_a_file_that_cannot_be_read_counts_as_nothing(tmp_path: Path) -> None:
    (tmp_path / "7.figures").write_bytes(b"\xc1 no figures")
    (tmp_path / "8.figures").mkdir()
    assert claims(SharedFigures(tmp_path, Instruments().look)) == 0


def test_a_folder_that_has_gone_with_its_supervisor_is_no_error(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    shared = SharedFigures(folder, Instruments().look)
    folder.rmdir()
    shared.start()
    shared.close()
