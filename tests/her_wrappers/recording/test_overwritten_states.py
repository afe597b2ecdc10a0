"""Environments that reuse arrays: last states are right, or a warning says that they are lost."""

import warnings
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from her_wrappers import HindsightReplayBuffer, VectorEpisodeRecorder
from her_wrappers.repairs import CopyObservation
from tests.support.numbered import NEXT_STEP, SAME_STEP
from tests.support.reusing import KEPT, Reusing
from tests.support.specimens.reach import DenseReach


class NotReset(DenseReach):
    """A correct environment whose next episode begins where the last one ended."""

    def __init__(self, same_goal=False):
        super().__init__()
        self.same_goal = same_goal

    def draw_start(self):
        start, goal = super().draw_start()
        place = getattr(self, "position", start)
        self.last_goal = getattr(self, "last_goal", goal) if self.same_goal else goal
        return place, self.last_goal

    def is_success(self, achieved_goal, desired_goal):
        return self.distance(achieved_goal, desired_goal) < 0


class Clock(DenseReach):
    """A correct environment that starts in one place, with a phase that is 0 at both ends of an episode."""

    def draw_start(self):
        return np.float32([0, 0]), super().draw_start()[1]

    def observe(self):
        phase = np.sin(2 * np.pi * np.array([0.0, 0.25]) + getattr(self, "elapsed", 0) % 20)
        return super().observe() | {"observation": phase.astype(np.float32)}


def warned(function, *arguments):
    """Return the messages of the warnings of a call that name the reuse of arrays."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*arguments)
    return [str(each.message) for each in found if "reuse its arrays" in str(each.message)]


def record(envs, calls=100, **options):
    envs = VectorEpisodeRecorder(envs, **options)
    envs.action_space.seed(0)
    envs.reset(seed=0)
    for _ in range(calls):
        envs.step(envs.action_space.sample())
    envs.close()


def add(envs, calls=100):
    buffer = HindsightReplayBuffer.for_env(envs, seed=0, n_sampled_goal=0)
    obs, _ = envs.reset(seed=0)
    envs.action_space.seed(0)
    skip, is_next_step = None, envs.metadata["autoreset_mode"] is NEXT_STEP
    for _ in range(calls):
        action = envs.action_space.sample()
        next_obs, reward, terminated, truncated, info = envs.step(action)
        buffer.add(obs, action, reward, next_obs, terminated, truncated, info, skip=skip)
        obs, skip = next_obs, terminated | truncated if is_next_step else None
    envs.close()


@pytest.mark.parametrize(
    ("vector_class", "kept"), [*((SyncVectorEnv, kept) for kept in KEPT), (AsyncVectorEnv, KEPT[-1])]
)
def test_a_warning_names_the_leaves_whose_last_states_are_overwritten(vector_class, kept):
    [message] = warned(record, vector_class([partial(Reusing, kept)] * 2, autoreset_mode=SAME_STEP))
    assert all(f"observation/{key}" in message for key in kept)


@pytest.mark.parametrize(
    ("kept", "wrap"), [(KEPT[0], lambda envs: envs), (KEPT[-1], gym.wrappers.vector.DictInfoToList)]
)
def test_overwritten_last_states_in_add_are_noticed(kept, wrap):
    envs = wrap(SyncVectorEnv([partial(Reusing, kept)] * 2, autoreset_mode=SAME_STEP))
    assert len(warned(add, envs)) == 1


def test_overwritten_infos_are_noticed():
    envs = AsyncVectorEnv([partial(Reusing, ("info",))] * 2, autoreset_mode=SAME_STEP)
    message = warned(lambda: record(envs, info_keys=["place", "is_success"]))[0]
    assert "the last value of info 'place' equals" in message


RIGHT = {
    "new arrays": Reusing,
    "copies": lambda: CopyObservation(Reusing(KEPT[-1])),
    "no reset": NotReset,
    "no reset and one goal": partial(NotReset, same_goal=True),
    "a clock": Clock,
}


@pytest.mark.parametrize("use", [record, add])
@pytest.mark.parametrize("kind", RIGHT)
def test_correct_environments_cause_no_warning(kind, use):
    envs = SyncVectorEnv([RIGHT[kind]] * 3, autoreset_mode=SAME_STEP)
    assert warned(use, envs, 200) == []


def test_an_episode_that_add_truncates_without_a_reset_causes_no_warning():
    env = DenseReach()
    buffer = HindsightReplayBuffer.for_env(env, seed=0, n_sampled_goal=0)
    obs, _ = env.reset(seed=0)

    def run():
        nonlocal obs
        for t in range(1, 101):
            next_obs, reward, terminated, _, info = env.step(env.action_space.sample())
            buffer.add(obs, np.zeros(2, np.float32), reward, next_obs, terminated, t % 10 == 0, info)
            obs = next_obs

    assert warned(run) == []
    assert buffer.num_episodes == 10


def test_next_step_mode_with_skip_causes_no_warning():
    assert warned(add, SyncVectorEnv([partial(Reusing, KEPT[-1])] * 2, autoreset_mode=NEXT_STEP)) == []
