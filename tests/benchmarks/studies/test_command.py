"""The command of each study with short runs: complete, interrupted, changed and failing studies."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from benchmarks.studies import bitflip, fetch, reach, run_all, strategies
from benchmarks.studies import study as study_module
from benchmarks.studies.plots import BLUE, GRAY, VERMILLION
from benchmarks.studies.runs import WITH_HER, Run, execute
from benchmarks.studies.study import settings_of
from her_agents.config import make_config
from her_wrappers.files.atomic import acquire_lock
from tests.support.studies import REQUIRE_PACKAGES, RUNS, do, do_quick, tiny_bits


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def show(picture, color):
    """Return whether more than 50 pixels of a picture have a color."""
    wanted = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return (np.asarray(picture.convert("RGB")) == wanted).all(axis=-1).sum() > 50


@pytest.mark.parametrize("study", RUNS)
def test_study_writes_a_table_a_picture_and_a_page(study, tmp_path):
    result = do_quick(study, tmp_path)
    assert result.exit_code == 0, result.output
    assert f"{RUNS[study]} of {RUNS[study]} runs" in result.output
    rows = rows_of(tmp_path / f"{study}.csv")
    finals = [row for row in rows if row["evaluation"] == "final"]
    assert (len(finals), {row["episodes"] for row in finals}) == (RUNS[study], {"4"})
    assert all(0 <= float(row["success_rate"]) <= 1 for row in rows)
    assert len({row["run"] for row in rows}) == RUNS[study]
    with Image.open(tmp_path / f"{study}.png") as picture:
        assert picture.width == 1200
        assert show(picture, BLUE)
        assert show(picture, GRAY if study == "strategies" else VERMILLION), "the variant without HER"
    page = (tmp_path / f"{study}.md").read_text()
    for text in (
        "![",
        f"({study}.png)",
        "no promise at this size",
        "torch 2.",
        "cores",
        "seeds 0;",
        "--jobs 1",
    ):
        assert text in page


def configs_on_page(page, labels):
    """Yield the settings of each run on a page."""
    common = re.search(r"In all runs: (.*)\.\n", page).group(1)
    shared = {name: json.loads(value) for name, value in re.findall(r"`([\w.]+) = (.*?)`", common)}
    _, _, table = page.partition("In all runs:")
    header, _, *rows = [
        line.strip("| \n").split(" | ") for line in table.splitlines() if line.startswith("|")
    ]
    for row in rows:
        cells = dict(zip(header[labels:], row[labels:], strict=True))
        yield shared | {name: json.loads(cell) for name, cell in cells.items() if cell != "default"}


@pytest.mark.parametrize("make", [bitflip.make_study, strategies.make_study, reach.make_study])
def test_page_shows_the_settings_of_the_runs(make):
    study = make(1, quick=False)
    configs = []
    for options in configs_on_page(settings_of(study.runs), len(study.runs[0].labels)):
        nested = {}
        for name, value in options.items():
            table, _, key = name.rpartition(".")
            if table:
                nested.setdefault(table, {})[key] = value
        flat = {name: value for name, value in options.items() if "." not in name}
        configs.append(make_config(flat, nested))
    assert configs == [replace(run.config, seed=0) for run in study.runs]


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
    assert f"Interrupted. Completed runs are in {tmp_path}; the same command continues." in result.output
    assert not (tmp_path / "bitflip.md").exists()
    before = (tmp_path / "bitflip.csv").read_text()
    second = CountingExecute(monkeypatch)
    result = do_quick("bitflip", tmp_path)
    assert "3 of 4 runs are complete already." in result.output
    assert (len(second.executed), set(first.executed) & set(second.executed)) == (1, set())
    assert (tmp_path / "bitflip.csv").read_text().startswith(before)
    third = CountingExecute(monkeypatch)
    assert do_quick("bitflip", tmp_path).exit_code == 0
    assert third.executed == [], "existing results are shown again"


def test_rows_of_other_settings_are_removed(tmp_path, monkeypatch):
    do_quick("bitflip", tmp_path)
    before = (tmp_path / "bitflip.csv").read_text()
    monkeypatch.setattr(bitflip, "settings", lambda n: tiny_bits(n) | {"steps": 90})
    again = CountingExecute(monkeypatch)
    result = do_quick("bitflip", tmp_path)
    assert [name.split(",")[0] for name in again.executed] == ["n = 2"] * 2
    assert re.search(
        r"\d+ rows of other settings .* were removed from bitflip.csv; bitflip.csv.old contains",
        result.output,
    )
    assert (tmp_path / "bitflip.csv.old").read_text() == before
    finals = [row for row in rows_of(tmp_path / "bitflip.csv") if row["evaluation"] == "final"]
    assert len({row["run"] for row in finals}) == len(finals) == 4
    assert all(int(row["env_steps"]) >= 60 for row in finals)


def test_failed_run_is_named_and_the_others_continue(tmp_path, monkeypatch):
    def fail(run, count):
        if run.labels == {"n": 3, "goals": WITH_HER}:
            raise ValueError("no luck")

    CountingExecute(monkeypatch, fail)
    result = do_quick("bitflip", tmp_path)
    assert result.exit_code == 1
    assert "n = 3, with HER, seed = 0: ValueError: no luck" in result.output.splitlines()[-1]
    assert (
        "**failed**: n = 3, with HER, seed = 0: ValueError: no luck" in (tmp_path / "bitflip.md").read_text()
    )
    assert len({row["run"] for row in rows_of(tmp_path / "bitflip.csv")}) == 3
    again = CountingExecute(monkeypatch)
    assert do_quick("bitflip", tmp_path).exit_code == 0
    assert again.executed == ["n = 3, with HER, seed = 0"]
    assert "**failed**" not in (tmp_path / "bitflip.md").read_text()


def test_no_page_is_written_if_all_runs_fail(tmp_path, monkeypatch):
    def fail(run, count):
        raise ValueError("no luck")

    CountingExecute(monkeypatch, fail)
    assert do_quick("bitflip", tmp_path).exit_code == 1
    assert not (tmp_path / "bitflip.md").exists()


def test_second_study_in_a_folder_raises_an_error(tmp_path):
    claim = acquire_lock(tmp_path / "bitflip.lock", "it")
    result = do_quick("bitflip", tmp_path)
    claim.release()
    assert result.exit_code == 2
    assert f"the study bitflip in {tmp_path} is in use" in result.output


def test_complete_study_writes_figure_and_page_again(tmp_path):
    do_quick("bitflip", tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in ("bitflip.csv", "bitflip.png")}
    (tmp_path / "bitflip.png").unlink()
    result = do("bitflip", "--quick", "--jobs", 2, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_longest_runs_start_first(tmp_path, monkeypatch):
    def fail(run, count):
        raise ValueError("no luck")

    order = CountingExecute(monkeypatch, lambda run, count: order.executed.append(run) or fail(run, count))
    study = strategies.make_study(1, quick=True)
    long = {"steps": 95}, {"algo": "td3"}, {"updates_per_step": 0.9}
    slow = [
        Run({"strategy": str(options), "k": 1}, replace(study.runs[0].config, **options)) for options in long
    ]
    run_all.run_all([*study.runs, *slow], 1, lambda result: None)
    assert order.executed[0] == slow[2]
    assert order.executed[1] == slow[0]
    assert len(order.executed) == len(study.runs) + 3


def test_help_names_the_studies_and_shows_examples():
    result = do("--help")
    assert result.exit_code == 0
    assert set(RUNS) <= set(result.output.split())
    assert "python -m benchmarks.studies bitflip --quick" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bitflip", "--seeds", 0], "argument --seeds: must be an integer of at least 1, got 0"),
        (["bitflip", "fetch_push"], "expected NAME for the study recipe, and for no other study"),
        (["recipe"], "expected NAME for the study recipe, and for no other study"),
        (["bitflip", "--backend", "mpi"], "argument --backend: invalid choice: 'mpi'"),
    ],
)
def test_wrong_usage_ends_with_exit_code_2(arguments, message):
    result = do(*arguments)
    assert (result.exit_code, message in result.output) == (2, True)


def test_quick_uses_another_folder_and_seeds_sets_the_number_of_seeds(tmp_path, monkeypatch):
    asked = []

    def note(study, folder, jobs, *_, **__):
        asked.append((str(folder), len({run.config.seed for run in study.runs}), jobs))
        return []

    monkeypatch.setattr(study_module, "reproduce", note)
    do("bitflip", "--jobs", 7)
    do("bitflip", "--quick", "--seeds", 2, "--jobs", 1)
    do("bitflip", "--quick", "--out", tmp_path)
    assert asked == [
        ("docs/results", 3, 7),
        ("runs/reproduce", 2, 1),
        (str(tmp_path), 1, run_all.usable_cores()),
    ]


ADVICE = 'run: pip install "her-toolkit[fetch]"'
NEEDS = "Fetch needs gymnasium-robotics and mujoco below 3.12"


@pytest.mark.parametrize(
    ("missing", "mujoco", "message"),
    [
        ({"gymnasium_robotics"}, "3.11.0", f"{NEEDS}, but gymnasium_robotics is not installed; {ADVICE}"),
        ({"mujoco"}, "", f"{NEEDS}, but mujoco is not installed; {ADVICE}"),
        (set(), "3.12.0", f"{NEEDS}, got mujoco 3.12.0; {ADVICE}"),
        (set(), "4.0.0", f"{NEEDS}, got mujoco 4.0.0; {ADVICE}"),
    ],
)
def test_fetch_without_its_packages_names_the_extra(missing, mujoco, message, monkeypatch, tmp_path):
    monkeypatch.setattr(fetch, "require_packages", REQUIRE_PACKAGES)
    monkeypatch.setattr(fetch, "find_spec", lambda name: None if name in missing else name)
    monkeypatch.setattr(fetch, "version", lambda name: mujoco)
    result = do("fetch", "--out", tmp_path)
    assert (result.exit_code, message in result.output) == (2, True)
    assert not list(tmp_path.iterdir())


def test_fetch_runs_with_its_packages(monkeypatch):
    monkeypatch.setattr(fetch, "find_spec", lambda name: name)
    monkeypatch.setattr(fetch, "version", lambda name: "3.11.2")
    REQUIRE_PACKAGES()
