"""A seed gives the same episodes in every release: digests of the observations of bundled environments."""

import hashlib

import gymnasium as gym
import numpy as np
import pytest

from her_envs.registration import ENTRY_POINTS
from tests.support.bundled import VARIANTS

DIGESTS = {
    "her_envs/BitFlipping-v0": "5680d5d0d808",
    "her_envs/BitFlippingContinuous-v0": "4a799e06b7b5",
    "her_envs/BitFlippingImage-v0": "6c3f72da65d8",
    "her_envs/PointReach-v0": "07eddfee10b2",
    "her_envs/PointMaze-v0": "57803fe586ae",
    "her_envs/PointPush-v0": "65a3905f344e",
    "her_envs/Counting-v0": "3edc66585b5a",
}


def digest(env_id):
    """Return a digest of all variants of an environment: of 5 environments in 40 steps with the seed 7."""
    seen = hashlib.sha256()
    for options in [options for name, options in VARIANTS if name == env_id]:
        env, rng = gym.make_vec(env_id, num_envs=5, **options), np.random.default_rng(7)
        observations, shape = env.reset(seed=7)[0], env.action_space.shape
        for _ in range(40):
            for key in sorted(observations):
                seen.update(np.ascontiguousarray(observations[key]).tobytes())
            if isinstance(env.single_action_space, gym.spaces.Discrete):
                actions = rng.integers(env.single_action_space.n, size=shape)
            else:
                actions = rng.uniform(-1, 1, shape)
            observations = env.step(actions)[0]
    return seen.hexdigest()[:12]


@pytest.mark.parametrize("env_id", ENTRY_POINTS)
def test_equal_seeds_give_the_episodes_of_earlier_releases(env_id):
    assert digest(env_id) == DIGESTS[env_id]
