"""Runs on batched simulators: GoalSimulator, DeviceReplayBuffer and agent exchange tensors."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch

from her_agents import load_agent
from her_agents.algorithms.registry import choose_defaults
from her_agents.training.config import Config
from her_agents.training.evaluation import evaluate_simulator
from her_agents.training.loop import train
from her_agents.training.sources import make_single_env
from her_envs import PointReach, TaskVectorEnv
from her_wrappers import DeviceReplayBuffer
from her_wrappers.goals.environments import make_env
from her_wrappers.simulators import GoalSimulator
from tests.support import simulators
from tests.support.commands import her
from tests.support.short_runs import assert_resumes, tiny
from tests.support.simulators import READ

SHORT = {"env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 9}, "on_device": True, "batch_size": 8}
SHORT |= {"updates_per_step": 0.1, "steps_per_epoch": 72, "steps": 144, "learning_starts": 20}

MY_SIM = """
from her_envs import PointReach, TaskVectorEnv
from her_wrappers.simulators import GoalSimulator

def make(num_envs=4, device="cpu", max_steps=9, **options):
    env = TaskVectorEnv(PointReach(), num_envs, device=device, max_steps=max_steps, **options)
    return GoalSimulator.vector_env(env)

def make_three():
    return make(3)
"""


def of_three_lanes(**options):
    return GoalSimulator.vector_env(TaskVectorEnv(PointReach(), 3, device="cpu", max_steps=9, **options))


@pytest.fixture
def my_sim(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_sim.py").write_text(MY_SIM)


def test_a_run_is_saved_resumed_and_loaded(tmp_path):
    assert_resumes(tiny("sac", **SHORT), tmp_path / "run")
    (saved,) = (tmp_path / "run").glob("buffer-*.replay")
    assert saved.stat().st_size < 50_000  # not the capacity of 1,000,000 steps
    env = TaskVectorEnv(PointReach(), 4, device="cpu")
    assert len(DeviceReplayBuffer.load(saved, GoalSimulator.vector_env(env))) == 144
    observation, _ = make_env("her_envs/PointReach-v0").reset(seed=0)
    assert load_agent(tmp_path / "run").act(observation).shape == (2,)


def test_the_log_has_the_measurements_of_other_runs():
    on_device = train(tiny("sac", **SHORT), on_epoch=None).history[-1]
    elsewhere = train(tiny("sac", **SHORT | {"on_device": False}), on_epoch=None).history[-1]
    assert on_device.keys() == elsewhere.keys()
    assert on_device["env_steps"] == 144
    assert on_device["updates"] == 12
    assert on_device["mean_length"] == 9


def test_defaults_depend_on_the_simulator():
    config = Config("her_envs/PointReach-v0", num_envs=3, on_device=True)
    with closing(make_single_env(config)) as env:
        chosen = choose_defaults(config, env)
    assert (chosen.steps, chosen.steps_per_epoch) == (200 * 3 * 50, 4 * 3 * 50)
    assert chosen.updates_per_step == pytest.approx(2 / 3)


def test_an_own_simulator_is_not_closed(monkeypatch):
    closed = []

    def close(self):
        closed.append(self)

    monkeypatch.setattr(GoalSimulator, "close", close)
    config = replace(tiny("td3", **SHORT), num_envs=3)
    own, made = of_three_lanes(), []
    train(config, env=own, on_epoch=None)
    train(config, env=lambda: made.append(of_three_lanes()) or made[0], on_epoch=None)
    assert own not in closed
    assert made[0] in closed


def test_evaluation_counts_equally_many_episodes_of_each_environment():
    sim = simulators.ManiSkill()
    simulator = GoalSimulator.maniskill(sim, **READ)

    def policy(observation):
        return torch.zeros(4, 2)

    found = evaluate_simulator(simulator, policy, episodes=7)  # rounded up to 8
    lengths, successes, once, returns = [], [], [], []
    for lane in range(4):
        for episode in range(1, 3):  # episode 0 ended when the simulator was reset
            length = min(simulators.length_of(lane, episode), simulators.TIME_LIMIT)
            hits = np.arange(1, length + 1) == 4
            lengths.append(length)
            successes.append(hits[-1])
            once.append(hits.any())
            returns.append(-(~hits).sum())
    assert found.mean_length == np.mean(lengths)
    assert found.success_rate == np.mean(successes)
    assert found.success_once == np.mean(once)
    assert found.mean_return == np.mean(returns)


def test_success_is_the_flag_or_the_reward_of_an_achieved_goal():
    simulator = of_three_lanes()
    flagged = GoalSimulator.vector_env(
        TaskVectorEnv(PointReach(), 3, device="cpu", max_steps=9), info_keys=["is_success"]
    )
    for each in (simulator, flagged):
        each.reset(seed=0)
    for _ in range(20):
        action = torch.rand(3, 2) * 2 - 1
        steps = [each.step(action) for each in (simulator, flagged)]
        assert torch.equal(simulator.is_success(steps[0]), flagged.is_success(steps[1]))
        assert torch.equal(flagged.is_success(steps[1]), steps[1].reward == 0)


@pytest.mark.usefixtures("my_sim")
def test_her_train_and_other_commands_take_a_function_that_makes_a_simulator():
    options = "--steps 60 --learning-starts 10 --steps-per-epoch 30 --evaluation-episodes 1 --batch-size 8"
    made = her(
        "train", "my_sim.py:make", "--num-envs", "5", "--check-steps", "50", *options.split(), "--out", "run"
    )
    assert made.exit_code == 0, made.output
    assert "5 environments on cpu, 2 updates after each step" in made.output
    resumed = her("train", "--resume", "run", "--steps", "90")
    assert resumed.exit_code == 0, resumed.output
    for words in (["evaluate", "run", "--episodes", "3"], ["watch", "run", "--no-show", "--episodes", "2"]):
        result = her(*words)
        assert result.exit_code == 0, result.output
        assert "2 episodes" in result.output or "3 episodes" in result.output
    assert her("export", "run", "a.policy").exit_code == 0
    doctor = her("doctor", "run")
    assert doctor.exit_code in {0, 1}, doctor.output  # from options and logs
    assert "updates_per_step" not in doctor.output


@pytest.mark.usefixtures("my_sim")
@pytest.mark.parametrize(
    ("env", "options", "match"),
    [
        ("my_sim.py:make", {"workers": 1}, "workers"),
        ("my_sim.py:make", {"prioritized": True}, "prioritized"),
        ("my_sim.py:make", {"max_episode_steps": 5}, "max_episode_steps"),
        ("my_sim.py:make", {"info_keys": ("a",)}, "GoalSimulator"),
        ("my_sim.py:make_three", {"num_envs": 5}, "num_envs must be 3"),
        ("my_sim.py:make_three", {"device": "meta"}, "device"),
        ("my_sim.py:make", {"env_kwargs": {"reward_type": "dense"}}, "info_keys"),
        ("MountainCarContinuous-v0", {"on_device": True}, "on_device"),
        ("her_envs:TaskEnv", {"on_device": True}, "task"),
    ],
)
def test_what_a_simulator_does_not_support_is_one_error(env, options, match):
    with pytest.raises(ValueError, match=match):
        train(Config(env, steps=2000, **options), on_epoch=None)


def test_rewards_that_cannot_be_clipped_are_found_at_the_end_of_the_epoch():
    def compute_reward(achieved_goal, desired_goal, info):
        reached = (achieved_goal - desired_goal).norm(dim=-1) < 0.05
        return torch.where(reached, 3.0, -1.0)

    env = TaskVectorEnv(PointReach(), 3, device="cpu", max_steps=9)
    simulator = GoalSimulator.vector_env(env, compute_reward=compute_reward)
    config = replace(tiny("td3", **SHORT), num_envs=3, clip_targets=True)
    with pytest.raises(ValueError, match="clip_targets"):
        train(config, env=simulator, on_epoch=None)


def test_the_single_environment_shows_the_first_one_before_its_reset():
    simulator, same_simulator = of_three_lanes(), of_three_lanes()
    env = simulator.as_env()
    first, _ = env.reset(seed=4)
    expected = same_simulator.reset(seed=4)
    np.testing.assert_array_equal(first["observation"], expected["observation"][0])
    for _ in range(9):
        observation, reward, terminated, truncated, info = env.step(np.array([0.5, -0.2], np.float32))
        step = same_simulator.step(torch.tensor([0.5, -0.2]).expand(3, 2))
        np.testing.assert_array_equal(observation["achieved_goal"], step.last_observation["achieved_goal"][0])
        assert (reward, info["is_success"]) == (float(step.reward[0]), bool(step.reward[0] == 0))
    assert truncated
    assert not terminated
    assert env.observation_space.contains(observation)
