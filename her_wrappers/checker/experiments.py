"""Experiments after the run: replays on replicas, and repeated calls of ``compute_reward``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from her_wrappers.checker.global_generators import find_global_seeding
from her_wrappers.checker.policies import random_policy
from her_wrappers.checker.probe import Probe, probe, same_answer
from her_wrappers.checker.replicas import Divergence, compare_reset, divergence_of, replay
from her_wrappers.checker.rollout import Failure
from her_wrappers.trees import copy_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.probe import Answer
    from her_wrappers.checker.replicas import EnvReplicator
    from her_wrappers.checker.rollout import ResetRecord, Rollout, StepRecord

REPLAYED = 20
"""One in 20 steps is replayed on each replica."""

MIN_CLOCK_STEPS = 80
"""Least number of steps between which the goal functions are called: enough for the end of some episodes."""

STEPS_BEFORE_REPEATING = 3

REPETITIONS = 4
"""Noise at the threshold of success shows in every second answer."""


@dataclass(frozen=True)
class StateChange:
    """A goal function's answer that differs from an earlier one to the same arguments."""

    function: str
    place: str
    first: Answer
    later: Answer


def replay_on_replicas(
    evidence: Evidence,
    rollout: Rollout,
    replicator: EnvReplicator,
    reset_options: Sequence[dict[str, Any]] = (),
) -> None:
    """Replay the rollout on a replica while another is in use, and on one whose ``compute_reward`` is called.

    The environment used at the same time reveals shared state: a global generator, or attributes of the
    class. A second replay on the same replica reveals state that survives a reset.

    Args:
        evidence: Evidence, to which the outcome is added.
        rollout: The rollout as the environment returned it; that of a vector environment is not split.
        replicator: Makes the replicas.
        reset_options: Options of the user, to be tried with a seed.
    """
    steps = len(rollout.steps) // REPLAYED
    try:
        evidence.replica = called = replicator.make()
        if called is None or not steps:
            return
        replica, neighbour = replicator.make(), replicator.make()
        evidence.divergence = replay(rollout, replica, steps, _Neighbour(neighbour, evidence.seed + 1))
        evidence.compared = True
        reward = probe(called, "compute_reward")
        if evidence.divergence is None and evidence.pairs and reward is not None:
            evidence.side_effect = replay(rollout, called, steps, _RewardCalls(evidence, reward))
        if evidence.divergence is None:
            evidence.rerun_divergence = replay(rollout, replica, steps, lambda step: None)
            evidence.options_divergence = reset_twice_with_options(evidence, neighbour, reset_options)
        evidence.state_changes = find_state_changes(evidence, neighbour, max(steps, MIN_CLOCK_STEPS))
        evidence.seeded_by = find_global_seeding(evidence, neighbour)
    except Exception as error:
        evidence.rollout.failure = evidence.rollout.failure or Failure(
            "on a second environment", "reset() or step()", error
        )


class _Neighbour:
    """Steps another environment of the same kind before each step."""

    def __init__(self, env: Any, seed: int) -> None:
        self._env = env
        self._policy = random_policy(env.action_space, seed)
        self._env.reset(seed=seed)

    def __call__(self, step: StepRecord) -> None:
        _, _, terminated, truncated, _ = self._env.step(self._policy(None))
        if np.any(terminated) or np.any(truncated):
            self._env.reset()


class _RewardCalls:
    """Computes rewards of relabeled goals before each step, of one goal and of a batch."""

    def __init__(self, evidence: Evidence, reward: Probe) -> None:
        self._evidence = evidence
        self._reward = reward

    def __call__(self, step: StepRecord) -> None:
        pairs = self._evidence.pairs
        pair = pairs[step.t % len(pairs)]
        self._reward(pair.achieved, pair.desired, pair.info)
        self._evidence.call_batch(self._reward, [0, 1, 2], self._evidence.info_form or "an empty dict")


def repeat_calls(evidence: Evidence, first: ResetRecord) -> None:
    """Compute the same rewards again, at once and after further steps, then repeat the first reset.

    Args:
        evidence: Evidence, to which the outcome is added.
        first: The first reset.
    """
    env = evidence.env
    try:
        if evidence.pairs:
            # These must be computed before the environment takes further steps.
            _ = evidence.recomputed, evidence.rows, evidence.batch_answers, evidence.buffer_calls
            evidence.rows_again = [evidence.call_rows() for _ in range(REPETITIONS)]
            env.reset()
            policy = random_policy(env.action_space, evidence.seed)
            for _ in range(STEPS_BEFORE_REPEATING):
                _, _, terminated, truncated, _ = env.step(policy(None))
                if np.any(terminated) or np.any(truncated):
                    env.reset()
            evidence.later_rows = evidence.call_rows()
        evidence.reset_divergence = compare_reset(first, env)
    except Exception as error:
        evidence.rollout.failure = Failure("after the run", "reset() or step()", error)


def reset_twice_with_options(
    evidence: Evidence, env: Any, reset_options: Sequence[dict[str, Any]]
) -> Divergence | None:
    """Reset one environment twice with a seed and options, and return the first difference, or None."""
    for options in [None, *reset_options, {}, {"no such option": 0}]:
        try:
            first = _first_observation(env, evidence.seed, options)
            env.step(random_policy(env.action_space, evidence.seed)(None))
            second = _first_observation(env, evidence.seed, options)
        except Exception:  # an environment may reject options that it does not know
            continue
        found = divergence_of(f"reset with options={options!r}", at_reset=True, here=first, there=second)
        if found:
            return None if options is None else found  # without options it is reported as not reproducible
    return None


def _first_observation(env: Any, seed: int, options: dict[str, Any] | None) -> Any:
    return copy_tree(env.reset(seed=seed, options=copy_tree(options))[0])


def find_state_changes(evidence: Evidence, env: Any, steps: int) -> list[StateChange]:
    """Call the goal functions during episodes, and again with the same arguments after a further reset."""
    functions = {name: probe(env, name) for name in ("compute_reward", "compute_terminated")}
    calls: list[tuple[str, str, Probe, tuple[Any, ...], Answer]] = []

    def call(place: str, observation: Any, info: Any, t: int) -> None:
        for arguments in _arguments_at(evidence, env, observation, info, t):
            calls.extend(
                (name, place, function, arguments, function(*arguments))
                for name, function in functions.items()
                if function is not None
            )

    if not evidence.pairs:
        return []
    policy = random_policy(env.action_space, evidence.seed)
    observation, info = env.reset(seed=evidence.seed)
    t = 0
    for _ in range(steps):
        call(f"step {t} of an episode", observation, info, t)
        observation, _, terminated, truncated, info = env.step(policy(None))
        t += 1
        if np.any(terminated) or np.any(truncated):
            call(f"the end of an episode after {t} steps", observation, info, t)
            (observation, info), t = env.reset(), 0
    env.reset(seed=evidence.seed + 1)
    answers = [(name, place, first, function(*args)) for name, place, function, args, first in calls]
    return [StateChange(*answer) for answer in answers if not same_answer(*answer[2:])]


def _arguments_at(
    evidence: Evidence, env: Any, observation: Any, info: Any, t: int
) -> list[tuple[Any, Any, Any]]:
    """Return arguments of goal functions: a relabeled pair, and the present goals of a single environment."""
    pair = evidence.pairs[t % len(evidence.pairs)]
    arguments = [(pair.achieved, pair.desired, pair.info)]
    if not isinstance(env, gym.vector.VectorEnv):
        achieved, desired = observation["achieved_goal"], observation["desired_goal"]
        arguments += [copy_tree((achieved, desired, info)), copy_tree((desired, desired, info))]
    return arguments
