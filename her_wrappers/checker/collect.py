"""Collecting evidence: run the environment by a budget, replay on twins, and ask the goal functions."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from her_wrappers.checker.evidence import Evidence
from her_wrappers.checker.policies import random_policy, repeating_policy, seeking_policy
from her_wrappers.checker.probe import Probe
from her_wrappers.checker.tape import Failure, InterruptedRunError, Runner, Tape, describe
from her_wrappers.checker.twins import AnyEnv, TwinMaker, compare_start, replay
from her_wrappers.checker.values import arrays_in
from her_wrappers.checker.vector import VectorRunner, split
from her_wrappers.goal_interface import find_function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from her_wrappers.checker.tape import Policy, Start, Step

REPLAYED = 20
"""One step in so many is replayed on each twin."""

EPISODE_CAP = 0.3
"""An episode that does not end by itself is left after this share of the budget."""

STEPS_BEFORE_ASKING_AGAIN = 3

TIMES_ASKED_AGAIN = 4
"""Noise at the threshold of success shows in every second answer there."""


@dataclass(frozen=True)
class Budget:
    """How much to run.

    Attributes:
        max_steps: Steps of the environment under test; twins take up to three in twenty more.
        max_seconds: Time after which the run is cut off, or None.
        policy: The user's own, or None.
        reset_options: Every second episode is reset with the next of these.
        seed: Seed of everything.
        on_step: Called after each step.
    """

    max_steps: int
    max_seconds: float | None = None
    policy: Policy | None = None
    reset_options: Sequence[dict[str, Any]] = ()
    seed: int = 0
    on_step: Callable[[], None] = field(default=lambda: None)


def collect(env: AnyEnv, twins: TwinMaker, budget: Budget) -> Evidence:
    """Run an environment and return what was seen.

    Args:
        env: A single or a vector environment.
        twins: Makes further environments like it.
        budget: How much to run.
    """
    vector = isinstance(env, gym.vector.VectorEnv)
    width = env.num_envs if vector else 1
    runner = (VectorRunner if vector else Runner)(
        env,
        seed=budget.seed,
        reset_options=budget.reset_options,
        episode_cap=max(1, int(EPISODE_CAP * budget.max_steps)) // width,
        max_seconds=budget.max_seconds,
        on_step=budget.on_step,
    )
    spaces_watch = _SpacesWatch(env)
    with contextlib.suppress(InterruptedRunError):
        _run_phases(runner, env, replace(budget, max_steps=max(4, budget.max_steps // width)))
    evidence = Evidence(
        env,
        env.single_observation_space if vector else env.observation_space,
        split(runner.tape, env) if vector else runner.tape,
        probe(env, "compute_reward"),
        probe(env, "compute_terminated"),
        seed=budget.seed,
        vector_tape=runner.tape if vector else Tape(),
        state=arrays_in(env.unwrapped),
        spaces_replaced=spaces_watch.replaced(),
    )
    _replay_on_twins(evidence, runner.tape, twins, len(runner.tape.steps) // REPLAYED)
    if runner.tape.failure is None and runner.tape.steps:
        _ask_again(evidence, runner.tape.starts[0], env, budget.seed)
    return evidence


def _run_phases(runner: Runner, env: AnyEnv, budget: Budget) -> None:
    """Spend the budget on policies that find different things.

    Raises:
        InterruptedRunError: The run cannot go on.
    """
    rng = np.random.default_rng(budget.seed)
    space, total = env.action_space, budget.max_steps
    random = random_policy(space, budget.seed)
    if budget.policy is not None:
        runner.run(random, total // 3)
        runner.run(budget.policy, total - total // 3)
        return
    runner.run(random, total - 2 * (total // 4))
    runner.run(repeating_policy(space, rng), total // 4)
    seek = random if isinstance(env, gym.vector.VectorEnv) else _seeking(runner.tape, space, rng, random)
    runner.run(seek, total // 4)


def _seeking(tape: Tape, space: gym.Space[Any], rng: np.random.Generator, otherwise: Policy) -> Policy:
    """Return a policy that steers to the goal, and takes to another where the goals are broken."""
    broken = (IndexError, KeyError, TypeError, ValueError, np.linalg.LinAlgError)
    try:
        seek = seeking_policy(tape, space, rng) or otherwise
    except broken:
        return otherwise

    def policy(observation: Any) -> Any:
        try:
            return seek(observation)
        except broken:
            return otherwise(observation)

    return policy


class _SpacesWatch:
    """Remembers the space objects of an environment, to see whether they are replaced."""

    def __init__(self, env: AnyEnv) -> None:
        self._env = env
        self._before = self._now()

    def _now(self) -> dict[str, Any]:
        return {name: getattr(self._env, name) for name in ("observation_space", "action_space")}

    def replaced(self) -> list[str]:
        """Return the names of the spaces that are other objects than at first."""
        return [name for name, space in self._now().items() if space is not self._before[name]]


def probe(env: AnyEnv, name: str) -> Probe | None:
    """Return a probe of an environment's goal function, or None where it has no such function."""
    function = find_function(env, name)
    return Probe(function) if callable(function) else None


def _replay_on_twins(evidence: Evidence, tape: Tape, twins: TwinMaker, steps: int) -> None:
    """Compare with a twin beside which another is in use, and with one that is asked for rewards.

    The neighbour shows what environments share: a global generator, or state kept on the class.
    """
    try:
        evidence.twin = asked = twins.make()
        if asked is None or not steps:
            return
        twin, neighbour = twins.make(), twins.make()
        evidence.divergence = replay(tape, twin, steps, _Neighbour(neighbour, evidence.seed + 1))
        evidence.compared = True
        reward = probe(asked, "compute_reward")
        if evidence.divergence is None and evidence.pairs and reward is not None:
            evidence.side_effect = replay(tape, asked, steps, _Asking(evidence, reward))
    except Exception as error:
        evidence.tape.failure = evidence.tape.failure or Failure(
            "on a second environment", "it", describe(error)
        )


class _Neighbour:
    """Steps another environment of the same kind."""

    def __init__(self, env: Any, seed: int) -> None:
        self._env = env
        self._policy = random_policy(env.action_space, seed)
        self._env.reset(seed=seed)

    def __call__(self, step: Step) -> None:
        _, _, terminated, truncated, _ = self._env.step(self._policy(None))
        if np.any(terminated) or np.any(truncated):
            self._env.reset()


class _Asking:
    """Asks for rewards of relabeled goals, one and many at a time."""

    def __init__(self, evidence: Evidence, reward: Probe) -> None:
        self._evidence = evidence
        self._reward = reward

    def __call__(self, step: Step) -> None:
        pairs = self._evidence.pairs
        pair = pairs[step.t % len(pairs)]
        self._reward(pair.achieved, pair.desired, pair.info)
        self._evidence.ask_batch(self._reward, [0, 1, 2], self._evidence.info_form or "an empty dict")


def _ask_again(evidence: Evidence, first: Start, env: AnyEnv, seed: int) -> None:
    """Ask for the same rewards after further steps, then reset with the first seed."""
    try:
        if evidence.pairs:
            # All that is asked at once must be asked before the environment moves on.
            _ = evidence.recomputed, evidence.rows, evidence.batch_answers
            evidence.rows_again = [evidence.ask_rows() for _ in range(TIMES_ASKED_AGAIN)]
            env.reset()
            policy = random_policy(env.action_space, seed)
            for _ in range(STEPS_BEFORE_ASKING_AGAIN):
                _, _, terminated, truncated, _ = env.step(policy(None))
                if np.any(terminated) or np.any(truncated):
                    env.reset()
            evidence.later_rows = evidence.ask_rows()
        evidence.reset_divergence = compare_start(first, env)
    except Exception as error:
        evidence.tape.failure = Failure("after the run", "reset() or step()", describe(error))
