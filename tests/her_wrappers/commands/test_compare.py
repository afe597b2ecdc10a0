"""``her compare``, ``her evaluate``, ``her train --seeds`` and ``her record --policy RUN``."""

import json
import subprocess
import sys

import pytest

from her_wrappers import EpisodeArchive
from tests.support.commands import fails, her, succeeds, write_options


@pytest.fixture(name="seeds", scope="module")
def three_seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    small = write_options(folder / "small.json")
    options = ["--config", small, "--steps", 100, "--steps-per-epoch", 50, "--no-tensorboard", "--no-check"]
    output = succeeds("train", *options, "--seeds", 3, "--seed", 5, "--out", folder / "runs")
    return folder / "runs", output, options


def test_seeds_train_one_run_each(seeds):
    folder, output, _ = seeds
    configs = {path.name: json.loads((path / "config.json").read_text()) for path in folder.iterdir()}
    assert {name: config["seed"] for name, config in configs.items()} == {f"seed-{i}": i for i in (5, 6, 7)}
    assert f"Compare them: her compare {folder}" in output


def test_seeds_are_not_trained_over_runs_with_other_options(seeds):
    folder, _, options = seeds
    words, one = ["train", *options, "--seed", 5, "--out"], folder / "seed-5"
    fails(2, "a run with gamma=0.98", *words, folder, "--gamma", 0.5, "--seeds", 2)
    fails(2, f"--resume {one}", *words, one)


def test_compare_prints_the_table_and_writes_files(seeds, tmp_path):
    folder, _, _ = seeds
    files = [tmp_path / "new" / "figure.pdf", tmp_path / "table.md"]
    output = succeeds("compare", folder, "--out", *files)
    assert "| runs | 3 | 1" in output
    assert all(file.stat().st_size for file in files)
    by_seed = her("compare", folder, "--by", "seed", "--threshold", 0.5).stdout
    for text in ("| seed 5 | 1 |", "reached 0.5", "| seed 5 | seed 6 |"):
        assert text in by_seed


def test_evaluate_uses_the_environment_of_the_run(seeds, tmp_path):
    run, report = seeds[0] / "seed-5", tmp_path / "report.json"
    output = succeeds("evaluate", run, "--episodes", 4, "--out", report)
    assert f"# {run} in her_envs/PointReach-v0" in output
    content = json.loads(report.read_text())
    assert content["lengths"] == [6] * 4  # max_steps of the run
    other = her("evaluate", "random", "--env", "her_envs/PointReach-v0", "--episodes", 4, "-o", "max_steps=6")
    assert content["suite"] in other.stdout


@pytest.mark.parametrize("workers", [0, 1])
def test_record_uses_the_policy_of_a_run(workers, seeds, tmp_path):
    env = ["her_envs/PointReach-v0", "-o", "max_steps=6"]
    policy = ["--policy", seeds[0] / "seed-5", "--workers", workers, "--backend", "local"]
    succeeds("record", *env, *policy, "--episodes", 3, "--seed", 0, "--out", tmp_path / "a")
    from her_agents import load_agent  # noqa: PLC0415 - imports torch

    agent = load_agent(seeds[0] / "seed-5")
    for episode in EpisodeArchive(tmp_path / "a"):
        states = [{key: value[t] for key, value in episode.observations.items()} for t in range(6)]
        assert [agent.act(state).tolist() for state in states] == episode.actions.tolist()


@pytest.mark.slow
def test_a_signal_saves_the_running_runs_and_begins_no_others(seeds, tmp_path):
    """SIGTERM reaches the parent process alone."""
    steps = {100: 10**8}  # would take days
    options = [*(steps.get(each, each) for each in seeds[2]), "--seeds", 3, "--jobs", 2, "--out", tmp_path]
    command = [sys.executable, "-m", "her_wrappers.cli", "train", *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        begun = set()
        for line in process.stdout:
            begun |= {line.split(" | ")[0]} & {"seed 0", "seed 1"}
            if len(begun) == 2:
                break
        process.terminate()
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, output.count("Interrupted; saved.")) == (130, 2), output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-0", "seed-1"]
    assert all((path / "latest.pt").exists() for path in tmp_path.iterdir())
