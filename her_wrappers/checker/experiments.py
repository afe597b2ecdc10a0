"""Experiments after the run: replays on replicas, and repeated calls of ``compute_reward``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.checker.policies import random_policy
from her_wrappers.checker.probe import Probe, probe
from her_wrappers.checker.replicas import compare_reset, replay
from her_wrappers.checker.rollout import Failure

if TYPE_CHECKING:
    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.replicas import EnvReplicator
    from her_wrappers.checker.rollout import ResetRecord, Rollout, StepRecord

REPLAYED = 20
"""One in 20 steps is replayed on each replica."""

STEPS_BEFORE_REPEATING = 3

REPETITIONS = 4
"""Noise at the threshold of success shows in every second answer."""


def replay_on_replicas(evidence: Evidence, rollout: Rollout, replicator: EnvReplicator) -> None:
    """Replay the rollout on a replica while another is in use, and on one whose ``compute_reward`` is called.

    The environment used at the same time reveals shared state: a global generator, or attributes of the
    class.

    Args:
        evidence: Evidence, to which the outcome is added.
        rollout: The rollout as the environment returned it; that of a vector environment is not split.
        replicator: Makes the replicas.
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
            _ = evidence.recomputed, evidence.rows, evidence.batch_answers
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
