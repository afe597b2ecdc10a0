"""Evidence: the recorded run of an environment and the results of the experiments, which the rules judge.

Only `experiments` and single rules call functions of the user; the derived values here do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from her_wrappers.checker.goal_calls import INFO_FORMS, CallResult, Pair, Probe, info_argument, stack
from her_wrappers.checker.records import ResetRecord, Rollout, StepRecord
from her_wrappers.checker.values import close
from her_wrappers.goal_interface import GOAL_KEYS
from her_wrappers.rules import RuleSet
from her_wrappers.success_flag import flag_of
from her_wrappers.trees import map_tree

GOAL_ENV_RULES = RuleSet()
"""The rules on environments, by code; importing `her_wrappers.checker.rules` adds them."""

rule = GOAL_ENV_RULES.rule

NO_GOALS = "the observations lack goals, or their goals differ in shape"


@dataclass(frozen=True)
class VectorRun:
    """The batches that a vector environment returned, and its properties.

    Attributes:
        batches: Rollout whose records contain batches.
        num_envs: Number of environments, N.
        mode: Autoreset mode from the metadata, else the mode that the infos suggest.
        is_declared: Whether the metadata have a valid autoreset mode.
        metadata_mode: The value of ``metadata["autoreset_mode"]``.
        observation_space: Observation space of the batches.
        has_copied_functions: Whether goal functions are those of a new environment in this process.
    """

    batches: Rollout
    num_envs: int
    mode: AutoresetMode
    is_declared: bool
    metadata_mode: Any
    observation_space: spaces.Space[Any]
    has_copied_functions: bool = False


@dataclass(frozen=True)
class Divergence:
    """The first difference between a rollout and its repetition.

    Attributes:
        place: Episode and step, or the options of a reset.
        at_reset: Whether the difference is in a reset.
        path: Path of the value that differs, such as ``"desired_goal[0]"``.
        original: Value in the rollout.
        repeated: Value in the repetition.
    """

    place: str
    at_reset: bool
    path: str
    original: Any
    repeated: Any


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


@dataclass(eq=False)
class Evidence:
    """The recorded run of an environment, and the results of the experiments in the order of their calls.

    Attributes:
        observation_space: Observation space of one environment.
        rollout: Recorded resets and steps; batches are split into episodes of single environments.
        reward: Probe of ``compute_reward``, or None.
        terminated: Probe of ``compute_terminated``, or None.
        seed: Seed of all random choices.
        vector: Batches of a vector environment, or None.
        reward_type: Value of the environment's attribute ``reward_type``, or None.
        state: Names and values of the arrays that attributes of the environment refer to after the last step.
        pairs: Relabeled pairs: pairs of an achieved and a desired goal with an info.
        no_replica: Reason why no other environment of the same kind was made, or an empty text.
        compared: Whether the rollout was replayed on a replica.
        divergence: First difference between the rollout and its replay on a replica, or None.
        side_effects: For each goal function that changes later steps, the first difference between the
            rollout and a replay with calls of the function between its steps.
        rerun_divergence: First difference between the rollout and its replay on a used replica, or None.
        options_divergence: First difference between two resets with the same seed and options, or None.
        state_changes: Different results of goal functions for the same arguments.
        global_seeding: Calls that seed a global random generator, each with the name of the generator.
        none_for_unknown_type: Whether ``compute_reward`` returns None after ``reward_type`` was replaced by
            an unknown name.
        recomputed: Result of ``compute_reward`` for the next achieved goal, desired goal and info of each
            step; empty without goals.
        reset_divergence: First difference between two resets of the environment with one seed, or None.
        other_start: Observation of a reset with another seed than the first, or None if this failed.
        new_generators: Names of random generators that a reset without a seed sets to the same state.
    """

    observation_space: spaces.Space[Any]
    rollout: Rollout
    reward: Probe | None = None
    terminated: Probe | None = None
    seed: int = 0
    vector: VectorRun | None = None
    reward_type: Any = None
    state: Sequence[tuple[str, np.ndarray]] = ()
    pairs: Sequence[Pair] = ()
    no_replica: str = "no second environment was made"
    compared: bool = False
    divergence: Divergence | None = None
    side_effects: dict[str, Divergence] = field(default_factory=dict)
    rerun_divergence: Divergence | None = None
    options_divergence: Divergence | None = None
    state_changes: Sequence[StateChange] = ()
    global_seeding: Sequence[tuple[str, str]] = ()
    none_for_unknown_type: bool = False
    recomputed: Sequence[CallResult] = ()
    reset_divergence: Divergence | None = None
    other_start: Any = None
    new_generators: Sequence[str] = ()

    @property
    def steps(self) -> list[StepRecord]:
        """The steps of the rollout."""
        return self.rollout.steps

    @property
    def functions(self) -> list[Probe]:
        """The goal functions that the environment has."""
        return [function for function in (self.reward, self.terminated) if function is not None]

    @property
    def pair_results(self) -> Sequence[CallResult]:
        """Result of ``compute_reward`` for each relabeled pair alone."""
        return self.reward.pair_results if self.reward else ()

    @property
    def info_form(self) -> str | None:
        """First form of the info argument for which ``compute_reward`` accepts a batch, or None."""
        return self.reward.info_form if self.reward else None

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

    def batch(self, rows: Sequence[int], form: str | None = None) -> tuple[Any, Any, Any]:
        """Return achieved goals, desired goals and info of a batch of relabeled pairs, which may be empty.

        Args:
            rows: Indices of the pairs.
            form: Form of the info, from `INFO_FORMS`; None for the first of them.
        """
        pairs = [self.pairs[i] for i in rows]
        achieved, desired = (
            map_tree(lambda leaf: leaf[: len(pairs)], stack(goals))  # (0, ...) for an empty batch
            for goals in zip(
                *((pair.achieved, pair.desired) for pair in pairs or self.pairs[:1]), strict=True
            )
        )
        return achieved, desired, info_argument(pairs, form or INFO_FORMS[0])

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
        results = zip(self.pair_results, self.pairs, strict=True)
        numbers = [result.number for result, pair in results if pair.is_self]
        return max((number for number in numbers if number is not None), default=None)

    @cached_property
    def reached(self) -> list[bool]:
        """Whether each step reached its goal, according to a sparse reward, else to the success flag."""
        if self.is_sparse and self.success_reward is not None:
            numbers = (result.number for result in self.recomputed)
            return [number is not None and close(number, self.success_reward) for number in numbers]
        return [flag_of(step.info) is True for step in self.steps]

    def is_rewarded_as_success(self, record: ResetRecord) -> bool:
        """Call ``compute_reward`` at a reset; return whether the result is the reward of success."""
        if self.reward is None or self.success_reward is None:
            return False
        number = self.reward.at(record).number
        return number is not None and close(number, self.success_reward)

    def missing(self, need: str) -> str:
        """Return the reason why a need of a rule, a key of `NEEDS`, is not met, or an empty text."""
        return NEEDS[need](self)


def _goal_shapes(observation: Any) -> Any:
    """Return the shape of both goals of an observation, or None if a goal is missing or shapes differ."""
    if not isinstance(observation, dict) or not set(GOAL_KEYS) <= observation.keys():
        return None
    try:
        achieved, desired = (map_tree(np.shape, observation[key]) for key in GOAL_KEYS[1:])
    except ValueError:  # lists of unequal length are not arrays
        return None
    return achieved if achieved == desired else None


def _without_reward(evidence: Evidence) -> str:
    if not evidence.has_goals:
        return NO_GOALS
    if evidence.reward is None:
        return "there is no compute_reward"
    return "" if evidence.steps else "no step was taken"


NEEDS: dict[str, Callable[[Evidence], str]] = {
    "goals": lambda evidence: "" if evidence.has_goals else NO_GOALS,
    "steps": lambda evidence: "" if evidence.steps else "no step was taken",
    "reward": _without_reward,
    "batch": lambda evidence: (
        _without_reward(evidence) or ("" if evidence.info_form else "compute_reward does not accept batches")
    ),
    "later": lambda evidence: (
        ""
        if evidence.reward and evidence.reward.later_results
        else "compute_reward could not be called a second time"
    ),
    "success": lambda evidence: (
        _without_reward(evidence)
        or ("" if any(evidence.reached) else f"no success was seen in {len(evidence.steps)} steps")
    ),
    "sparse": lambda evidence: (
        ""
        if evidence.has_goals and evidence.is_sparse  # GoalEnvChecker knows it without a step in this window
        else _without_reward(evidence) or "rewards do not take exactly two values"
    ),
    "replica": lambda evidence: (
        ""
        if evidence.compared
        else evidence.no_replica or "the run was too short to be repeated on a second environment"
    ),
    "ended": lambda evidence: (
        "" if evidence.rollout.ended_episodes else f"no episode ended in {len(evidence.steps)} steps"
    ),
}
"""Needs of rules, each with a function that returns why the evidence does not meet it, or an empty text."""
