"""The paper's figures in small: every study end to end, interrupted, changed, failing and judged."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from examples.reproduce import __main__ as command
from examples.reproduce import bitflip, fetch, pool, reach, runs, strategies
from examples.reproduce.outcomes import Outcomes
from examples.reproduce.page import seconds_by_the_clock, settings_of
from examples.reproduce.plots import BLUE, GREY, VERMILLION
from examples.reproduce.pool import Failure, conduct
from examples.reproduce.record import Record
from examples.reproduce.runs import WITH_HER, Outcome, Point, Run, execute, is_solved
from examples.training.config import Config, make_config
from her_wrappers.files.atomic import Claim

TINY = {
    "num_envs": 2,
    "steps": 90,
    "steps_per_epoch": 30,
    "learning_starts": 20,
    "batch_size": 8,
    "evaluation_episodes": 2,
    "agent": {"hidden": [4]},
}
POINT = {"env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 5}}
REQUIRE_PACKAGES = fetch.require_packages
RUNS = {"bitflip": 4, "strategies": 5, "reach": 8, "fetch": 2}


def tiny_bits(n):
    return bitflip.SETTINGS | TINY | {"steps": 30 * n, "env_kwargs": {"n_bits": n}}


@pytest.fixture(autouse=True, name="tiny")
def use_tiny_settings(monkeypatch):
    """Trainings of a moment; what is compared and shown is as ever."""
    monkeypatch.setattr(runs, "FINAL_EPISODES", 4)
    monkeypatch.setattr(bitflip, "QUICK", (2, 3))
    monkeypatch.setattr(bitflip, "settings", tiny_bits)
    monkeypatch.setattr(strategies, "SETTINGS", strategies.SETTINGS | TINY | POINT)
    monkeypatch.setattr(reach, "TASKS", {"PointReach": TINY, "PointMaze": TINY})
    monkeypatch.setattr(reach, "AGENTS", {"ddpg": {}, "td3": {}, "sac": {}})
    dense = {"env_kwargs": {"max_steps": 5, "reward_type": "dense"}, "clip_targets": False}
    sparse = {"env_kwargs": {"max_steps": 5}}
    monkeypatch.setattr(reach, "REWARDS", {"sparse": sparse, "dense": dense})
    monkeypatch.setattr(fetch, "TASKS", {fetch.REACH: TINY | POINT})
    monkeypatch.setattr(fetch, "QUICK", {})
    monkeypatch.setattr(fetch, "require_packages", lambda: None)


def do(*arguments):
    return CliRunner().invoke(command.app, [str(each) for each in arguments], env={"COLUMNS": "400"})


def do_quick(study, out, *arguments):
    return do(study, "--quick", "--jobs", 1, "--out", out, *arguments)


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def show(picture, colour):
    """Whether a picture shows a colour."""
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return (np.asarray(picture.convert("RGB")) == wanted).all(axis=-1).sum() > 50


@pytest.mark.parametrize("study", RUNS)
def test_a_study_leaves_a_table_of_all_evaluations_a_picture_and_a_page(study, tmp_path):
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
        assert show(picture, GREY if study == "strategies" else VERMILLION), "the arm without HER"
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


def configs_told_by(page, labels):
    """Read the settings of all runs from their page."""
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
def test_the_settings_on_a_page_are_those_of_the_runs(make):
    study = make(1, quick=False)
    configs = []
    for options in configs_told_by(settings_of(study.runs), len(study.runs[0].labels)):
        nested = {}
        for name, value in options.items():
            table, _, key = name.rpartition(".")
            if table:
                nested.setdefault(table, {})[key] = value
        flat = {name: value for name, value in options.items() if "." not in name}
        configs.append(make_config(flat, nested))
    assert configs == [replace(run.config, seed=0) for run in study.runs]


class Executor:
    """Counts what is executed, and does so; or whatever else a test wants in its place."""

    def __init__(self, monkeypatch, instead=lambda run, count: None):
        self.executed = []
        self._instead = instead
        monkeypatch.setattr(pool, "execute", self)

    def __call__(self, run):
        self._instead(run, len(self.executed))
        self.executed.append(str(run))
        return execute(run)


def test_an_interrupted_study_goes_on_where_it_was(tmp_path, monkeypatch):
    def interrupt(run, count):
        if count == 3:
            raise KeyboardInterrupt

    first = Executor(monkeypatch, interrupt)
    result = do_quick("bitflip", tmp_path)
    assert result.exit_code == 130
    assert f"Interrupted. What has ended is in {tmp_path}; the same command goes on." in result.output
    assert not (tmp_path / "bitflip.md").exists()
    before = (tmp_path / "bitflip.csv").read_text()
    second = Executor(monkeypatch)
    result = do_quick("bitflip", tmp_path)
    assert "3 of 4 runs are there already." in result.output
    assert (len(second.executed), set(first.executed) & set(second.executed)) == (1, set())
    assert (tmp_path / "bitflip.csv").read_text().startswith(before)
    third = Executor(monkeypatch)
    assert do_quick("bitflip", tmp_path).exit_code == 0
    assert third.executed == [], "what is there is shown again"


def test_rows_of_other_settings_do_not_mix_with_those_of_now(tmp_path, monkeypatch):
    do_quick("bitflip", tmp_path)
    before = (tmp_path / "bitflip.csv").read_text()
    monkeypatch.setattr(bitflip, "settings", lambda n: tiny_bits(n) | {"steps": 90})
    again = Executor(monkeypatch)
    result = do_quick("bitflip", tmp_path)
    assert [name.split(",")[0] for name in again.executed] == ["n = 2"] * 2
    assert re.search(
        r"\d+ rows of other settings, .* are no longer in bitflip.csv; bitflip.csv.old has", result.output
    )
    assert (tmp_path / "bitflip.csv.old").read_text() == before
    finals = [row for row in rows_of(tmp_path / "bitflip.csv") if row["evaluation"] == "final"]
    assert len({row["run"] for row in finals}) == len(finals) == 4
    assert all(int(row["env_steps"]) >= 60 for row in finals)


def test_a_run_that_fails_is_named_and_loses_no_other(tmp_path, monkeypatch):
    def fail(run, count):
        if run.labels == {"n": 3, "goals": WITH_HER}:
            raise ValueError("no luck")

    Executor(monkeypatch, fail)
    result = do_quick("bitflip", tmp_path)
    assert result.exit_code == 1
    assert "n = 3, with HER, seed = 0: ValueError: no luck" in result.output.splitlines()[-1]
    assert (
        "**failed**: n = 3, with HER, seed = 0: ValueError: no luck" in (tmp_path / "bitflip.md").read_text()
    )
    assert len({row["run"] for row in rows_of(tmp_path / "bitflip.csv")}) == 3
    again = Executor(monkeypatch)
    assert do_quick("bitflip", tmp_path).exit_code == 0
    assert again.executed == ["n = 3, with HER, seed = 0"]
    assert "failed" not in (tmp_path / "bitflip.md").read_text()


def test_if_all_runs_fail_there_is_no_page(tmp_path, monkeypatch):
    def fail(run, count):
        raise ValueError("no luck")

    Executor(monkeypatch, fail)
    assert do_quick("bitflip", tmp_path).exit_code == 1
    assert not (tmp_path / "bitflip.md").exists()


def some_outcomes(tmp_path):
    study = bitflip.make_study(1, quick=True)
    record = Record(tmp_path / "bitflip.csv", study.runs)
    for run in study.runs:
        record.append(execute(run))
    return study, record


def test_a_record_reads_what_it_wrote_and_of_a_torn_file_what_is_whole(tmp_path):
    study, record = some_outcomes(tmp_path)
    path = tmp_path / "bitflip.csv"
    text = path.read_text()
    assert Record(path, study.runs).outcomes == record.outcomes
    ends = [i for i in range(len(text)) if text[: i + 1].count(",final,") and text[i] == "\n"]
    for length in [*range(0, len(text), 37), *ends, *(end + 1 for end in ends)]:
        path.write_text(text[:length])
        torn = Record(path, study.runs)
        assert torn.outcomes == record.outcomes[: len(torn.outcomes)]
        assert len(torn.outcomes) == len([
            1 for line in text[:length].splitlines(keepends=True) if ",final," in line and line.endswith("\n")
        ])
        assert Record(path, study.runs).left_out == 0, "what was torn is gone"


def test_a_record_takes_no_foreign_file_and_no_nonsense_for_its_own(tmp_path):
    study, record = some_outcomes(tmp_path)
    path = tmp_path / "bitflip.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1].replace("0.", "nought.", 1))
    assert Record(path, study.runs).outcomes == record.outcomes[:-1]
    path.write_text("a,b\n1,2\n")
    other = Record(path, study.runs)
    assert (other.outcomes, other.left_out) == ([], 1)
    assert (tmp_path / "bitflip.csv.old").read_text() == "a,b\n1,2\n"


def test_a_study_is_done_by_one_at_a_time_in_a_folder(tmp_path):
    claim = Claim(tmp_path / "bitflip.lock", "it")
    result = do_quick("bitflip", tmp_path)
    claim.release()
    assert result.exit_code == 2
    assert f"the study bitflip in {tmp_path} is in use" in result.output


def test_processes_come_to_the_same_outcomes(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "FINAL_EPISODES", 100)  # as in processes, which know nothing of this test
    study = bitflip.make_study(1, quick=True)
    broken = Run({"n": 2, "goals": "broken"}, replace(study.runs[0].config, agent={"no": 1}))
    heard = {}
    conduct([*study.runs, broken], 2, lambda outcome: heard.update({str(outcome.run): outcome}))
    assert len(heard) == 5
    failure = heard.pop(str(broken))
    assert isinstance(failure, Failure)
    assert "dqn has no option 'no'" in failure.reason
    for run in study.runs:
        here, there = execute(run), heard[str(run)]
        assert [point.success_rate for point in here.curve] == [point.success_rate for point in there.curve]
        assert here.final.mean_return == there.final.mean_return


def test_where_nothing_is_missing_figure_and_page_are_drawn_again(tmp_path):
    do_quick("bitflip", tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in ("bitflip.csv", "bitflip.png")}
    (tmp_path / "bitflip.png").unlink()
    result = do("bitflip", "--quick", "--jobs", 2, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_runs_that_may_take_longest_begin_first(tmp_path, monkeypatch):
    def fail(run, count):
        raise ValueError("no luck")

    order = Executor(monkeypatch, lambda run, count: order.executed.append(run) or fail(run, count))
    study = strategies.make_study(1, quick=True)
    long = {"steps": 95}, {"algo": "td3"}, {"updates_per_step": 0.9}
    slow = [
        Run({"strategy": str(options), "k": 1}, replace(study.runs[0].config, **options)) for options in long
    ]
    conduct([*study.runs, *slow], 1, lambda heard: None)
    assert order.executed[0] == slow[2]
    assert order.executed[1] == slow[0]
    assert len(order.executed) == len(study.runs) + 3


SCRIPT = """
import signal, sys
from pathlib import Path
from examples.reproduce import bitflip
from examples.reproduce.__main__ import app

settings = bitflip.settings
bitflip.QUICK = (2, 3)
bitflip.settings = lambda n: settings(n) | {"steps": 10**7 if n == 2 else 1_200, "steps_per_epoch": 10**6}
if __name__ == "__main__":
    app()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_ctrl_c_ends_all_processes_at_once_without_a_traceback_and_keeps_what_has_ended(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    arguments = [sys.executable, script, "bitflip", "--quick", "--jobs", "3", "--out", tmp_path]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    table = tmp_path / "bitflip.csv"
    try:
        while not table.exists() or table.read_text().count("final") < 2:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Interrupted. What has ended is in" in output
    assert "Traceback" not in output + errors


def test_a_training_ends_by_one_rule_and_is_measured_at_its_end():
    longer = {"steps": 6_000, "steps_per_epoch": 200, "batch_size": 64, "updates_per_step": 0.2}
    outcome = execute(Run({"n": 2}, make_config(tiny_bits(2), longer)))
    rates = [point.success_rate for point in outcome.curve]
    assert len(rates) < 30
    assert rates[-2:] == [1, 1]
    assert [1, 1] not in [rates[i : i + 2] for i in range(len(rates) - 2)]
    assert outcome.final.env_steps == outcome.curve[-1].env_steps
    assert outcome.final.processor_seconds > outcome.curve[-1].processor_seconds
    assert not is_solved([{"success_rate": 1.0}])


def test_the_final_episodes_are_none_of_the_evaluations(monkeypatch):
    seeds = []

    original = runs.evaluate
    monkeypatch.setattr(runs, "evaluate", lambda *args: seeds.append(args[2:]) or original(*args))
    monkeypatch.setattr("examples.training.session.evaluate", runs.evaluate)
    execute(bitflip.make_study(1, quick=True).runs[0])
    assert seeds[-1][0] == 4
    assert seeds[-1][1] not in {seed for _, seed in seeds[:-1]}


def outcome(run, rates, *, final=None, ended=0.0, seconds=1.0):
    """Make an outcome of success rates, ten steps apart."""
    points = [Point(9, 10 * (i + 1), i, rate, 0.0, 1.0, i, i) for i, rate in enumerate(rates)]
    last = replace(points[-1], success_rate=rates[-1] if final is None else final, seconds=seconds)
    return Outcome(run, tuple(points), last, datetime.fromtimestamp(ended, UTC))


def test_a_curve_goes_on_with_its_last_value_where_a_seed_ended_before_others():
    run = Run({"n": 1}, Config("e", "dqn", steps=60, steps_per_epoch=10, learning_starts=0))
    two = Outcomes([outcome(run, [0.5, 1.0]), outcome(run, [0.0, 0.2, 0.4, 0.6])])
    steps, success = two.curve()
    assert steps.tolist() == [10, 20, 30, 40]
    assert success.T.tolist() == [[0.5, 1, 1, 1], [0, 0.2, 0.4, 0.6]]
    assert two.curve(6)[0].tolist() == [10, 20, 30, 40, 50, 60]
    assert two.mean_over_training() == pytest.approx([5.5 / 6, (0.2 + 0.4 + 3 * 0.6) / 6])


def test_pauses_and_what_goes_on_at_once_count_once():
    run = Run({"n": 1}, Config("e", "dqn"))
    spans = [(10, 4), (12, 4), (11, 1), (100, 5)]  # from 6 to 12, and from 95 to 100
    all_outcomes = Outcomes([outcome(run, [1.0], ended=ended, seconds=span) for ended, span in spans])
    assert seconds_by_the_clock(all_outcomes) == 11


def judged(module, success, **options):
    """The verdicts on the full study if all trainings end with a success rate."""
    study = module.make_study(1, quick=False, **options)
    outcomes = Outcomes([outcome(run, [0.5], final=success(run)) for run in study.runs])
    return [claim.verdict for claim in study.judge(outcomes)]


def as_promised(run):
    return float(WITH_HER in run.labels.values() or run.labels.get("strategy") == "future")


STUDIES = [(bitflip, {}), (strategies, {}), (reach, {}), (fetch, {"push": False})]


@pytest.mark.parametrize(("module", "options"), STUDIES)
def test_promises_that_are_not_kept_are_marked(module, options, monkeypatch):
    monkeypatch.setattr(reach, "TASKS", dict.fromkeys(("PointReach", "PointMaze", "PointPush"), TINY))
    assert "MISSED" not in judged(module, lambda run: as_promised(run) or run.labels.get("n") == 5, **options)
    for wrong in (lambda run: 0.5, lambda run: 1 - as_promised(run)):
        assert "MISSED" in judged(module, wrong, **options)


def test_what_was_not_trained_is_not_judged():
    study = bitflip.make_study(1, quick=False)
    few = Outcomes([outcome(run, [1.0]) for run in study.runs if run.labels == {"n": 50, "goals": WITH_HER}])
    verdicts = [claim.verdict for claim in study.judge(few)]
    assert verdicts == ["not measured", "met", "not measured", "not measured", "met"]


@pytest.mark.parametrize("name", RUNS)
def test_help_shows_examples(name):
    result = do(name, "--help")
    assert result.exit_code == 0
    shown = " ".join(result.output.split())
    assert f"python -m examples.reproduce {name}" in shown
    for option in ("--quick", "--seeds", "--jobs", "--out"):
        assert option in shown


def test_help_names_the_studies():
    assert set(RUNS) <= set(do("--help").output.split())


@pytest.mark.parametrize("arguments", [["--seeds", 0], ["--jobs", 0]])
def test_bad_options_are_usage_errors(arguments):
    result = do("bitflip", *arguments)
    assert (result.exit_code, "Invalid value" in result.output) == (2, True)


def test_a_quick_look_goes_elsewhere_and_seeds_can_be_chosen(tmp_path, monkeypatch):
    asked = []

    def note(study, folder, jobs, *_):
        asked.append((str(folder), len({run.config.seed for run in study.runs}), jobs))
        return []

    monkeypatch.setattr(command, "reproduce", note)
    do("bitflip", "--jobs", 7)
    do("bitflip", "--quick", "--seeds", 2, "--jobs", 1)
    do("bitflip", "--quick", "--out", tmp_path)
    assert asked == [
        ("docs/results", 3, 7),
        ("runs/reproduce", 2, 1),
        (str(tmp_path), 1, pool.usable_cores()),
    ]


ADVICE = 'run: pip install "her-toolkit[fetch]"'
NEEDS = "Fetch needs gymnasium-robotics and mujoco below 3.12"


@pytest.mark.parametrize(
    ("missing", "mujoco", "said"),
    [
        ({"gymnasium_robotics"}, "3.11.0", f"{NEEDS}, and gymnasium_robotics is not installed; {ADVICE}"),
        ({"mujoco"}, "", f"{NEEDS}, and mujoco is not installed; {ADVICE}"),
        (set(), "3.12.0", f"{NEEDS}, got mujoco 3.12.0; {ADVICE}"),
        (set(), "4.0.0", f"{NEEDS}, got mujoco 4.0.0; {ADVICE}"),
    ],
)
def test_fetch_without_its_packages_says_what_to_install(missing, mujoco, said, monkeypatch, tmp_path):
    monkeypatch.setattr(fetch, "require_packages", REQUIRE_PACKAGES)
    monkeypatch.setattr(fetch, "find_spec", lambda name: None if name in missing else name)
    monkeypatch.setattr(fetch, "version", lambda name: mujoco)
    result = do("fetch", "--out", tmp_path)
    assert (result.exit_code, said in result.output) == (2, True)
    assert not list(tmp_path.iterdir())


def test_fetch_goes_on_where_all_is_installed(monkeypatch):
    monkeypatch.setattr(fetch, "find_spec", lambda name: name)
    monkeypatch.setattr(fetch, "version", lambda name: "3.11.2")
    REQUIRE_PACKAGES()
