"""The command ``her train``."""

import importlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from her_agents.training.checkpoints import load_checkpoint
from tests.support.commands import SMALL, fails, her, succeeds, write_options


@pytest.fixture(name="options", scope="module")
def options_file(tmp_path_factory):
    return write_options(tmp_path_factory.mktemp("config") / "small.json")


@pytest.fixture(name="small")
def small_numbers(tmp_path):
    (tmp_path / "small.json").write_text(json.dumps(SMALL))
    return tmp_path / "small.json"


def test_checks_trains_and_prints_the_folder(reach):
    out, output = reach
    assert "Goal interface of her_envs/PointReach-v0: 0 errors" in output
    assert "epoch   2 |       216 steps | success" in output
    assert "relabeled_success" in output
    assert f"checkpoints and logs in {out}" in output
    assert f"Watch it: her watch {out / 'best.pt'}" in output
    assert {"best.pt", "latest.pt", "progress.csv", "config.json"} <= {path.name for path in out.iterdir()}


def test_command_line_overrides_the_config_file(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = ["her_envs/BitFlipping-v0", "-o", "n_bits=4", "--algo", "dqn", "--no-her", "--no-check"]
    numbers = ["--steps", 100, "--steps-per-epoch", 50, "--seed", 5]
    agent = ["--agent", "hidden=[8]", "--agent", "learning-rate=1e-3"]
    succeeds("train", *env, "--config", options, *numbers, *agent)
    config = json.loads(Path("runs/BitFlipping-v0-dqn-no-her-5/config.json").read_text())
    assert config["agent"] == {"hidden": [8], "learning_rate": 0.001}
    assert (config["env_kwargs"], config["her"]) == ({"n_bits": 4}, False)
    assert (config["num_envs"], config["steps_per_epoch"]) == (4, 50)
    assert list(Path("runs/BitFlipping-v0-dqn-no-her-5/tensorboard").iterdir())


def test_auto_says_what_it_chooses_and_a_strategy_may_be_shares(options, tmp_path):
    arguments = ["--config", options, "--device", "auto", "--no-check"]
    arguments += ["--goal-selection-strategy", "future", 0.5, "desired", 0.5]
    short = ["--steps", 60, "--steps-per-epoch", 60, "--no-tensorboard", "--out", tmp_path / "run"]
    output = succeeds("train", *arguments, *short)
    assert any(line.startswith("--device auto chooses c") for line in output.splitlines())
    config = json.loads((tmp_path / "run/config.json").read_text(encoding="utf-8"))
    assert config["device"] in {"cpu", "cuda"}
    assert config["goal_selection_strategy"] == {"future": 0.5, "desired": 0.5}


def test_ctrl_c_saves_and_prints_the_command_that_continues(options, tmp_path, monkeypatch):
    monkeypatch.setattr(
        importlib.import_module("her_wrappers.commands.train_runs"),
        "epoch_line",
        lambda row: signal.raise_signal(signal.SIGINT) or "epoch",
    )
    arguments = ["--config", options, "--steps", 10**8, "--out", tmp_path / "a", "--no-tensorboard"]
    result = her("train", *arguments, "--no-check")
    assert result.exit_code == 130
    assert "Interrupted; saved. Best success rate" in result.output
    assert f"Continue with: her train --resume {tmp_path / 'a'}" in result.output
    assert load_checkpoint(tmp_path / "a" / "latest.pt")["counts"]["epochs"] == 1


RULES = """
def reached(achieved_goal, desired_goal, info):
    return (achieved_goal == desired_goal).all(-1)

def last(t, length, rng):
    return length
"""
MINE = """
from her_envs import PointReach, TaskEnv

class Mine(TaskEnv):
    def __init__(self, **options):
        super().__init__(PointReach(), **{"max_steps": 6, **options})
"""


@pytest.mark.parametrize("env", ["mine.py:Mine", "mine_module:Mine"])
def test_a_run_continues_and_is_shown_in_another_folder(env, options, tmp_path, monkeypatch):
    """Names of files, also of functions, become absolute; for a module, the error names the folder."""
    for name in ("a/rules.py", "a/mine.py", "a/mine_module.py", "b/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(RULES if name == "a/rules.py" else MINE)
    monkeypatch.chdir(tmp_path / "a")
    numbers = ["--steps", "6e1", "--num-envs", 2, "--learning-starts", "5e1", "--evaluation-episodes", 2]
    others = ["--buffer-size", "1e4", "--no-tensorboard", "--check-steps", 300, "--out", tmp_path / "run"]
    rules = ["--termination", "rules.py:reached", "--goal-selection-strategy", "rules.py:last"]
    output = succeeds("train", env, *numbers, *others, *rules)
    assert "in 300 steps" in output
    monkeypatch.chdir(tmp_path / "b")
    sys.modules.pop("mine_module", None)
    more = her("train", "--resume", tmp_path / "run", "--steps", 80, "--no-tensorboard", "--no-stop")
    shown = her("watch", tmp_path / "run", "--no-show", "--episodes", 1)
    exit_code = 2 if env == "mine_module:Mine" else 0
    for result in (more, shown):
        assert result.exit_code == exit_code, result.output
        named = f"in the folder in which {tmp_path / 'run'} was started" in result.stderr
        assert named == (exit_code == 2)


@pytest.mark.parametrize(("option", "clipped"), [("reward_type=dense", False), ("reward_type=sparse", True)])
def test_targets_are_not_clipped_if_rewards_are_dense(option, clipped, small, tmp_path):
    env = ["her_envs/PointReach-v0", "-o", option, "--config", small, "--no-check"]
    output = succeeds("train", *env, "--steps", 60, "--out", tmp_path / "a", "--no-tensorboard")
    assert ("Targets are not clipped" in output) is not clipped
    assert load_checkpoint(tmp_path / "a" / "latest.pt")["config"]["clip_targets"] is clipped


def test_environment_that_fails_the_check_is_trained_only_with_force(small, tmp_path):
    arguments = ["tests.support.specimens.broken_rewards:OtherRadiusInStep", "--config", small]
    arguments += ["--steps", 60, "--no-tensorboard", "--check-steps", 300]
    fails(3, "has the errors above; fix them, or pass", "train", *arguments, "--out", tmp_path / "a")
    assert not (tmp_path / "a").exists()
    with pytest.warns(UserWarning, match="compute_reward"):
        succeeds("train", *arguments, "--out", tmp_path / "a", "--force")
    assert (tmp_path / "a" / "latest.pt").exists()


def test_help_has_the_options_of_the_algorithm_and_the_defaults_of_the_recipe():
    assert "layer_norm=" not in her("train", "--help").stdout
    output = her("train", "--algo", "dqn", "--help").stdout
    assert "epsilon=0.2: Probability" in output
    assert "noise=" not in output
    output = her("train", "--recipe", "fetch_push", "--help").stdout
    assert "(default: future 0.75 random 0.25)" in output
    assert "temperature=0.05: " in output


def test_without_torch_the_error_names_the_extra():
    code = "import sys; sys.modules['torch'] = None; from her_wrappers import cli; sys.exit(cli.main())"
    command = [sys.executable, "-c", code, "train", "her_envs/PointReach-v0"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == 'Error: this command needs torch; run: pip install "her-toolkit[agents]"\n'


def test_solved_run_stops_unless_no_stop_is_given(small, tmp_path):
    arguments = ["her_envs/BitFlipping-v0", "-o", "n_bits=2", "--config", small, "--no-check"]
    arguments += ["--updates-per-step", 0.5, "--steps", 10_000, "--no-tensorboard"]
    output = succeeds("train", *arguments, "--out", tmp_path / "a")
    assert "Solved: all episodes of the last two evaluations were successes." in output
    steps = load_checkpoint(tmp_path / "a" / "latest.pt")["counts"]["env_steps"]
    assert steps < 5_000
    more = ["--no-stop", "--steps", steps + 300, "--no-tensorboard"]
    succeeds("train", "--resume", tmp_path / "a", *more)
    assert load_checkpoint(tmp_path / "a" / "latest.pt")["counts"]["env_steps"] >= steps + 300


def test_a_robot_is_trained_by_one_process_without_checks_and_continues(tmp_path):
    """Also with the options of a recipe for several environments."""
    robot = ["tests/support/robot.py:Robot", "-o", "hz=1000", "--real", "--batch-size", 16]
    numbers = ["--steps", 60, "--steps-per-epoch", 30, "--learning-starts", 20, "--no-tensorboard"]
    agent = ["--recipe", "fetch_push", "--agent", "hidden=[8]"]
    output = succeeds("train", *robot, *numbers, *agent, "--out", tmp_path / "run")
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert (config["num_envs"], config["workers"], config["gamma"]) == (1, 0, 0.95)
    assert "Goal interface" not in output
    assert "a robot plays no random episode" in output
    assert output.count("period ") == 2
    assert "Watch it" in output
    succeeds("evaluate", tmp_path / "run", "--episodes", 2)
    output = succeeds("train", "--resume", tmp_path / "run", "--steps", 90)
    assert "epoch   3 |        90 steps" in output
