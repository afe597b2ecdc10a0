"""``her compare``, ``her evaluate``, ``her train --seeds`` and ``her record --policy RUN``."""

import json
import os
import signal
import subprocess
import sys

import pytest

from her_wrappers import EpisodeArchive
from tests.support.commands import her, write_options


@pytest.fixture(name="seeds", scope="module")
def three_seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    small = write_options(folder / "small.json")
    options = ["--config", small, "--steps", 200, "--no-tensorboard", "--no-check"]
    result = her("train", *options, "--seeds", 3, "--seed", 5, "--out", folder / "runs")
    assert result.exit_code == 0, result.output
    return folder / "runs", result.output, options


def test_seeds_train_one_run_each(seeds):
    folder, output, _ = seeds
    configs = {path.name: json.loads((path / "config.json").read_text()) for path in folder.iterdir()}
    assert {name: config["seed"] for name, config in configs.items()} == {f"seed-{i}": i for i in (5, 6, 7)}
    assert f"Compare them: her compare {folder}" in output


@pytest.mark.campaign  # test_collected_training.py compares processes in the default tests
def test_processes_give_the_same_runs(seeds, tmp_path, capfd):
    folder, _, options = seeds
    result = her("train", *options, "--seeds", 2, "--seed", 5, "--jobs", 2, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "seed 6 | epoch   1" in capfd.readouterr().out

    def rates(run):
        return [line.split(",")[4:6] for line in (run / "progress.csv").read_text().splitlines()]

    for seed in (5, 6):
        assert rates(tmp_path / f"seed-{seed}") == rates(folder / f"seed-{seed}")


def test_seeds_are_not_trained_over_runs_with_other_options(seeds):
    folder, _, options = seeds
    result = her("train", *options, "--gamma", 0.5, "--seeds", 2, "--seed", 5, "--out", folder)
    assert (result.exit_code, "a run with gamma=0.98" in result.stderr) == (2, True), result.output
    result = her("train", *options, "--seed", 5, "--out", folder / "seed-5")
    assert (result.exit_code, f"--resume {folder / 'seed-5'}" in result.stderr) == (2, True), result.output
    result = her("train", "--resume", folder / "seed-5", "--seeds", 2)
    assert (result.exit_code, "remove --seeds" in result.stderr) == (2, True)


def test_compare_prints_the_table_and_writes_files(seeds, tmp_path):
    folder, _, _ = seeds
    files = [tmp_path / "new" / "figure.pdf", tmp_path / "table.tex"]
    result = her("compare", folder, "--out", *files)
    assert result.exit_code == 0, result.output
    assert "| runs | 3 | 2" in result.stdout
    assert all(file.stat().st_size for file in files)
    by_seed = her("compare", folder, "--by", "seed", "--threshold", 0.5).stdout
    for text in ("| seed 5 | 1 |", "reached 0.5", "| seed 5 | seed 6 |"):
        assert text in by_seed


WRONG = [
    (["compare"], 2, "expected at least one run"),
    (["compare", "nowhere"], 3, "nowhere does not exist; pass a run folder of `her train`"),
    (["compare", "{runs}", "--by", "tau"], 2, "by= must contain names of options, got 'tau'"),
    (["compare", "{runs}", "--at", "5"], 2, "choose other steps"),
    (["compare", "{runs}", "--threshold", "2"], 2, "threshold must be a number in (0, 1]"),
    (["compare", "{runs}", "--out", "a.jpg"], 2, "must end with .pdf"),
    (["evaluate"], 2, "expected either POLICY or --recipe NAME, got neither"),
    (["evaluate", "math:sin"], 2, "needs an environment"),
    (["evaluate", "{runs}"], 3, "has no best.pt"),
    (["evaluate", "random", "--env", "her_envs/PointReach-v0", "--out", "a.txt"], 2, "must end with .html"),
    (["evaluate", "random", "--env", "CartPole-v1"], 3, "must be a Dict"),
    (["evaluate", "{runs}/seed-5", "--env", "her_envs/BitFlipping-v0"], 2, "space"),
    (["record", "her_envs/BitFlipping-v0", "--policy", "{runs}/seed-5", "--out", "a"], 2, "space"),
]


@pytest.mark.parametrize(("arguments", "exit_code", "message"), WRONG)
def test_mistakes_are_one_sentence(arguments, exit_code, message, seeds, *, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = her(*(each.format(runs=seeds[0]) for each in arguments))
    assert (result.exit_code, message in result.stderr) == (exit_code, True), result.output
    assert len(result.stderr.splitlines()) == 1


def test_evaluate_uses_the_environment_of_the_run(seeds, tmp_path):
    run, report = seeds[0] / "seed-5", tmp_path / "report.json"
    result = her("evaluate", run, "--episodes", 4, "--out", report)
    assert result.exit_code == 0, result.output
    assert f"# {run} in her_envs/PointReach-v0" in result.stdout
    content = json.loads(report.read_text())
    assert content["lengths"] == [6] * 4  # max_steps of the run
    other = her("evaluate", "random", "--env", "her_envs/PointReach-v0", "--episodes", 4, "-o", "max_steps=6")
    assert content["suite"] in other.stdout


@pytest.mark.parametrize("workers", [0, 1])
def test_record_uses_the_policy_of_a_run(workers, seeds, tmp_path):
    env = ["her_envs/PointReach-v0", "-o", "max_steps=6"]
    policy = ["--policy", seeds[0] / "seed-5", "--workers", workers, "--backend", "local"]
    result = her("record", *env, *policy, "--episodes", 3, "--seed", 0, "--out", tmp_path / "a")
    assert result.exit_code == 0, result.output
    from her_agents import load_agent  # noqa: PLC0415 - imports torch

    agent = load_agent(seeds[0] / "seed-5")
    for episode in EpisodeArchive(tmp_path / "a"):
        states = [{key: value[t] for key, value in episode.observations.items()} for t in range(6)]
        assert [agent.act(state).tolist() for state in states] == episode.actions.tolist()


@pytest.mark.parametrize(
    ("send", "number"),
    [
        pytest.param(os.killpg, signal.SIGINT, id="as a terminal does", marks=pytest.mark.campaign),
        pytest.param(os.kill, signal.SIGTERM, id="as a scheduler does", marks=pytest.mark.slow),
    ],
)
def test_a_signal_saves_the_running_runs_and_begins_no_others(send, number, seeds, tmp_path):
    steps = {200: 10**8}  # would take days
    options = [*(steps.get(each, each) for each in seeds[2]), "--seeds", 3, "--jobs", 2, "--out", tmp_path]
    command = [sys.executable, "-m", "her_wrappers.cli", "train", *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        begun = set()
        for line in process.stdout:
            begun |= {line.split(" | ")[0]} & {"seed 0", "seed 1"}
            if len(begun) == 2:
                break
        send(process.pid, number)
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, output.count("Interrupted; saved.")) == (130, 2), output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-0", "seed-1"]
    assert all((path / "latest.pt").exists() for path in tmp_path.iterdir())
