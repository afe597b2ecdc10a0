"""How good a policy is: the one function that all examples measure with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np

Policy: TypeAlias = Callable[[Any], Any]
"""``policy(observation) -> action``."""


@dataclass(frozen=True)
class Evaluation:
    """Means over episodes.

    Attributes:
        success_rate: Share of episodes with ``is_success`` at their last step.
        mean_return: Sum of rewards.
        mean_length: Steps.
    """

    success_rate: float
    mean_return: float
    mean_length: float


def evaluate(
    env: gym.Env[Any, Any], policy: Policy, episodes: int = 100, seed: int | None = None
) -> Evaluation:
    """Play whole episodes and average them.

    Args:
        env: An environment that tells ``is_success`` in its infos, and whose episodes end.
        policy: What acts.
        episodes: How many.
        seed: Seeds the first reset: equal seeds give equal starts and goals.

    Raises:
        ValueError: ``episodes`` is below 1, or an episode ends without ``is_success``.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be >= 1, got {episodes}")
    results = np.zeros((episodes, 3))
    for i in range(episodes):
        observation, info = env.reset(seed=seed if i == 0 else None)
        done = False
        while not done:
            observation, reward, terminated, truncated, info = env.step(policy(observation))
            results[i, 1:] += float(reward), 1
            done = terminated or truncated
        if "is_success" not in info:
            raise ValueError(f"info has no 'is_success' at the end of an episode, only {sorted(info)}")
        results[i, 0] = info["is_success"]
    return Evaluation(*results.mean(axis=0).tolist())
