"""The command of each study with short runs: complete, interrupted, changed and failing studies."""

import csv
from dataclasses import replace

import pytest

from benchmarks.studies import bitflip, run_all, strategies
from benchmarks.studies.runs import WITH_HER, Run, execute
from her_wrappers.data.atomic import acquire_lock
from tests.support.studies import RUNS, do, do_quick, tiny_bits


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("study", RUNS)
def test_study_writes_a_table_a_picture_and_a_page(study, tmp_path):
    result = do_quick(study, tmp_path)
    assert result.exit_code == 0, result.output
    assert f"{RUNS[study]} of {RUNS[study]} runs" in result.output
    rows = rows_of(tmp_path / f"{study}.csv")
    finals = [row for row in rows if row["evaluation"] == "final"]
    assert (len(finals), {row["episodes"] for row in finals}) == (RUNS[study], {"4"})
    assert len({row["run"] for row in rows}) == RUNS[study]
    assert (tmp_path / f"{study}.svg").read_text().startswith("<?xml")
    page = (tmp_path / f"{study}.md").read_text()
    for text in (f"({study}.svg)", "torch 2.", "seeds 0;", "--jobs 1", f"studies/{study}.py"):
        assert text in page


class CountingExecute:
    """Replaces `execute`: calls ``instead(run, number of earlier runs)``, then executes the run."""

    def __init__(self, monkeypatch, instead=lambda run, count: None):
        self.executed = []
        self._instead = instead
        monkeypatch.setattr(run_all, "execute", self)

    def __call__(self, run):
        self._instead(run, len(self.executed))
        self.executed.append(str(run))
        return execute(run)


def test_interrupted_study_continues(tmp_path, monkeypatch):
    def interrupt(run, count):
        if count == 3:
            raise KeyboardInterrupt

    first = CountingExecute(monkeypatch, interrupt)
    result = do_quick("bitflip", tmp_path)
    assert result.exit_code == 130
    assert f"Interrupted. Completed runs are in {tmp_path}" in result.output
    assert not (tmp_path / "bitflip.md").exists()
    before = (tmp_path / "bitflip.csv").read_text()
    second = CountingExecute(monkeypatch)
    assert "3 of 4 runs are complete already." in do_quick("bitflip", tmp_path).output
    assert (len(second.executed), set(first.executed) & set(second.executed)) == (1, set())
    assert (tmp_path / "bitflip.csv").read_text().startswith(before)
    third = CountingExecute(monkeypatch)
    (tmp_path / "bitflip.svg").unlink()
    page = (tmp_path / "bitflip.md").read_text()
    assert do_quick("bitflip", tmp_path, "--seeds", 1).exit_code == 0
    assert third.executed == []
    assert (tmp_path / "bitflip.svg").exists(), "existing results are drawn again"
    assert (tmp_path / "bitflip.md").read_text() == page, "with the command that measured them"


def test_rows_of_other_settings_are_removed(tmp_path, monkeypatch):
    do_quick("bitflip", tmp_path)
    before = (tmp_path / "bitflip.csv").read_text()
    monkeypatch.setattr(bitflip, "settings", lambda n: tiny_bits(n) | {"steps": 90})
    again = CountingExecute(monkeypatch)
    result = do_quick("bitflip", tmp_path)
    assert [name.split(",")[0] for name in again.executed] == ["n = 2"] * 2
    assert "bitflip.csv.old contains" in result.output
    assert (tmp_path / "bitflip.csv.old").read_text() == before
    finals = [row for row in rows_of(tmp_path / "bitflip.csv") if row["evaluation"] == "final"]
    assert len({row["run"] for row in finals}) == len(finals) == 4


def test_failed_run_is_named_and_the_others_continue(tmp_path, monkeypatch):
    def fail(run, count):
        if run.labels == {"n": 3, "goals": WITH_HER}:
            raise ValueError("no luck")

    CountingExecute(monkeypatch, fail)
    result = do_quick("bitflip", tmp_path)
    named = "n = 3, with HER, seed = 0: ValueError: no luck"
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == named
    assert f"**failed**: {named}" in (tmp_path / "bitflip.md").read_text()
    again = CountingExecute(monkeypatch)
    assert do_quick("bitflip", tmp_path).exit_code == 0
    assert again.executed == ["n = 3, with HER, seed = 0"]
    assert "**failed**" not in (tmp_path / "bitflip.md").read_text()


def test_second_study_in_a_folder_raises_an_error(tmp_path):
    claim = acquire_lock(tmp_path / "bitflip.lock", "it")
    result = do_quick("bitflip", tmp_path)
    claim.release()
    assert result.exit_code == 2
    assert f"the study bitflip in {tmp_path} is in use" in result.output


def test_longest_runs_start_first(monkeypatch):
    order = []
    monkeypatch.setattr(run_all, "attempt", order.append)
    study = strategies.make_study(1, quick=True)
    long = {"steps": 95}, {"algo": "td3"}, {"updates_per_step": 0.9}
    slow = [Run({"k": 1}, replace(study.runs[0].config, **options)) for options in long]
    run_all.run_all([*study.runs, *slow], 1, lambda result: None)
    assert order[:2] == [slow[2], slow[0]]
    assert len(order) == len(study.runs) + 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bitflip", "--seeds", 0], "argument --seeds: must be an integer of at least 1, got 0"),
        (["bitflip", "fetch_push"], "expected NAME for the study recipe, and for no other study"),
        (["recipe"], "expected NAME for the study recipe, and for no other study"),
        (["recipe", "large"], "unknown recipe 'large'; choose from"),
        (["bitflip", "--backend", "mpi"], "argument --backend: invalid choice: 'mpi'"),
    ],
)
def test_wrong_usage_ends_with_exit_code_2(arguments, message):
    result = do(*arguments)
    assert (result.exit_code, message in result.output) == (2, True)
