"""Collecting evidence: run the environment by a budget of steps, then experiment."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from her_wrappers.checker.evidence import Evidence
from her_wrappers.checker.experiments import repeat_calls, replay_on_replicas
from her_wrappers.checker.policies import random_policy, repeating_policy, seeking_policy
from her_wrappers.checker.probe import probe
from her_wrappers.checker.replicas import AnyEnv, EnvReplicator
from her_wrappers.checker.rollout import InterruptedRunError, Rollout, RolloutCollector
from her_wrappers.checker.values import arrays_in
from her_wrappers.checker.vector import VectorRolloutCollector, split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from her_wrappers.checker.rollout import Policy

EPISODE_CAP = 0.3
"""An episode that does not end by itself is left after this share of the budget."""


@dataclass(frozen=True)
class Budget:
    """Steps, time, policy and seed of a run.

    Attributes:
        max_steps: Steps of the environment under test; replicas take up to 25 % more, and 80 at least.
        max_seconds: Time after which the run is cut off, or None.
        policy: Policy of the user, or None.
        reset_options: Every second episode is reset with the next of these.
        seed: Seed of the first reset and of all random choices.
        on_step: Called after each step.
    """

    max_steps: int
    max_seconds: float | None = None
    policy: Policy | None = None
    reset_options: Sequence[dict[str, Any]] = ()
    seed: int = 0
    on_step: Callable[[], None] = field(default=lambda: None)


def collect(env: AnyEnv, replicator: EnvReplicator, budget: Budget) -> Evidence:
    """Run an environment and return the evidence.

    Args:
        env: A single or a vector environment.
        replicator: Makes further environments like it.
        budget: Steps, time, policy and seed of the run.
    """
    vector = isinstance(env, gym.vector.VectorEnv)
    width = env.num_envs if vector else 1
    collector = (VectorRolloutCollector if vector else RolloutCollector)(
        env,
        seed=budget.seed,
        reset_options=budget.reset_options,
        episode_cap=max(1, int(EPISODE_CAP * budget.max_steps) // width),
        max_seconds=budget.max_seconds,
        on_step=budget.on_step,
    )
    spaces_watch = _SpacesWatch(env)
    with contextlib.suppress(InterruptedRunError):
        _run_phases(collector, env, replace(budget, max_steps=max(4, budget.max_steps // width)))
    evidence = Evidence(
        env,
        env.single_observation_space if vector else env.observation_space,
        split(collector.rollout, env) if vector else collector.rollout,
        probe(env, "compute_reward"),
        probe(env, "compute_terminated"),
        seed=budget.seed,
        vector_rollout=collector.rollout if vector else Rollout(),
        state=arrays_in(env.unwrapped),
        spaces_replaced=spaces_watch.replaced(),
    )
    replay_on_replicas(evidence, collector.rollout, replicator, budget.reset_options)
    if collector.rollout.failure is None and collector.rollout.steps:
        repeat_calls(evidence, collector.rollout.resets[0])
    return evidence


def _run_phases(collector: RolloutCollector, env: AnyEnv, budget: Budget) -> None:
    """Spend the budget on policies that reach different states.

    Raises:
        InterruptedRunError: The environment raised, or time or memory ran out.
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
    seek = (
        random if isinstance(env, gym.vector.VectorEnv) else _seeking(collector.rollout, space, rng, random)
    )
    collector.run(seek, total // 4)


def _seeking(rollout: Rollout, space: gym.Space[Any], rng: np.random.Generator, otherwise: Policy) -> Policy:
    """Return a policy that steers to the goal, or the other one where goals cannot be modelled."""
    broken = (IndexError, KeyError, TypeError, ValueError, np.linalg.LinAlgError)
    try:
        seek = seeking_policy(rollout, space, rng)
    except broken:
        return otherwise
    if seek is None:
        return otherwise

    def policy(observation: Any) -> Any:
        try:
            action = seek(observation)
        except broken:
            return otherwise(observation)
        # A goal of NaN gives an action of NaN, which must not reach a simulator or a robot.
        return action if np.isfinite(action).all() and space.contains(action) else otherwise(observation)

    return policy


class _SpacesWatch:
    """The space objects of an environment, to detect that they are replaced."""

    def __init__(self, env: AnyEnv) -> None:
        self._env = env
        self._before = self._now()

    def _now(self) -> dict[str, Any]:
        return {name: getattr(self._env, name) for name in ("observation_space", "action_space")}

    def replaced(self) -> list[str]:
        """Return the names of the spaces that were replaced."""
        return [name for name, space in self._now().items() if space is not self._before[name]]
