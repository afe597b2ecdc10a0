"""How good a policy is: the functions that all examples measure with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np

Policy: TypeAlias = Callable[[Any], Any]
"""``policy(observation) -> action``."""


@dataclass
class Outcome:
    """How an episode went, or goes.

    Attributes:
        success: ``is_success`` at its last step.
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
        success_rate: Share of episodes with ``is_success`` at their last step.
        mean_return: Sum of rewards.
        mean_length: Steps.
    """

    success_rate: float
    mean_return: float
    mean_length: float


def play_episode(
    env: gym.Env[Any, Any],
    policy: Policy,
    seed: int | None = None,
    watch: Callable[[Outcome], None] = lambda outcome: None,
) -> Outcome:
    """Play one whole episode.

    Args:
        env: An environment that tells ``is_success`` in its infos, and whose episodes end.
        policy: What acts.
        seed: Of the reset.
        watch: Called after the reset and after each step.

    Raises:
        ValueError: The episode ends without ``is_success``.
    """
    observation, info = env.reset(seed=seed)
    outcome, done = Outcome(bool(info.get("is_success", False))), False
    watch(outcome)
    while not done:
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        done = terminated or truncated
        if done and "is_success" not in info:
            raise ValueError(f"info has no 'is_success' at the end of an episode, only {sorted(info)}")
        outcome = Outcome(
            bool(info.get("is_success", False)), outcome.total + float(reward), outcome.length + 1
        )
        watch(outcome)
    return outcome


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
    outcomes = [astuple(play_episode(env, policy, seed if i == 0 else None)) for i in range(episodes)]
    return Evaluation(*np.mean(outcomes, axis=0).tolist())
