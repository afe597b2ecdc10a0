"""Evidence: the recorded run of an environment and the results of the experiments, which the rules judge.

The module `experiments` and a few rules call the user's functions; the properties of `Evidence` never do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from her_wrappers.checker.comparing import close
from her_wrappers.checker.goal_calls import INFO_FORMS, CallResult, Pair, Probe, info_argument, stack
from her_wrappers.checker.records import Divergence, ResetRecord, Rollout, StepRecord
from her_wrappers.data.trees import map_tree, take_rows
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.goals.success_flag import flag_of
from her_wrappers.rules import RuleSet

GOAL_ENV_RULES = RuleSet()
"""The rules on environments, by code; importing `her_wrappers.checker.rules` adds them."""

rule = GOAL_ENV_RULES.rule


@dataclass(frozen=True)
class VectorRun:
    """The batches that a vector environment returned."""

    batches: Rollout  # its records contain batches
    env: Any
    mode: AutoresetMode  # autoreset mode from the metadata, else the mode that the infos suggest
    # whether the goal functions belong to a new environment in this process, not to one under test
    has_copied_functions: bool = False


@dataclass(eq=False)
class Evidence:
    """The recorded run of an environment, and results of experiments with this environment and replicas."""

    observation_space: spaces.Space[Any]  # observation space of one environment
    rollout: Rollout  # recorded resets and steps; batches are split into episodes of single environments
    reward: Probe | None = None  # probe of ``compute_reward``, or None
    terminated: Probe | None = None  # probe of ``compute_terminated``, or None
    seed: int = 0  # seed of all random choices
    vector: VectorRun | None = None  # batches of a vector environment, or None
    reward_type: Any = None  # value of the environment's attribute ``reward_type``, or None
    state: Sequence[tuple[str, np.ndarray]] = ()  # arrays in attributes of the environment, with their names
    pairs: Sequence[Pair] = ()  # relabeled pairs: pairs of an achieved and a desired goal with an info
    # reason why the rollout was not replayed on a replica, or an empty text
    no_replica: str = "no second environment was made"
    # first difference between the rollout and its replay on a replica, or None
    divergence: Divergence | None = None
    # first difference between the rollout and its replay on a used replica, or None
    rerun_divergence: Divergence | None = None
    # first difference between two resets with the same seed and options, or None
    options_divergence: Divergence | None = None
    # calls that seed a global random generator, each with the name of the generator
    global_seeding: Sequence[tuple[str, str]] = ()
    # whether ``compute_reward`` returns None after ``reward_type`` was replaced by an unknown name
    none_for_unknown_type: bool = False
    # first difference between two resets of the environment with the same seed, or None
    reset_divergence: Divergence | None = None
    other_start: Any = None  # observation of a reset with another seed than the first, or None if this failed
    # names of random generators that each reset without a seed replaces by a generator in the same state
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
    def recomputed(self) -> Sequence[CallResult]:
        """Result of ``compute_reward`` for each step; empty without such a function or with invalid goals."""
        return self.reward.step_results if self.reward else ()

    @property
    def pair_results(self) -> Sequence[CallResult]:
        """Results of ``compute_reward``, called with one relabeled pair of goals at a time."""
        return self.reward.pair_results if self.reward else ()

    @property
    def info_form(self) -> str | None:
        """First of `INFO_FORMS` (forms of info) with which ``compute_reward`` accepts a batch, or None."""
        return self.reward.info_form if self.reward else None

    @cached_property
    def has_goals(self) -> bool:
        """Whether the space and all observations have the goal keys, and all goals have the same shape."""
        space = self.observation_space
        if not isinstance(space, spaces.Dict) or not set(OBSERVATION_KEYS) <= space.spaces.keys():
            return False
        observations = [record.observation for record in self.rollout.records]
        observations += [step.before for step in self.steps[:1]]
        shapes_found = [_goal_shapes(observation) for observation in observations]
        return all(found is not None and found == shapes_found[0] for found in shapes_found)

    def batch(self, rows: Sequence[int], form: str | None = None) -> tuple[Any, Any, Any]:
        """Return achieved goals, desired goals and infos of the relabeled pairs with indices ``rows``.

        ``form`` is the form of the infos, one of `INFO_FORMS`; None means the first of these.
        """
        chosen = np.array(rows, np.intp)
        achieved, desired = (take_rows(goals, chosen) for goals in self._stacked_goals)
        return achieved, desired, info_argument([self.pairs[i] for i in rows], form or INFO_FORMS[0])

    @cached_property
    def _stacked_goals(self) -> tuple[Any, Any]:
        """Achieved and desired goals of all P relabeled pairs, as trees of (P, ...) arrays."""
        return stack([pair.achieved for pair in self.pairs]), stack([pair.desired for pair in self.pairs])

    @cached_property
    def reward_values(self) -> list[float]:
        """Up to three different finite results of ``compute_reward``, for steps and for relabeled pairs."""
        return distinct(result.number for result in (*self.recomputed, *self.pair_results))

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
        """Reward of a reached goal: the largest reward of a pair of equal goals; None if it is unknown."""
        results = zip(self.pair_results, self.pairs, strict=True)
        numbers = [result.number for result, pair in results if pair.is_self]
        return max((number for number in numbers if number is not None), default=None)

    @cached_property
    def reached(self) -> list[bool]:
        """Whether each step reached its goal: by the rewards if they are sparse, else by the success flag."""
        if self.is_sparse and self.success_reward is not None:
            numbers = (result.number for result in self.recomputed)
            return [number is not None and close(number, self.success_reward) for number in numbers]
        return [flag_of(step.info) is True for step in self.steps]

    def is_rewarded_as_success(self, record: ResetRecord) -> bool:
        """Whether ``compute_reward`` returns the reward of success for the goals and the info of a reset."""
        if self.reward is None or self.success_reward is None:
            return False
        number = self.reward.at(record).number
        return number is not None and close(number, self.success_reward)

    def missing(self, need: str) -> str:
        """Return why the evidence does not meet ``need``, a key of `NEEDS`; an empty text if it does."""
        is_met, reason = NEEDS[need]
        return "" if is_met(self) else reason.format(steps=len(self.steps), no_replica=self.no_replica)


def distinct(numbers: Iterable[float | None]) -> list[float]:
    """Return up to three finite numbers that differ from each other by more than rounding."""
    values: list[float] = []
    for number in numbers:
        if number is not None and np.isfinite(number) and not any(close(number, each) for each in values):
            values.append(number)
            if len(values) == 3:
                break
    return values


def _goal_shapes(observation: Any) -> Any:
    """Return the common shape of both goals of an observation; None if one is missing or shapes differ."""
    if not isinstance(observation, dict) or not set(OBSERVATION_KEYS) <= observation.keys():
        return None
    try:
        achieved, desired = (map_tree(np.shape, observation[key]) for key in OBSERVATION_KEYS[1:])
    except ValueError:  # lists of unequal length are not arrays
        return None
    return achieved if achieved == desired else None


NEEDS: dict[str, tuple[Callable[[Evidence], bool], str]] = {
    "goals": (
        lambda evidence: evidence.has_goals,
        "the observations lack goals, or their goals differ in shape",
    ),
    "reward": (lambda evidence: evidence.reward is not None, "there is no compute_reward"),
    "steps": (lambda evidence: len(evidence.steps) > 0, "no step was taken"),
    "batches": (
        lambda evidence: evidence.info_form is not None,
        "compute_reward does not accept batches",
    ),
    "later": (
        lambda evidence: evidence.reward is not None and evidence.reward.is_called_later,
        "compute_reward could not be called a second time",
    ),
    "success": (lambda evidence: any(evidence.reached), "no success was seen in {steps} steps"),
    "sparse": (lambda evidence: evidence.is_sparse, "rewards do not take exactly two values"),
    "replica": (lambda evidence: not evidence.no_replica, "{no_replica}"),
    "ended": (lambda evidence: evidence.rollout.ended_episodes > 0, "no episode ended in {steps} steps"),
}
"""Needs of rules, by name: a function that tests the evidence, and the reason if a need is not met."""

REWARD_NEEDS = ("goals", "reward", "steps")
"""Needs (keys of `NEEDS`) of the rules that judge rewards."""

BATCH_NEEDS = (*REWARD_NEEDS, "batches")
"""Needs (keys of `NEEDS`) of the rules that judge rewards of batches."""
