"""Default folders of runs, and groups of runs that are interrupted and continued."""

import signal

import pytest

from her_agents.training import run as run_module
from tests.support.commands import fails, her, succeeds, write_options


@pytest.fixture(name="small", autouse=True)
def small_options(tmp_path, monkeypatch):
    """A folder for the runs, and the words of a very short run."""
    monkeypatch.chdir(tmp_path)
    options = write_options(tmp_path / "small.json")
    return ["--config", options, "--steps", 60, "--steps-per-epoch", 30, "--no-tensorboard", "--no-check"]


def test_a_second_run_gets_the_next_free_default_folder(small, tmp_path):
    for seeds in (1, 2):
        succeeds("train", *small, "--seeds", seeds)
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    name = "PointReach-v0-sac"
    assert names == [f"{name}-0", f"{name}-run2-0", f"{name}-run2-1"]
    result = her("compare", *sorted((tmp_path / "runs").glob("*run2*")))
    assert (result.exit_code, result.stdout.count("PointReach-v0-sac-run2 ")) == (0, 1), result.output


def test_the_same_command_continues_an_interrupted_group(small, tmp_path, monkeypatch):
    words = [*small, "--seeds", 3, "--out", "group"]
    evaluate, calls = run_module.evaluate, []

    def interrupting(*arguments):
        calls.append(1)
        if len(calls) == 3:  # in the first epoch of the second run
            signal.raise_signal(signal.SIGINT)
        return evaluate(*arguments)

    around = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(run_module, "evaluate", interrupting)
        result = her("train", *words)
    finally:
        signal.signal(signal.SIGINT, around)
    assert result.exit_code == 130
    assert sorted(path.name for path in (tmp_path / "group").iterdir()) == ["seed-0", "seed-1"]
    rows = len((tmp_path / "group" / "seed-1" / "progress.csv").read_text().splitlines()) - 1
    assert rows == 1
    output = succeeds("train", *words)
    assert "group/seed-0 is complete" in output
    for seed in range(3):
        assert len((tmp_path / "group" / f"seed-{seed}" / "progress.csv").read_text().splitlines()) == 3
    fails(2, "all runs in group are complete", "train", *words)
    assert her("train", *small, "--out", "group/seed-0").exit_code == 2, "a single run is not continued"
    assert her("train", *words, "--gamma", 0.9).exit_code == 2, "its options differ"
