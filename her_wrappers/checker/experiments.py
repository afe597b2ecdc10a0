"""Experiments after the run: replays on replicas, and repeated calls of the goal functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from her_wrappers.checker.exceptions import FailedCall
from her_wrappers.checker.global_generators import find_global_seeding
from her_wrappers.checker.policies import random_policy
from her_wrappers.checker.probe import Probe, probe, same_result
from her_wrappers.checker.replicas import Divergence, compare_reset, divergence_of, replay
from her_wrappers.trees import copy_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.probe import CallResult
    from her_wrappers.checker.replicas import EnvReplicator
    from her_wrappers.checker.rollout import Policy, ResetRecord, Rollout, StepRecord

REPLAY_DIVISOR = 20
"""Each replay repeats the first twentieth of the steps of the rollout."""

MIN_CLOCK_STEPS = 80
"""Smallest number of steps in `find_state_changes`, in which short episodes end."""

STEPS_BEFORE_REPEATING = 3
"""Number of steps between two calls of ``compute_reward`` with the same arguments."""

REPETITIONS = 4
"""Number of immediate repetitions; noise at the success threshold changes about half of the results."""


@dataclass(frozen=True)
class StateChange:
    """Two different results of a goal function for the same arguments.

    Attributes:
        function: Name of the goal function.
        place: Time of the first call, for messages.
        first: Result of the first call.
        later: Result of the later call.
    """

    function: str
    place: str
    first: CallResult
    later: CallResult


def replay_on_replicas(
    evidence: Evidence,
    rollout: Rollout,
    replicator: EnvReplicator,
    reset_options: Sequence[dict[str, Any]] = (),
) -> None:
    """Replay the beginning of the rollout on replicas, and store the differences in the evidence.

    The first replay takes place while another replica takes steps, which reveals shared state, such as a
    global generator or class attributes. A second replay on the same replica reveals state that survives a
    reset. A replay with calls of ``compute_reward`` between the steps reveals side effects of these calls.
    These two are left out if the first replay differs. Further experiments search for resets whose options
    disable the seed, for goal functions that depend on the state, and for seeded global generators.

    Args:
        evidence: Evidence to extend.
        rollout: Rollout as the environment returned it; batches for a vector environment.
        replicator: Makes the replicas.
        reset_options: Options of ``reset`` from the user, see `reset_twice_with_options`.
    """
    steps = len(rollout.steps) // REPLAY_DIVISOR
    try:
        evidence.replica = called = replicator.make()
        if called is None or not steps:
            return
        replica, concurrent = replicator.make(), replicator.make()
        evidence.divergence = replay(rollout, replica, steps, _ConcurrentEnv(concurrent, evidence.seed + 1))
        evidence.compared = True
        reward = probe(called, "compute_reward")
        if evidence.divergence is None and evidence.pairs and reward is not None:
            evidence.side_effect = replay(rollout, called, steps, _RewardCalls(evidence, reward))
        if evidence.divergence is None:
            evidence.rerun_divergence = replay(rollout, replica, steps, lambda step: None)
            evidence.options_divergence = reset_twice_with_options(evidence, concurrent, reset_options)
        evidence.state_changes = find_state_changes(evidence, concurrent, max(steps, MIN_CLOCK_STEPS))
        evidence.global_seeding = find_global_seeding(evidence, concurrent, replicator.make)
    except Exception as error:
        evidence.rollout.failure = evidence.rollout.failure or FailedCall(
            "on a second environment", "reset() or step()", error
        )


class _ConcurrentEnv:
    """Steps another environment of the same kind before each replayed step."""

    def __init__(self, env: Any, seed: int) -> None:
        self._env = env
        self._policy = random_policy(env.action_space, seed)
        self._env.reset(seed=seed)

    def __call__(self, step: StepRecord) -> None:
        _step_or_reset(self._env, self._policy)


def _step_or_reset(env: Any, policy: Policy) -> None:
    """Take a step, and reset the environment if an episode ended."""
    _, _, terminated, truncated, _ = env.step(policy(None))
    if np.any(terminated) or np.any(truncated):
        env.reset()


class _RewardCalls:
    """Computes rewards of relabeled goals, of one pair and of a batch, before each replayed step."""

    def __init__(self, evidence: Evidence, reward: Probe) -> None:
        self._evidence = evidence
        self._reward = reward

    def __call__(self, step: StepRecord) -> None:
        pairs = self._evidence.pairs
        pair = pairs[step.t % len(pairs)]
        self._reward(pair.achieved, pair.desired, pair.info)
        self._evidence.call_batch(self._reward, [0, 1, 2], self._evidence.info_form or "an empty dict")


def repeat_calls(evidence: Evidence, first: ResetRecord) -> None:
    """Repeat calls of ``compute_reward``, at once and after further steps, then repeat the first reset.

    Args:
        evidence: Evidence to extend.
        first: Record of the first reset.
    """
    env = evidence.env
    try:
        if evidence.pairs:
            # These must be computed before the environment takes further steps.
            _ = evidence.recomputed, evidence.pair_results, evidence.batch_results, evidence.buffer_calls
            evidence.repeated_results = [evidence.call_each_pair() for _ in range(REPETITIONS)]
            env.reset()
            policy = random_policy(env.action_space, evidence.seed)
            for _ in range(STEPS_BEFORE_REPEATING):
                _step_or_reset(env, policy)
            evidence.later_results = evidence.call_each_pair()
        evidence.reset_divergence = compare_reset(first, env)
    except Exception as error:
        evidence.rollout.failure = FailedCall("after the run", "reset() or step()", error)


def reset_twice_with_options(
    evidence: Evidence, env: Any, reset_options: Sequence[dict[str, Any]]
) -> Divergence | None:
    """Return the first difference between two resets with the same seed and options, or None.

    Options that raise are skipped. The result is None if resets without options differ, which GE401 reports.

    Args:
        evidence: Evidence with the seed of the check.
        env: A replica.
        reset_options: Options of the user, tried before an empty dict and an unknown option.
    """
    for options in [None, *reset_options, {}, {"no such option": 0}]:
        try:
            first = _first_observation(env, evidence.seed, options)
            env.step(random_policy(env.action_space, evidence.seed)(None))
            second = _first_observation(env, evidence.seed, options)
        except Exception:  # an environment may reject options that it does not know
            continue
        found = divergence_of(
            f"reset with options={options!r}", at_reset=True, original=first, repeated=second
        )
        if found:
            return None if options is None else found  # a difference without options is a case of GE401
    return None


def _first_observation(env: Any, seed: int, options: dict[str, Any] | None) -> Any:
    return copy_tree(env.reset(seed=seed, options=copy_tree(options))[0])


def find_state_changes(evidence: Evidence, env: Any, steps: int) -> list[StateChange]:
    """Call the goal functions during episodes, and again with the same arguments after another reset.

    Args:
        evidence: Evidence with the seed of the check and the relabeled pairs.
        env: A replica.
        steps: Number of calls of ``step`` between which the goal functions are called.

    Returns:
        The calls with different results; empty without relabeled pairs.
    """
    functions = {name: probe(env, name) for name in ("compute_reward", "compute_terminated")}
    calls: list[tuple[str, str, Probe, tuple[Any, ...], CallResult]] = []

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
    results = [(name, place, first, function(*args)) for name, place, function, args, first in calls]
    return [StateChange(*result) for result in results if not same_result(*result[2:])]


def _arguments_at(
    evidence: Evidence, env: Any, observation: Any, info: Any, t: int
) -> list[tuple[Any, Any, Any]]:
    """Return arguments of goal functions: a relabeled pair, and the current goals of a single environment."""
    pair = evidence.pairs[t % len(evidence.pairs)]
    arguments = [(pair.achieved, pair.desired, pair.info)]
    if not isinstance(env, gym.vector.VectorEnv):
        achieved, desired = observation["achieved_goal"], observation["desired_goal"]
        arguments += [copy_tree((achieved, desired, info)), copy_tree((desired, desired, info))]
    return arguments
