"""Collection of evidence: a run of the environment within a budget of steps, then experiments."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from her_wrappers.checker.evidence import Evidence
from her_wrappers.checker.experiments import repeat_calls, replay_on_replicas
from her_wrappers.checker.policies import random_policy, repeating_policy, steering_policy
from her_wrappers.checker.probe import probe
from her_wrappers.checker.replicas import AnyEnv, EnvReplicator
from her_wrappers.checker.rollout import InterruptedRunError, Rollout, RolloutCollector
from her_wrappers.checker.values import arrays_in
from her_wrappers.checker.vector import VectorRolloutCollector, split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from her_wrappers.checker.rollout import Policy

EPISODE_CAP = 0.3
"""An episode that does not end stops after this share of the budget."""

MODEL_ERRORS = (IndexError, KeyError, TypeError, ValueError, np.linalg.LinAlgError)
"""Errors that the steering policy can raise for the observations of a faulty environment."""


@dataclass(frozen=True)
class Budget:
    """Steps, time, policy and seed of a run.

    Attributes:
        max_steps: Number of steps of the environment under test, summed over the environments of a vector
            environment. Replicas take further steps, see `check_goal_env`.
        max_seconds: Time in seconds after which the run stops early, or None.
        policy: Function ``observation -> action`` of the user, or None.
        reset_options: Options of ``reset``, used in turn for every second episode.
        seed: Seed of the first reset and of all random choices.
        on_step: Function called after each step, such as the update of a progress bar.

    Raises:
        ValueError: ``max_seconds`` is neither None nor a positive number.
    """

    max_steps: int
    max_seconds: float | None = None
    policy: Policy | None = None
    reset_options: Sequence[dict[str, Any]] = ()
    seed: int = 0
    on_step: Callable[[], None] = field(default=lambda: None)

    def __post_init__(self) -> None:
        limit = self.max_seconds
        is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if limit is not None and not (is_number and 0 < limit < math.inf):
            raise ValueError(f"max_seconds must be a positive number of seconds or None, got {limit!r}")


def collect(env: AnyEnv, replicator: EnvReplicator, budget: Budget) -> Evidence:
    """Run an environment, do the experiments, and return the evidence.

    Args:
        env: A single or a vector environment.
        replicator: Makes further environments like ``env``.
        budget: Steps, time, policy and seed of the run.
    """
    vector = isinstance(env, gym.vector.VectorEnv)
    num_envs = env.num_envs if vector else 1
    space_objects = _space_objects(env)
    collector = (VectorRolloutCollector if vector else RolloutCollector)(
        env,
        seed=budget.seed,
        reset_options=budget.reset_options,
        episode_cap=max(1, int(EPISODE_CAP * budget.max_steps) // num_envs),
        max_seconds=budget.max_seconds,
        on_step=budget.on_step,
    )
    with contextlib.suppress(InterruptedRunError):
        run_phases(collector, env, replace(budget, max_steps=max(4, budget.max_steps // num_envs)))
    evidence = Evidence(
        env,
        env.single_observation_space if vector else env.observation_space,
        split(collector.rollout, env) if vector else collector.rollout,
        probe(env, "compute_reward"),
        probe(env, "compute_terminated"),
        seed=budget.seed,
        vector_rollout=collector.rollout if vector else Rollout(),
        state=arrays_in(env.unwrapped),
        spaces_replaced=[
            name for name, space in _space_objects(env).items() if space is not space_objects[name]
        ],
    )
    replay_on_replicas(evidence, collector.rollout, replicator, budget.reset_options)
    if collector.rollout.failure is None and collector.rollout.steps:
        repeat_calls(evidence, collector.rollout.resets[0])
    return evidence


def run_phases(collector: RolloutCollector, env: AnyEnv, budget: Budget) -> None:
    """Run several policies, which reach different states.

    Args:
        collector: Collector of ``env``.
        env: A single or a vector environment.
        budget: Policy and seed of the run; ``max_steps`` is the number of calls of ``step``.

    Raises:
        InterruptedRunError: The run stopped early.
    """
    rng = np.random.default_rng(budget.seed)
    space, total = env.action_space, budget.max_steps
    random = random_policy(space, budget.seed)
    if budget.policy is not None:
        collector.run(random, total // 3)
        collector.run(budget.policy, total - total // 3)
        return
    collector.run(random, total - 2 * (total // 4))
    collector.run(repeating_policy(space, rng), total // 4)
    is_vector = isinstance(env, gym.vector.VectorEnv)
    collector.run(random if is_vector else _steering(collector.rollout, space, rng, random), total // 4)


def _steering(rollout: Rollout, space: gym.Space[Any], rng: np.random.Generator, fallback: Policy) -> Policy:
    """Return a policy that steers to the goal, and calls ``fallback`` if steering gives no valid action."""
    try:
        steer = steering_policy(rollout, space, rng)
    except MODEL_ERRORS:
        return fallback
    if steer is None:
        return fallback

    def policy(observation: Any) -> Any:
        try:
            action = steer(observation)
        except MODEL_ERRORS:
            return fallback(observation)
        # A goal of NaN gives an action of NaN, which must not reach a simulator or a robot.
        return action if np.isfinite(action).all() and space.contains(action) else fallback(observation)

    return policy


def _space_objects(env: AnyEnv) -> dict[str, Any]:
    return {name: getattr(env, name) for name in ("observation_space", "action_space")}
