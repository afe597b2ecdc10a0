"""The command ``her train``."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from her_agents.training.checkpoints import load_checkpoint
from her_wrappers.goals import episode_limit
from tests.support.commands import SMALL, her, train_reach, write_options


@pytest.fixture(name="options", scope="module")
def options_file(tmp_path_factory):
    return write_options(tmp_path_factory.mktemp("config") / "small.json")


@pytest.fixture(name="small")
def small_numbers(tmp_path):
    (tmp_path / "small.json").write_text(json.dumps(SMALL))
    return tmp_path / "small.json"


@pytest.fixture(name="trained", scope="module")
def trained_agent(tmp_path_factory):
    return train_reach(tmp_path_factory.mktemp("runs"))


def test_checks_trains_and_prints_the_folder(trained):
    out, output = trained
    assert "Goal interface of her_envs/PointReach-v0: 0 errors" in output
    assert "epoch   2 |       216 steps | success" in output
    assert "goal_age" in output
    assert f"checkpoints and logs in {out}" in output
    assert f"Watch it: her watch {out / 'best.pt'}" in output
    assert {"best.pt", "latest.pt", "progress.csv", "config.json"} <= {path.name for path in out.iterdir()}


def test_command_line_overrides_the_config_file(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = ["her_envs/BitFlipping-v0", "-o", "n_bits=4", "--algo", "dqn", "--no-her", "--no-check"]
    numbers = ["--steps", 100, "--steps-per-epoch", 50, "--seed", 5]
    agent = ["--agent", "hidden=[8]", "--agent", "learning-rate=1e-3"]
    result = her("train", *env, "--config", options, *numbers, *agent)
    assert result.exit_code == 0, result.output
    config = json.loads(Path("runs/BitFlipping-v0-dqn-no-her-5/config.json").read_text())
    assert config["agent"] == {"hidden": [8], "learning_rate": 0.001}
    assert (config["env_kwargs"], config["her"]) == ({"n_bits": 4}, False)
    assert (config["num_envs"], config["steps_per_epoch"]) == (4, 50)
    assert list(Path("runs/BitFlipping-v0-dqn-no-her-5/tensorboard").iterdir())


def test_strategy_may_be_shares_of_strategies(options, tmp_path):
    shares = ["--goal-selection-strategy", "future", 0.5, "desired", 0.5]
    result = her("train", "--config", options, "--steps", 100, *shares, "--out", tmp_path / "a", "--no-check")
    assert result.exit_code == 0, result.output
    config = json.loads((tmp_path / "a/config.json").read_text())
    assert config["goal_selection_strategy"] == {"future": 0.5, "desired": 0.5}


def test_auto_says_what_it_chooses_and_why(options, tmp_path):
    arguments = ["--config", options, "--device", "auto", "--precision", "auto", "--no-check"]
    short = ["--steps", 60, "--steps-per-epoch", 60, "--no-tensorboard", "--out", tmp_path / "run"]
    result = her("train", *arguments, *short)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert any(line.startswith("--device auto chooses c") for line in lines)
    config = json.loads((tmp_path / "run/config.json").read_text(encoding="utf-8"))
    assert config["precision"] == "float32", "for a small network"
    assert config["device"] in {"cpu", "cuda"}


def test_ctrl_c_saves_and_prints_the_command_that_continues(options, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "her_wrappers.commands.train_runs.epoch_line",
        lambda row: signal.raise_signal(signal.SIGINT) or "epoch",
    )
    arguments = ["--config", options, "--steps", 10**8, "--out", tmp_path / "a", "--no-tensorboard"]
    result = her("train", *arguments, "--no-check")
    assert result.exit_code == 130
    assert "Interrupted; saved. Best success rate" in result.output
    assert f"Continue with: her train --resume {tmp_path / 'a'}" in result.output
    assert load_checkpoint(tmp_path / "a" / "latest.pt")["counts"]["epochs"] == 1


DQN = ["x", "--steps", "9000", "--algo", "dqn"]
MISTAKES = [
    ([], "ENV is missing; pass an environment"),
    (["her_envs/BitFlipping-v0", "--algo", "sac"], "sac needs a Box action space, got Discrete(10)"),
    (["her_envs/PointReach-v0", "--algo", "ppo"], "unknown algo 'ppo'; choose from 'dqn'"),
    ([*DQN, "--agent", "tauu=1"], "'tauu' of dqn"),
    ([*DQN, "--agent", "tau"], "--agent must be NAME=VALUE"),
    (["her_envs/BitFlipping-v0", "--agent", "temperature=0.1"], "'temperature' of dqn"),  # of the default
    (["x", "--agent.hidden", "8", "9"], "--agent hidden=VALUE"),
    (["x", "--agent.no-learn-temperature", "--seed", "1"], "--agent learn_temperature=VALUE"),
    (["x", "--tensor-functions"], "NumPy arrays"),
    (["her_envs/BitFlipping-v0", "--goal-selection-strategy", "future", "0.5"], "must sum to 1, got 0.5"),
    (["her_envs/PointReach-v0", "--termination", "nothing:done"], "cannot load termination 'nothing:done'"),
    (["her_envs/BitFlipping-v0", "-o", "reward_type=dense", "--clip-targets"], "clip_targets=True needs"),
    (["her_envs/PointReach-v0", "--steps", "9", "--steps=8"], "--steps is given 2 times; pass it once"),
    (["her_envs/PointReach-v0", "--steps", "1.5e0"], "expected an integer, got 1.5e0"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_bad_options_are_usage_errors(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = her("train", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not list(tmp_path.iterdir())


UNUSABLE = [
    (["CartPole-v1", "--algo", "dqn"], "observation space must be a Dict with the keys"),
    (["her_envs/PointReach-v0", "--algo", "sac", "--no-check", "--offline", "no"], "offline='no' cannot be"),
    (["--resume", "nowhere"], "--resume must be the folder of a run, but there is no file nowhere/latest.pt"),
    (["her_envs/PointReach-v0", "--out", "/dev/null/a"], "/dev/null/a"),
]


@pytest.mark.parametrize(("arguments", "message"), UNUSABLE)
def test_exits_with_code_3_if_environment_or_data_cannot_be_used(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = her("train", *arguments)
    assert (result.exit_code, message in result.stderr) == (3, True), result.output


REACHED = """
def reached(achieved_goal, desired_goal, info):
    return (achieved_goal == desired_goal).all(-1)
"""
MINE = """
from her_envs import PointReach, TaskEnv

class Mine(TaskEnv):
    def __init__(self, **options):
        super().__init__(PointReach(), **{"max_steps": 6, **options})
"""


@pytest.mark.parametrize("env", ["mine.py:Mine", "mine_module:Mine"])
def test_a_run_continues_and_is_shown_in_another_folder(env, options, tmp_path, monkeypatch):
    """Names of files become absolute; for a module, the error names the folder."""
    for name in ("a/rules.py", "a/mine.py", "a/mine_module.py", "b/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(REACHED if name == "a/rules.py" else MINE)
    monkeypatch.chdir(tmp_path / "a")
    numbers = ["--steps", "2e2", "--num-envs", 2, "--learning-starts", "5e1", "--evaluation-episodes", 2]
    others = ["--buffer-size", "1e4", "--no-tensorboard", "--check-steps", 300, "--termination"]
    result = her("train", env, *numbers, *others, "rules.py:reached", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "in 300 steps" in result.output
    monkeypatch.chdir(tmp_path / "b")
    sys.modules.pop("mine_module", None)
    more = her("train", "--resume", tmp_path / "run", "--steps", 400, "--no-tensorboard", "--no-stop")
    shown = her("watch", tmp_path / "run", "--no-show", "--episodes", 1)
    if env.startswith("mine_module"):
        for failed in (more, shown):
            assert failed.exit_code == 2
            assert f"in the folder in which {tmp_path / 'run'} was started" in failed.stderr
    else:
        assert (more.exit_code, shown.exit_code) == (0, 0), more.output + shown.output


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("HalfBoundedActions", "set bounds with gymnasium.wrappers.TransformAction(env"),
        ("NeedsInfo", "`her train`: --info-keys cost"),
        ("Endless", "did not end after 60 steps; pass --max-episode-steps N"),
    ],
)
def test_environments_that_need_an_option_or_a_wrapper(name, message, small, tmp_path, monkeypatch):
    monkeypatch.setattr(episode_limit, "MAX_EPISODE_STEPS", 60)
    command = ["train", f"tests.support.other_envs:{name}", "--config", small, "--no-check"]
    result = her(*command, "--steps", 400, "--out", tmp_path / "a", "--no-tensorboard")
    assert message in result.stderr
    assert result.exit_code in {2, 3}


@pytest.mark.parametrize(("option", "clipped"), [("reward_type=dense", False), ("reward_type=sparse", True)])
def test_targets_are_not_clipped_if_rewards_are_dense(option, clipped, small, tmp_path):
    env = ["her_envs/PointReach-v0", "-o", option, "--config", small, "--no-check"]
    result = her("train", *env, "--steps", 200, "--out", tmp_path / "a", "--no-tensorboard")
    assert result.exit_code == 0, result.output
    assert ("Targets are not clipped" in result.output) is not clipped
    assert load_checkpoint(tmp_path / "a" / "latest.pt")["config"]["clip_targets"] is clipped


def test_resume_accepts_only_other_steps_and_environments_with_the_same_spaces(trained):
    out, _ = trained
    other = her("train", "her_envs/PointPush-v0", "--resume", out, "--steps", 10**6)
    assert (other.exit_code, "space" in other.stderr) == (2, True), other.stderr
    other = her("train", "--gamma", 0.5, "--resume", out)
    assert (other.exit_code, "belongs to a run with gamma=0.98" in other.stderr) == (2, True)
    elsewhere = her("train", "--resume", out, "--out", "there")
    assert (elsewhere.exit_code, "remove --out" in elsewhere.stderr) == (2, True)


def test_environment_that_fails_the_check_is_trained_only_with_force(small, tmp_path):
    arguments = ["tests.support.specimens.broken_rewards:OtherRadiusInStep", "--config", small]
    arguments += ["--steps", 100, "--no-tensorboard", "--check-steps", 300]
    stopped = her("train", *arguments, "--out", tmp_path / "a")
    assert stopped.exit_code == 3
    assert "GE" in stopped.output, "the report is printed"
    assert "has the errors above; fix them, or pass --force to train anyway" in stopped.output
    assert not (tmp_path / "a").exists()
    with pytest.warns(UserWarning, match="compute_reward"):
        forced = her("train", *arguments, "--out", tmp_path / "a", "--force")
    assert forced.exit_code == 0, forced.output
    assert (tmp_path / "a" / "latest.pt").exists()


def test_help_has_the_options_of_the_algorithm_and_the_defaults_of_the_recipe():
    assert "layer_norm=" not in her("train", "--help").stdout
    output = her("train", "--algo", "dqn", "--help").stdout
    assert "epsilon=0.2: Probability" in output
    assert "noise=" not in output
    words = her("train", "--recipe", "fetch_push", "--help").stdout
    assert "(default: future 0.75 random 0.25)" in words
    assert "temperature=0.05: " in words


@pytest.mark.parametrize("command", [["train", "her_envs/PointReach-v0"], ["watch", "x.pt"]])
def test_without_torch_the_error_names_the_extra(command):
    code = "import sys; sys.modules['torch'] = None; from her_wrappers import cli; sys.exit(cli.main())"
    result = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr == 'Error: this command needs torch; run: pip install "her-toolkit[agents]"\n'


def test_solved_run_stops_unless_no_stop_is_given(small, tmp_path):
    arguments = ["her_envs/BitFlipping-v0", "-o", "n_bits=2", "--config", small, "--no-check"]
    arguments += ["--updates-per-step", 0.5, "--steps", 10_000, "--no-tensorboard"]
    result = her("train", *arguments, "--out", tmp_path / "a")
    assert "Solved: all episodes of the last two evaluations were successes." in result.output
    steps = load_checkpoint(tmp_path / "a" / "latest.pt")["counts"]["env_steps"]
    assert steps < 5_000
    more = ["--no-stop", "--steps", steps + 300, "--no-tensorboard"]
    assert her("train", "--resume", tmp_path / "a", *more).exit_code == 0
    assert load_checkpoint(tmp_path / "a" / "latest.pt")["counts"]["env_steps"] >= steps + 300


def test_a_robot_is_trained_by_one_process_without_checks_and_continues(tmp_path):
    robot = ["tests/support/robot.py:Robot", "-o", "hz=1000", "--real", "--batch-size", 16]
    numbers = ["--steps", 60, "--steps-per-epoch", 30, "--learning-starts", 20, "--no-tensorboard"]
    result = her("train", *robot, *numbers, "--agent", "hidden=[8]", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "Goal interface" not in result.output
    assert "a robot plays no random episode" in result.output
    assert result.output.count("period ") == 2
    assert "Watch it" in result.output
    assert her("evaluate", tmp_path / "run", "--episodes", 2).exit_code == 0
    result = her("train", "--resume", tmp_path / "run", "--steps", 90)
    assert "epoch   3 |        90 steps" in result.output


def test_a_robot_is_trained_with_the_options_of_a_recipe_for_several_environments(tmp_path):
    numbers = ["--steps", 30, "--steps-per-epoch", 30, "--learning-starts", 10, "--batch-size", 16]
    words = ["tests/support/robot.py:Robot", "-o", "hz=1000", "--recipe", "fetch_push", "--real", *numbers]
    result = her("train", *words, "--no-tensorboard", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert (config["num_envs"], config["workers"], config["gamma"]) == (1, 0, 0.95)


@pytest.mark.parametrize("options", [["--num-envs", 2], ["--num-envs", 1, "--seeds", 2, "--jobs", 2]])
def test_several_instances_of_a_robot_are_an_error(options, tmp_path):
    result = her("train", "tests/support/robot.py:Robot", "--real", *options, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "--jobs" in result.output or "num_envs=1" in result.output
