"""Experiments after the run: does a replica go on alike, and does asking for rewards matter or wear off?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.checker.policies import random_policy
from her_wrappers.checker.probe import Probe, probe
from her_wrappers.checker.replicas import compare_reset, replay
from her_wrappers.checker.rollout import Failure, describe

if TYPE_CHECKING:
    from her_wrappers.checker.evidence import Evidence
    from her_wrappers.checker.replicas import EnvReplicator
    from her_wrappers.checker.rollout import ResetRecord, Rollout, StepRecord

REPLAYED = 20
"""One step in so many is replayed on each replica."""

STEPS_BEFORE_ASKING_AGAIN = 3

TIMES_ASKED_AGAIN = 4
"""Noise at the threshold of success shows in every second answer there."""


def replay_on_replicas(evidence: Evidence, rollout: Rollout, replicator: EnvReplicator) -> None:
    """Compare with a replica beside which another is in use, and with one that is asked for rewards.

    The neighbour shows what environments share: a global generator, or state kept on the class.

    Args:
        evidence: Gets what is found.
        rollout: What the environment returned: evidence of a vector environment holds it taken apart.
        replicator: Makes the replicas.
    """
    steps = len(rollout.steps) // REPLAYED
    try:
        evidence.replica = asked = replicator.make()
        if asked is None or not steps:
            return
        replica, neighbour = replicator.make(), replicator.make()
        evidence.divergence = replay(rollout, replica, steps, _Neighbour(neighbour, evidence.seed + 1))
        evidence.compared = True
        reward = probe(asked, "compute_reward")
        if evidence.divergence is None and evidence.pairs and reward is not None:
            evidence.side_effect = replay(rollout, asked, steps, _Asking(evidence, reward))
    except Exception as error:
        evidence.rollout.failure = evidence.rollout.failure or Failure(
            "on a second environment", "it", describe(error)
        )


class _Neighbour:
    """Steps another environment of the same kind."""

    def __init__(self, env: Any, seed: int) -> None:
        self._env = env
        self._policy = random_policy(env.action_space, seed)
        self._env.reset(seed=seed)

    def __call__(self, step: StepRecord) -> None:
        _, _, terminated, truncated, _ = self._env.step(self._policy(None))
        if np.any(terminated) or np.any(truncated):
            self._env.reset()


class _Asking:
    """Asks for rewards of relabeled goals, one and many at a time."""

    def __init__(self, evidence: Evidence, reward: Probe) -> None:
        self._evidence = evidence
        self._reward = reward

    def __call__(self, step: StepRecord) -> None:
        pairs = self._evidence.pairs
        pair = pairs[step.t % len(pairs)]
        self._reward(pair.achieved, pair.desired, pair.info)
        self._evidence.ask_batch(self._reward, [0, 1, 2], self._evidence.info_form or "an empty dict")


def ask_again(evidence: Evidence, first: ResetRecord) -> None:
    """Ask for the same rewards after further steps, then repeat the first reset.

    Args:
        evidence: Gets what is found.
        first: The first reset.
    """
    env = evidence.env
    try:
        if evidence.pairs:
            # All that is asked at once must be asked before the environment moves on.
            _ = evidence.recomputed, evidence.rows, evidence.batch_answers
            evidence.rows_again = [evidence.ask_rows() for _ in range(TIMES_ASKED_AGAIN)]
            env.reset()
            policy = random_policy(env.action_space, evidence.seed)
            for _ in range(STEPS_BEFORE_ASKING_AGAIN):
                _, _, terminated, truncated, _ = env.step(policy(None))
                if np.any(terminated) or np.any(truncated):
                    env.reset()
            evidence.later_rows = evidence.ask_rows()
        evidence.reset_divergence = compare_reset(first, env)
    except Exception as error:
        evidence.rollout.failure = Failure("after the run", "reset() or step()", describe(error))
