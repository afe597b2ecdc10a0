"""Spaces of goal environments, random episodes in these spaces, and their reward functions."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from her_wrappers import Episode


def goal_env_space(observation, goal):
    """Return the observation space of a goal environment."""
    return spaces.Dict({"observation": observation, "achieved_goal": goal, "desired_goal": goal})


VECTOR = spaces.Box(-1, 1, (5,), np.float32)
GOAL = spaces.Box(-1, 1, (2,), np.float64)
IMAGE = spaces.Box(0, 255, (6, 5, 1), np.uint8)
NESTED = spaces.Dict(
    camera=spaces.Box(0, 255, (4, 4), np.uint8), joints=spaces.Tuple([VECTOR, spaces.Discrete(3)])
)
SPACES = {
    "vector": (goal_env_space(VECTOR, GOAL), spaces.Box(-1, 1, (3,), np.float32)),
    "float32": (goal_env_space(VECTOR, spaces.Box(-1, 1, (2,), np.float32)), spaces.Box(-1, 1, (3,))),
    "nested": (goal_env_space(NESTED, GOAL), spaces.Dict(arm=VECTOR, grip=spaces.Discrete(2))),
    "discrete": (goal_env_space(spaces.Discrete(9), spaces.Discrete(4)), spaces.Discrete(4)),
    "multi": (
        goal_env_space(spaces.MultiBinary((2, 3)), spaces.MultiDiscrete([2, 3])),
        spaces.MultiDiscrete([3, 4]),
    ),
    "image": (goal_env_space(IMAGE, IMAGE), spaces.Discrete(3)),
    "scalar": (
        goal_env_space(spaces.Box(-1, 1, (), np.float16), spaces.Box(-1, 1, (1, 1), np.float64)),
        spaces.Box(-1, 1, (), np.float64),
    ),
}


def random_values(space, rows, rng):
    """Return ``rows`` values of a space: floats are multiples of 1/2, and there are only four images."""
    if isinstance(space, spaces.Dict):
        return {key: random_values(part, rows, rng) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(random_values(part, rows, rng) for part in space.spaces)
    if isinstance(space, spaces.Box):
        return _random_numbers(space, rows, rng)
    if isinstance(space, spaces.MultiDiscrete):
        above = space.nvec
    else:
        above = space.n if isinstance(space, spaces.Discrete) else 2
    return rng.integers(above, size=(rows, *space.shape)).astype(space.dtype)


def _random_numbers(space, rows, rng):
    if space.dtype == np.uint8:
        images = np.random.default_rng(7).integers(256, size=(4, *space.shape), dtype=np.uint8)
        return images[rng.integers(4, size=rows)]
    return (rng.integers(-1, 2, size=(rows, *space.shape)) / 2).astype(space.dtype)


def is_reached(achieved, desired):
    """Return a (B,) bool array or tensor: whether goals are equal."""
    return (achieved == desired).reshape(len(achieved), -1).all(-1)


def sparse_reward(achieved, desired, info):
    return -1.0 + is_reached(achieved, desired)


def terminated_if_reached(achieved, desired, info):
    return is_reached(achieved, desired)


def sparse_reward_minus_cost(achieved, desired, infos):
    cost = infos["cost"] if isinstance(infos, dict) else np.array([info["cost"] for info in infos])
    return sparse_reward(achieved, desired, None) - cost


def effort_reward(batch):
    """Return the sparse rewards of a `Batch`, minus a cost of the action and the state."""
    reached = is_reached(batch.next_observations["achieved_goal"], batch.observations["desired_goal"])
    return -1.0 + reached - batch.actions[:, 0] / 4 - batch.observations["observation"][:, 1] / 8


def random_episode(space, action_space, length, rng, *, goal_changes, infos, reward):
    """Return an episode; crash, success and truncation are equally likely ends."""
    observations = random_values(space, length + 1, rng)
    goals = observations["desired_goal"]
    goals[:] = goals[:1]
    if goal_changes:
        goals[length // 2 :] = observations["achieved_goal"][-1]
    if space["observation"] is space["achieved_goal"]:
        observations["achieved_goal"] = observations["observation"].copy()
    ending = rng.integers(3)  # 0: crash, 1: success, 2: truncated
    if ending == 1:
        observations["achieved_goal"][-1] = goals[-1]
    actions = random_values(action_space, length, rng)
    cost = rng.integers(8, size=length) / 8
    given = {"cost": cost, "force": rng.integers(-4, 5, size=(length, 2)).astype(np.float32)} if infos else {}
    rewards = reward(observations, actions, cost)
    return Episode(observations, actions, rewards, bool(ending < 2), bool(ending == 2), given)


def recorded_reward(observations, actions, cost):
    achieved, desired = observations["achieved_goal"][1:], observations["desired_goal"][:-1]
    return (sparse_reward(achieved, desired, None)).astype(np.float64)


def recorded_reward_minus_cost(observations, actions, cost):
    return recorded_reward(observations, actions, cost) - cost


def recorded_effort_reward(observations, actions, cost):
    effort = actions[:, 0] / 4 + observations["observation"][:-1, 1] / 8
    return recorded_reward(observations, actions, cost) - effort
