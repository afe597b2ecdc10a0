"""as_vector_env: a simulator as a Gymnasium vector environment, for recorders and `her check`."""

import numpy as np
import pytest
import torch

from her_wrappers import VectorEpisodeRecorder
from her_wrappers.simulators import GoalSimulator
from tests.support import simulators
from tests.support.commands import her
from tests.support.simulators import READ, numbered


def make(**options):
    return GoalSimulator.maniskill(simulators.ManiSkill(), info_keys=["elapsed_steps"], **READ | options)


def test_records_whole_episodes():
    episodes = []
    env = VectorEpisodeRecorder(make().as_vector_env(), episodes.append, info_keys=["elapsed_steps"])
    env.reset()
    for _ in range(20):
        env.step(np.zeros((4, 2), np.float32))
    assert len(episodes) > 8
    for episode in episodes:
        lane, number, _ = episode.observations["observation"][0].astype(int)
        rows = numbered(
            np.full(len(episode) + 1, lane), np.full(len(episode) + 1, number), np.arange(len(episode) + 1)
        )
        assert episode.observations["observation"].tolist() == rows[0].tolist()
        assert episode.observations["achieved_goal"].tolist() == rows[1].tolist()
        assert episode.infos["elapsed_steps"].tolist() == list(range(1, len(episode) + 1))


def test_goal_functions_take_arrays_of_many_goals_or_of_one():
    seen = []

    def compute_reward(achieved_goal, desired_goal, info):
        seen.append(info)
        return simulators.compute_reward(achieved_goal, desired_goal, info) + info["elapsed_steps"]

    env = make(compute_reward=compute_reward).as_vector_env()
    infos = [{"elapsed_steps": 2}, {"elapsed_steps": 3}]
    assert env.compute_reward(np.zeros((2, 2)), np.array([[0, 0], [0, 1]]), infos).tolist() == [2, 2]
    assert env.compute_reward(np.zeros(2), np.ones(2), infos[0]) == 1
    assert isinstance(seen[0]["elapsed_steps"], torch.Tensor)
    assert not hasattr(env, "compute_terminated")


def test_faults_are_found_at_the_end_of_an_episode():
    sim = simulators.ManiSkill("nan")
    env = GoalSimulator.maniskill(sim, **READ).as_vector_env()
    env.reset()
    with pytest.raises(ValueError, match="NaN"):
        _ = [env.step(np.zeros((4, 2), np.float32)) for _ in range(15)]


MY_SIM = """
from her_envs import PointReach, TaskVectorEnv
from her_wrappers.simulators import GoalSimulator

def make(num_envs=4):
    env = TaskVectorEnv(PointReach(), num_envs, autoreset_mode="SameStep")
    return GoalSimulator.vector_env(env, info_keys=["is_success"])
"""


def test_her_check_takes_a_function_that_makes_a_simulator_and_finds_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_sim.py").write_text(MY_SIM)
    result = her(
        "check", "my_sim.py:make", "-o", "num_envs=2", "--max-steps", "40", "--select", "GE1", "--no-replicas"
    )
    assert result.exit_code == 0, result.output
    assert "0 errors, 0 warnings" in result.output
