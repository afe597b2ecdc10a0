"""Runs with cameras, with keys of critics, and with masks of valid actions."""

import numpy as np
import pytest

from her_agents.training.checkpoints import load_agent, load_checkpoint
from her_agents.training.config import Config
from her_agents.training.loop import train
from tests.support.cameras import CameraReach, RealReach
from tests.support.commands import her
from tests.support.short_runs import same, tiny, without_time
from tests.support.specimens.masks import MaskInInfo, MaskMethod, Strict

CAMERAS = "tests.support.cameras"
QUICK = ["--num-envs", 4, "--steps-per-epoch", 100, "--learning-starts", 50, "--evaluation-episodes", 2]
QUICK += ["--batch-size", 16, "--no-tensorboard", "--no-check"]


@pytest.fixture(name="run", scope="module")
def trained(tmp_path_factory):
    """Train DDPG with a camera, a wrist camera, and critics that read exact positions."""
    folder = tmp_path_factory.mktemp("cameras") / "run"
    keys = ["--use-keys", "wrist", "--critic-keys", "exact", "--agent", "hidden=[8]"]
    keys += ["--agent", "random_shift=2", "--updates-per-step", "0.1"]
    arguments = [f"{CAMERAS}:CameraReach", "--algo", "ddpg", *keys, *QUICK, "--steps", 200, "--out", folder]
    result = her("train", *arguments)
    assert result.exit_code == 0, result.output
    assert "does not use" not in result.output
    return folder


def test_a_run_is_resumed_and_shown(run, tmp_path):
    assert her("train", "--resume", run, "--steps", 300, "--no-tensorboard").exit_code == 0
    assert load_checkpoint(run / "latest.pt")["config"]["critic_keys"] == ("exact",)
    assert her("watch", run, "--no-show", "--episodes", 1).exit_code == 0
    recording = ["--out", tmp_path / "demos", "--policy", run, "--episodes", 1]
    recorded = her("record", f"{CAMERAS}:CameraReach", *recording)
    assert recorded.exit_code == 0, recorded.output


def test_a_policy_needs_no_key_of_critics(run, tmp_path):
    seen, _ = RealReach().reset(seed=0)
    action = load_agent(run).act(seen)
    assert np.array_equal(action, load_agent(run).act(CameraReach().reset(seed=0)[0]))
    assert her("evaluate", run, "--env", f"{CAMERAS}:RealReach", "--episodes", 2).exit_code == 0
    policy = tmp_path / "small.policy"
    assert her("export", run, policy).exit_code == 0
    assert load_checkpoint(policy)["config"]["critic_keys"] == []
    assert load_agent(policy).act(seen) == pytest.approx(action, abs=0.05)
    assert her("watch", policy, "--env", f"{CAMERAS}:RealReach", "--no-show", "--episodes", 1).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", f"{CAMERAS}:NoWrist"], "needs the observation space"),
        (["--env", "tests.support.other_envs:Silent"], "needs the observation space"),
    ],
)
def test_other_keys_are_needed(run, arguments, message):
    result = her("evaluate", run, *arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize("workers", [0, 1])
def test_demonstrations_and_workers_store_all_keys(workers):
    options = {"use_keys": ["wrist"], "critic_keys": ["exact"], "agent": {"hidden": [8]}}
    demos = {"demos": "tests.support.cameras:to_goal", "demo_episodes": 2}
    env = {"env": f"{CAMERAS}:CameraReach", "env_kwargs": {}}
    config = tiny("sac", **env, **options, **demos, workers=workers, steps=100, steps_per_epoch=100)
    assert len(train(config, on_epoch=None, backend="local").history) == 1


def test_keys_are_lists_also_with_commas(tmp_path):
    with pytest.raises(TypeError, match="use_keys must be a list of strings, got the string 'wrist'"):
        Config("env", use_keys="wrist")
    arguments = [f"{CAMERAS}:CameraReach", "--use-keys", "wrist,elbow", *QUICK, "--out", tmp_path / "run"]
    result = her("train", *arguments)
    assert result.exit_code == 2
    assert "reads 'elbow'" in result.output
    arguments[2:3] = ["wrist", "elbow"]
    assert "reads 'elbow'" in her("train", *arguments).output


@pytest.mark.parametrize("kind", [Strict, MaskInInfo, MaskMethod])
def test_a_run_never_takes_a_masked_action(kind, tmp_path):
    options = {"env_kwargs": {}, "clip_targets": None, "steps": 100, "workers": int(kind is MaskMethod)}
    config = tiny("dqn", env=f"{kind.__module__}:{kind.__name__}", **options)
    result = train(config, folder=tmp_path / "run", on_epoch=None, backend="local")
    assert "action_mask" in result.agent.inputs.keys
    assert her("watch", tmp_path / "run", "--no-show", "--episodes", 2).exit_code == 0
    if kind is not MaskInInfo:
        return
    same_run = train(config, env=kind, on_epoch=None)
    assert same(same_run.agent.state_dict(), result.agent.state_dict())
    assert without_time(same_run.history) == without_time(result.history)
