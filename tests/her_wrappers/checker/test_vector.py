"""Vector environments: rollouts are split into episodes in all autoreset modes."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from her_envs import Counting, TaskEnv
from her_wrappers import check_goal_env
from her_wrappers.checker.collect import Budget, collect
from her_wrappers.checker.replicas import EnvReplicator
from tests.support.specimens.broken_vectors import Reaches
from tests.support.specimens.reach import Reach


def make_counting():
    return TaskEnv(Counting(length=4))


@pytest.mark.parametrize("mode", AutoresetMode)
def test_episodes_are_complete_and_separate_in_all_modes(mode):
    """In Counting, the achieved goal identifies the episode and the step of a state."""
    env = SyncVectorEnv([make_counting] * 3, autoreset_mode=mode)
    rollout = collect(env, EnvReplicator(None), Budget(300)).rollout
    resets = {start.episode: start.observation["achieved_goal"] for start in rollout.resets}
    assert len(rollout.steps) > 200
    for step in rollout.steps:
        episode, _ = resets[step.episode]
        assert step.before["achieved_goal"].tolist() == [episode, step.t]
        assert step.observation["achieved_goal"].tolist() == [episode, step.t + 1]
        assert step.info["is_success"] == step.terminated == (step.reward == 0)


def test_each_ended_episode_ends_with_a_success():
    env = SyncVectorEnv([make_counting] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    rollout = collect(env, EnvReplicator(None), Budget(300)).rollout
    lengths = {}
    for step in rollout.steps:
        lengths[step.episode] = step.t + 1
    goals = {start.episode: start.observation["desired_goal"][1] for start in rollout.resets}
    finished = [episode for episode in lengths if lengths[episode] == goals[episode]]
    assert len(finished) == rollout.ended_episodes


def test_final_observations_are_read_from_a_dict_of_arrays():
    """Gymnasium's ``final_obs`` is an array of dicts; vector entry points use dicts of arrays."""

    class Columns(SyncVectorEnv):
        def step(self, actions):
            *returned, infos = super().step(actions)
            if "final_obs" in infos:
                rows = [row or self.last for row in infos["final_obs"]]
                infos["final_obs"] = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
            return *returned, infos

        def __init__(self):
            super().__init__([Reach] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
            self.last = self.single_observation_space.sample()

    report = check_goal_env(Columns, max_steps=600)
    assert not report.of_severity("error", "warning"), report.text()


def test_an_async_environment_is_checked():
    env = AsyncVectorEnv([Reach] * 2)
    report = check_goal_env(env, max_steps=200)
    env.close()
    assert not report.of_severity("error", "warning"), report.text()
    assert "no second environment of this kind could be made" in report.text()


def test_a_check_with_more_environments_than_steps_ends():
    report = check_goal_env(lambda: SyncVectorEnv([Reach] * 8), max_steps=3)
    assert report.steps >= 3


class NotBatched(Reaches):
    def __init__(self):
        super().__init__()
        self.observation_space = self.single_observation_space


def test_an_observation_space_that_is_not_batched_is_reported():
    findings = {finding.subject: finding for finding in check_goal_env(NotBatched, max_steps=50).findings}
    found = findings["observation_space"]
    assert (found.code, found.expected) == ("GE603", "a batch of single_observation_space")
    assert found.got.startswith("Dict('achieved_goal': Box(")
