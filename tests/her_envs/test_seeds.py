"""A seed gives the same episodes in every release: digests of the observations of bundled environments."""

import hashlib

import gymnasium as gym
import numpy as np
import pytest

from tests.support.bundled import VARIANTS, ids

DIGESTS = [
    "4fcce9d56aad",
    "2496675567a3",
    "e88e4b90722e",
    "9cc7ae938548",
    "79c25666d730",
    "7ede48845166",
    "8a89d7cbd7a8",
    "bbb1a97d3f6a",
    "d41d834a04fc",
    "e2ee443ed04b",
    "3404781ecb35",
    "304bfd0b45ee",
    "961ecdb9eaad",
    "304c5773e16c",
    "d96ee3d1ccd9",
    "f69b55372902",
    "adfb24fbd59f",
    "5a06ecab5606",
    "02d3fbab80fa",
    "bb17a17154d9",
    "1f7fd1c42e2b",
    "46c5cdb00b66",
]


def digest(env_id, options):
    """Return a digest of the episodes of 5 environments in 40 steps with the seed 7."""
    env, rng = gym.make_vec(env_id, num_envs=5, **options), np.random.default_rng(7)
    discrete = isinstance(env.single_action_space, gym.spaces.Discrete)
    observations, seen = env.reset(seed=7)[0], hashlib.sha256()
    for _ in range(40):
        for key in sorted(observations):
            seen.update(np.ascontiguousarray(observations[key]).tobytes())
        shape = env.action_space.shape
        actions = (
            rng.integers(env.single_action_space.n, size=shape) if discrete else rng.uniform(-1, 1, shape)
        )
        observations = env.step(actions)[0]
    return seen.hexdigest()[:12]


@pytest.mark.parametrize(("variant", "expected"), list(zip(VARIANTS, DIGESTS, strict=True)), ids=ids)
def test_equal_seeds_give_the_episodes_of_earlier_releases(variant, expected):
    assert digest(*variant) == expected
