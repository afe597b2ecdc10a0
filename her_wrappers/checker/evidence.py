"""Evidence: the recorded run of an environment, and the values derived from it.

Rules read nothing but the evidence. Each derived value is computed at its first use.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from her_wrappers.checker.buffer_calls import BufferCalls
from her_wrappers.checker.goals import shapes, stack
from her_wrappers.checker.pairs import Pair, relabeled_pairs
from her_wrappers.checker.probe import CallResult, Probe
from her_wrappers.checker.rollout import Rollout
from her_wrappers.checker.values import close
from her_wrappers.goal_interface import GOAL_KEYS
from her_wrappers.success_flag import flag_of
from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from her_wrappers.checker.experiments import StateChange
    from her_wrappers.checker.replicas import Divergence
    from her_wrappers.checker.rollout import ResetRecord, StepRecord

BATCH_SIZES = (2, 3, 7)
"""Sizes of the batches of relabeled pairs, in addition to the batch of all pairs."""

INFO_FORMS = ("a list of the steps' infos", "a list of empty dicts", "an empty dict", "None")
"""Forms of the info argument of a batch, the most common first; Stable-Baselines3 passes the first two."""

NO_GOALS = "the observations lack goals, or their goals differ in shape"


@dataclass(eq=False)
class Evidence:
    """The recorded run of an environment, and the results of the experiments.

    Attributes:
        env: The single or vectorized environment.
        observation_space: Observation space of one environment.
        rollout: Recorded resets and steps; batches are split into episodes of single environments.
        vector_rollout: Batches that a vector environment returned; empty for a single environment.
        reward: Probe of ``compute_reward``, or None.
        terminated: Probe of ``compute_terminated``, or None.
        seed: Seed of all random choices.
        state: Names and values of the arrays that attributes of the environment refer to after the last step.
        replica: Another environment of the same kind for experiments, or None.
        compared: Whether the rollout was replayed on a replica.
        divergence: First difference between the rollout and its replay on a replica, or None.
        side_effect: First difference between the rollout and a replay with calls of ``compute_reward``
            between its steps, or None.
        reset_divergence: First difference between two resets of ``env`` with the same seed, or None.
        rerun_divergence: First difference between the rollout and its replay on a used replica, or None.
        options_divergence: First difference between two resets with the same seed and options, or None.
        state_changes: Different results of goal functions for the same arguments.
        global_seeding: Calls that seed a global random generator, each with the name of the generator.
        repeated_results: `pair_results` computed several times more, without steps between the calls.
        later_results: `pair_results` computed again after further steps and resets; None if this failed.
        relabels: Whether the goal functions are called with relabeled pairs too.
        spaces_replaced: Names of the space attributes that were replaced during the run.
    """

    env: Any
    observation_space: spaces.Space[Any]
    rollout: Rollout
    reward: Probe | None
    terminated: Probe | None = None
    seed: int = 0
    vector_rollout: Rollout = field(default_factory=Rollout)
    state: list[tuple[str, np.ndarray]] = field(default_factory=list)
    replica: Any = None
    compared: bool = False
    divergence: Divergence | None = None
    side_effect: Divergence | None = None
    reset_divergence: Divergence | None = None
    rerun_divergence: Divergence | None = None
    options_divergence: Divergence | None = None
    state_changes: list[StateChange] = field(default_factory=list)
    global_seeding: list[tuple[str, str]] = field(default_factory=list)
    repeated_results: list[list[CallResult]] = field(default_factory=list)
    later_results: list[CallResult] | None = None
    relabels: bool = True
    spaces_replaced: list[str] = field(default_factory=list)

    @property
    def steps(self) -> list[StepRecord]:
        """The steps of the rollout."""
        return self.rollout.steps

    @cached_property
    def has_goals(self) -> bool:
        """Whether space and observations have the three goal keys, and all goals have the same shape."""
        space = self.observation_space
        if not isinstance(space, spaces.Dict) or not set(GOAL_KEYS) <= space.spaces.keys():
            return False
        observations = [record.observation for record in self.rollout.records]
        observations += [step.before for step in self.steps[:1]]
        shapes_found = [_goal_shapes(observation) for observation in observations]
        return all(found is not None and found == shapes_found[0] for found in shapes_found)

    @cached_property
    def recomputed(self) -> list[CallResult]:
        """Result of ``compute_reward`` for the next achieved goal, desired goal and info of each step."""
        if self.reward is None or not self.has_goals:
            return []
        return [call_at(self.reward, step) for step in self.steps]

    @cached_property
    def pairs(self) -> list[Pair]:
        """Relabeled pairs: pairs of an achieved and a desired goal with an info."""
        if self.reward is None or not self.steps or not (self.relabels and self.has_goals):
            return []
        return relabeled_pairs(self.steps, self.reward, np.random.default_rng(self.seed))

    @cached_property
    def pair_results(self) -> list[CallResult]:
        """Result of ``compute_reward`` for each relabeled pair alone."""
        return self.call_each_pair()

    def call_each_pair(self) -> list[CallResult]:
        """Call ``compute_reward`` with each relabeled pair alone."""
        if self.reward is None:
            return []
        return [self.reward(pair.achieved, pair.desired, pair.info) for pair in self.pairs]

    def batches(self) -> list[list[int]]:
        """Return batches as indices of `pairs`: one of each size in `BATCH_SIZES` that fits, and all."""
        ends = np.cumsum([0, *BATCH_SIZES])
        batches = [list(range(start, end)) for start, end in itertools.pairwise(ends)]
        return [batch for batch in batches if batch[-1] < len(self.pairs)] + [list(range(len(self.pairs)))]

    def batch(self, rows: Sequence[int], form: str | None = None) -> tuple[Any, Any, Any]:
        """Return achieved goals, desired goals and info of a batch of relabeled pairs, which may be empty.

        Args:
            rows: Indices of the pairs.
            form: Form of the info, from `INFO_FORMS`; by default, the first form that ``compute_reward``
                accepts.
        """
        pairs = [self.pairs[i] for i in rows]
        achieved, desired = (
            map_tree(lambda leaves: leaves[: len(pairs)], stack(goals))
            for goals in zip(
                *((pair.achieved, pair.desired) for pair in pairs or self.pairs[:1]), strict=True
            )
        )
        return achieved, desired, info_of(pairs, form or self.info_form or INFO_FORMS[0])

    def call_batch(self, function: Probe, rows: Sequence[int], form: str) -> CallResult:
        """Call a goal function with a batch of relabeled pairs, which may be empty.

        Args:
            function: Probe of the goal function.
            rows: Indices of the pairs.
            form: Form of the info, from `INFO_FORMS`.
        """
        return function(*self.batch(rows, form))

    @cached_property
    def info_form_results(self) -> dict[str, CallResult]:
        """Result of ``compute_reward`` for a batch of two pairs, for each form of the info argument."""
        if self.reward is None or len(self.pairs) < 2:
            return {}
        return {form: self.call_batch(self.reward, [0, 1], form) for form in INFO_FORMS}

    @cached_property
    def info_form(self) -> str | None:
        """First form of the info argument for which ``compute_reward`` accepts a batch, or None."""
        return next((form for form, result in self.info_form_results.items() if not result.error), None)

    @cached_property
    def batch_results(self) -> list[tuple[list[int], CallResult]]:
        """Indices of the pairs and result of ``compute_reward`` for each of `batches`."""
        if self.reward is None or not self.relabels or self.info_form is None:
            return []
        return [(rows, self.call_batch(self.reward, rows, self.info_form)) for rows in self.batches()]

    @cached_property
    def buffer_calls(self) -> BufferCalls | None:
        """Results of calls as in replay buffers, or None if ``compute_reward`` does not accept batches."""
        return BufferCalls.of(self) if self.batch_results else None

    @cached_property
    def reward_values(self) -> list[float]:
        """Different finite values that ``compute_reward`` returned, at most three of them."""
        values: list[float] = []
        for result in [*self.recomputed, *self.pair_results]:
            number = result.number
            if number is not None and np.isfinite(number) and not any(close(number, v) for v in values):
                values.append(number)
                if len(values) == 3:
                    break
        return values

    @cached_property
    def reward_scale(self) -> float:
        """Largest finite absolute value that ``compute_reward`` returned for a step."""
        numbers = [abs(result.number) for result in self.recomputed if result.number is not None]
        return max(filter(np.isfinite, numbers), default=0.0)

    @property
    def is_sparse(self) -> bool:
        """Whether ``compute_reward`` returned exactly two different values."""
        return len(self.reward_values) == 2

    @cached_property
    def success_reward(self) -> float | None:
        """Reward of a reached goal: the largest reward of two equal goals, or None if unknown."""
        numbers = [
            row.number for row, pair in zip(self.pair_results, self.pairs, strict=True) if pair.is_self
        ]
        return max((number for number in numbers if number is not None), default=None)

    @cached_property
    def reached(self) -> list[bool]:
        """Whether each step reached its goal, according to a sparse reward, else to the success flag."""
        if self.is_sparse and self.success_reward is not None:
            numbers = (result.number for result in self.recomputed)
            return [number is not None and close(number, self.success_reward) for number in numbers]
        return [flag_of(step.info) is True for step in self.steps]

    def starts_solved(self, record: ResetRecord) -> bool:
        """Whether the goal is reached at the reset in ``record``, by the success flag or the reward."""
        flag = flag_of(record.info)
        if flag is not None or not self.is_sparse:
            return flag is True
        return self.is_rewarded_as_success(record)

    def is_rewarded_as_success(self, record: ResetRecord) -> bool:
        """Whether ``compute_reward`` returns the reward of success for the goals of ``record``."""
        if self.reward is None or self.success_reward is None:
            return False
        number = call_at(self.reward, record).number
        return number is not None and close(number, self.success_reward)

    def missing(self, need: str) -> str:
        """Return the reason why a need of a rule, a key of `NEEDS`, is not met, or an empty text."""
        return NEEDS[need](self)


def _goal_shapes(observation: Any) -> Any:
    """Return the shape of both goals of an observation, or None if a goal is missing or shapes differ."""
    if not isinstance(observation, dict) or not set(GOAL_KEYS) <= observation.keys():
        return None
    try:
        achieved, desired = shapes(observation["achieved_goal"]), shapes(observation["desired_goal"])
    except ValueError:  # lists of unequal length are not arrays
        return None
    return achieved if achieved == desired else None


def _missing_reward(evidence: Evidence) -> str:
    if not evidence.has_goals:
        return NO_GOALS
    if evidence.reward is None:
        return "there is no compute_reward"
    return "" if evidence.steps else "no step was taken"


def _missing_replica(evidence: Evidence) -> str:
    if evidence.replica is None:
        return "no second environment of this kind could be made"
    return "the run was too short to be repeated on a second environment"


NEEDS: dict[str, Callable[[Evidence], str]] = {
    "goals": lambda evidence: "" if evidence.has_goals else NO_GOALS,
    "steps": lambda evidence: "" if evidence.steps else "no step was taken",
    "reward": _missing_reward,
    "batch": lambda evidence: (
        _missing_reward(evidence) or ("" if evidence.info_form else "compute_reward does not accept batches")
    ),
    "later": lambda evidence: (
        "" if evidence.later_results else "compute_reward could not be called a second time"
    ),
    "success": lambda evidence: (
        _missing_reward(evidence)
        or ("" if any(evidence.reached) else f"no success was seen in {len(evidence.steps)} steps")
    ),
    "sparse": lambda evidence: (
        _missing_reward(evidence) or ("" if evidence.is_sparse else "rewards do not take exactly two values")
    ),
    "replica": lambda evidence: "" if evidence.compared else _missing_replica(evidence),
    "ended": lambda evidence: (
        "" if evidence.rollout.ended_episodes else f"no episode ended in {len(evidence.steps)} steps"
    ),
}
"""Needs of rules, each with a function that returns why the evidence does not meet it, or an empty text."""


def call_at(function: Probe, record: ResetRecord | StepRecord) -> CallResult:
    """Call a goal function with the goals and the info of the step or reset in ``record``."""
    goals = record.observation
    return function(goals["achieved_goal"], goals["desired_goal"], record.info)


def info_of(pairs: Sequence[Pair], form: str) -> Any:
    """Return the info argument of a batch of pairs in one of `INFO_FORMS`."""
    infos: list[Any] = [[pair.info for pair in pairs], [{} for _ in pairs], {}, None]
    return infos[INFO_FORMS.index(form)]
