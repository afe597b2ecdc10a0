"""Policies that search for successes: random actions, repeated actions, and steering to the goal."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from her_wrappers.checker.goals import flat

if TYPE_CHECKING:
    from her_wrappers.checker.rollout import Policy, Rollout

MAX_GOAL_SIZE = 64
"""Largest number of values of a goal for steering; for larger goals, of images, models are costly."""


def random_policy(space: spaces.Space[Any], seed: int) -> Policy:
    """Return a policy that samples from a copy of the space, so that the space keeps its random state.

    Args:
        space: Action space.
        seed: Seed of the copy.
    """
    copied = copy.deepcopy(space)
    copied.seed(seed)
    return lambda observation: copied.sample()


def repeating_policy(space: spaces.Space[Any], rng: np.random.Generator) -> Policy:
    """Return a policy that repeats each random action for 1 to 20 steps, to move further.

    Args:
        space: Action space.
        rng: Generator of the seed of the actions, and of the numbers of steps.
    """
    sample = random_policy(space, int(rng.integers(2**31)))
    remaining, action = 0, None

    def policy(observation: Any) -> Any:
        nonlocal remaining, action
        if remaining == 0:
            remaining, action = int(rng.integers(1, 21)), sample(observation)
        remaining -= 1
        return action

    return policy


def steering_policy(rollout: Rollout, space: spaces.Space[Any], rng: np.random.Generator) -> Policy | None:
    """Return a policy that steers to the goal by a linear model of the effect of actions on achieved goals.

    One action in ten is random, to leave walls and dead ends.

    Args:
        rollout: Rollout to which the model is fitted.
        space: Action space of one environment.
        rng: Generator of the random choices.

    Returns:
        The policy, or None if the rollout has no steps, the goals are too large, or the action space is
        neither Box nor Discrete.

    Raises:
        IndexError, KeyError, TypeError, ValueError, numpy.linalg.LinAlgError: The observations or actions of
            the rollout do not fit the model; calls of the policy can raise the same errors.
    """
    goals = [flat(step.before["achieved_goal"]) for step in rollout.steps]
    if not goals or goals[0].size > MAX_GOAL_SIZE:
        return None
    before = np.stack(goals)
    moves = np.stack([flat(step.observation["achieved_goal"]) for step in rollout.steps]) - before
    actions = np.stack([np.asarray(step.action) for step in rollout.steps])
    if isinstance(space, spaces.Box):
        steer = _steer_box(space, actions, moves)
    elif isinstance(space, spaces.Discrete):
        steer = _steer_discrete(space, actions, before, moves)
    else:
        return None
    explore = random_policy(space, int(rng.integers(2**31)))

    def policy(observation: Any) -> Any:
        if rng.random() < 0.1:
            return explore(observation)
        return steer(flat(observation["achieved_goal"]), flat(observation["desired_goal"]))

    return policy


def _steer_box(space: spaces.Box, actions: np.ndarray, moves: np.ndarray) -> Any:
    """Steer by the model move = action @ gain + drift."""
    rows = np.concatenate([actions.reshape(len(actions), -1), np.ones((len(actions), 1))], axis=1)
    model = np.linalg.lstsq(rows, moves, rcond=None)[0]
    inverse, drift = np.linalg.pinv(model[:-1]), model[-1]

    def steer(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        action = ((desired - achieved - drift) @ inverse).reshape(space.shape)
        return np.asarray(np.clip(action, space.low, space.high), dtype=space.dtype)

    return steer


def _steer_discrete(
    space: spaces.Discrete, actions: np.ndarray, before: np.ndarray, moves: np.ndarray
) -> Any:
    """Steer by the model move = [achieved, 1] @ gain of each action, which is exact for bits that flip."""
    rows = np.concatenate([before, np.ones((len(before), 1))], axis=1)
    models = np.stack([
        np.linalg.lstsq(rows[actions == action], moves[actions == action], rcond=None)[0]
        for action in range(space.start, space.start + space.n)
    ])

    def steer(achieved: np.ndarray, desired: np.ndarray) -> int:
        after = achieved + np.append(achieved, 1.0) @ models
        return int(space.start + ((after - desired) ** 2).sum(-1).argmin())

    return steer
