"""How good a policy is: the functions that all examples measure with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np

from her_wrappers.arguments import require_count

SUCCESS_KEYS = ("is_success", "success")
"""Entries of infos that tell success: Gymnasium-Robotics' robots have the first, its mazes the second."""

Policy: TypeAlias = Callable[[Any], Any]
"""``policy(observation) -> action``."""


@dataclass(frozen=True)
class Outcome:
    """How an episode went, or goes.

    Attributes:
        success: Whether its last step so far is a success.
        total: Sum of rewards.
        length: Steps.
    """

    success: bool = False
    total: float = 0.0
    length: int = 0


@dataclass(frozen=True)
class Evaluation:
    """Means over episodes.

    Attributes:
        success_rate: Share of episodes whose last step is a success.
        mean_return: Sum of rewards.
        mean_length: Steps.
    """

    success_rate: float
    mean_return: float
    mean_length: float


def success_key(info: Mapping[str, Any]) -> str:
    """Return the entry of a step's info that tells success.

    Raises:
        ValueError: There is none.
    """
    for key in SUCCESS_KEYS:
        if key in info:
            return key
    raise ValueError(f"info must tell success as {' or '.join(map(repr, SUCCESS_KEYS))}, got {sorted(info)}")


def play_episode(
    env: gym.Env[Any, Any],
    policy: Policy,
    seed: int | None = None,
    watch: Callable[[Outcome], None] = lambda outcome: None,
) -> Outcome:
    """Play one whole episode.

    Args:
        env: An environment that tells success in its infos, and whose episodes end.
        policy: What acts.
        seed: Of the reset.
        watch: Called after the reset and after each step.

    Raises:
        ValueError: A step does not tell.
    """
    observation, info = env.reset(seed=seed)
    outcome, done = Outcome(), False
    watch(outcome)
    while not done:
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        done = terminated or truncated
        success = bool(info[success_key(info)])
        outcome = Outcome(success, outcome.total + float(reward), outcome.length + 1)
        watch(outcome)
    return outcome


def evaluate(
    env: gym.Env[Any, Any], policy: Policy, episodes: int = 100, seed: int | None = None
) -> Evaluation:
    """Play whole episodes and average them.

    Args:
        env: An environment that tells success in its infos, and whose episodes end.
        policy: What acts.
        episodes: How many.
        seed: Seeds the first reset: equal seeds give equal starts and goals.

    Raises:
        ValueError: ``episodes`` is below 1, or a step does not tell whether it is a success.
    """
    require_count("episodes", episodes, at_least=1)
    outcomes = [astuple(play_episode(env, policy, seed if i == 0 else None)) for i in range(episodes)]
    return Evaluation(*np.mean(outcomes, axis=0).tolist())
