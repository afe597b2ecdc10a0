"""Vector environments: rollouts are split into episodes in all autoreset modes."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from her_envs import Counting, TaskEnv
from her_wrappers import check_goal_env
from her_wrappers.checker.records import split_batches
from her_wrappers.checker.rollout import Budget, roll_out
from tests.support.specimens.reach import Reach


@pytest.mark.parametrize("mode", AutoresetMode)
def test_episodes_are_complete_and_separate_in_all_modes(mode):
    """In Counting, the achieved goal identifies the episode and the step of a state."""
    env = SyncVectorEnv([lambda: TaskEnv(Counting(length=4))] * 3, autoreset_mode=mode)
    rollout = split_batches(roll_out(env, Budget(300)), mode, 3)
    resets = {start.episode: start.observation for start in rollout.resets}
    lengths = {}
    assert len(rollout.steps) > 200
    for step in rollout.steps:
        episode, _ = resets[step.episode]["achieved_goal"]
        assert step.before["achieved_goal"].tolist() == [episode, step.t]
        assert step.observation["achieved_goal"].tolist() == [episode, step.t + 1]
        assert step.info["is_success"] == step.terminated == (step.reward == 0)
        lengths[step.episode] = step.t + 1
    ended = [i for i, length in lengths.items() if length == resets[i]["desired_goal"][1]]
    assert len(ended) == rollout.ended_episodes, "each ended episode ends with a success"


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

    report = check_goal_env(Columns, max_steps=200)
    assert not report.of_severity("error", "warning"), report.text()


def test_an_async_environment_is_checked():
    env = AsyncVectorEnv([Reach] * 2)
    report = check_goal_env(env, max_steps=100)
    env.close()
    assert not report.of_severity("error", "warning"), report.text()
    assert "no second environment of this kind could be made" in report.text()


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: gym.wrappers.TimeLimit(env, 5)])
def test_one_environment_in_two_slots_is_an_error(wrap):
    env = Reach()
    for target in (SyncVectorEnv([lambda: wrap(env)] * 2), lambda: SyncVectorEnv([lambda: wrap(env)] * 2)):
        with pytest.raises(ValueError, match=r"environments 0 and 1 .* are the same .* object"):
            check_goal_env(target, max_steps=20)


def test_a_check_with_more_environments_than_steps_ends():
    assert check_goal_env(lambda: SyncVectorEnv([Reach] * 8), max_steps=3).steps >= 3


def test_an_observation_space_that_is_not_batched_is_reported():
    env = SyncVectorEnv([Reach] * 3)
    env.observation_space = env.single_observation_space
    findings = check_goal_env(env, max_steps=50).findings
    assert ("GE603", "observation_space") in {(each.code, each.subject) for each in findings}


def test_a_policy_may_change_the_observations_that_it_gets():
    env = SyncVectorEnv([Reach] * 2)

    def policy(observations):
        observations["desired_goal"][:] = 0
        return env.action_space.sample()

    assert check_goal_env(env, policy=policy, max_steps=100).codes == []


def test_the_rows_of_a_vector_environment_are_steered_to_their_goals():
    env = gym.make_vec("her_envs/PointReach-v0", num_envs=4)
    assert check_goal_env(env, max_steps=1000).successes > 50
