"""Evidence: the recorded run of an environment, and all values derived from it.

Rules read the evidence and nothing else. A derived value is computed once, at its first use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from her_wrappers.checker.buffer_calls import BufferCalls
from her_wrappers.checker.goals import shapes, stack
from her_wrappers.checker.pairs import Pair, relabeled_pairs
from her_wrappers.checker.probe import Answer, Probe
from her_wrappers.checker.rollout import Rollout
from her_wrappers.checker.values import close
from her_wrappers.goal_interface import GOAL_KEYS
from her_wrappers.success_flag import flag_of
from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.checker.experiments import StateChange
    from her_wrappers.checker.replicas import Divergence
    from her_wrappers.checker.rollout import ResetRecord, StepRecord

BATCH_SIZES = (2, 3, 7)

INFO_FORMS = ("a list of the steps' infos", "a list of empty dicts", "an empty dict", "None")
"""Forms of the info argument of a batch, the most common first: Stable-Baselines3 passes the first two."""

NO_GOALS = "the observations have not both goals in one shape"


@dataclass(eq=False)
class Evidence:
    """The recorded run of one environment, and the outcomes of the experiments.

    Attributes:
        env: The environment.
        observation_space: Observation space of one environment.
        rollout: Everything that the environment returned; for a vector environment, split into its
            environments.
        vector_rollout: Everything that a vector environment returned, as batches; empty for a single
            environment.
        reward: Probe of ``compute_reward``, or None.
        terminated: Probe of ``compute_terminated``, or None.
        seed: Seed of the random choices of the evidence.
        state: Arrays inside the environment right after the last step, by name.
        replica: A further environment for experiments, or None.
        compared: Whether the rollout was replayed on a replica.
        divergence: First difference between the environment and a replica.
        side_effect: First difference to a replica on which ``compute_reward`` was called between the steps.
        reset_divergence: First difference between the first reset and a second one with the same seed.
        rerun_divergence: First difference between the rollout and a replica that was used before.
        options_divergence: First difference between two resets with the same seed and options.
        state_changes: Answers of goal functions that differ from earlier answers to the same arguments.
        seeded_by: Calls that seed a global random generator.
        rows_again: The rewards of `rows`, computed again at once, several times.
        later_rows: Rewards of the relabeled pairs after further steps and resets.
        relabels: Whether to try goals other than the recorded ones.
        spaces_replaced: Names of the space attributes that were replaced since the first reset.
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
    seeded_by: list[str] = field(default_factory=list)
    rows_again: list[list[Answer]] = field(default_factory=list)
    later_rows: list[Answer] | None = None
    relabels: bool = True
    spaces_replaced: list[str] = field(default_factory=list)

    @property
    def steps(self) -> list[StepRecord]:
        """All steps of the rollout."""
        return self.rollout.steps

    @cached_property
    def has_goals(self) -> bool:
        """Whether space and observations all have the three goal keys, and all goals one shape."""
        space = self.observation_space
        if not isinstance(space, spaces.Dict) or not set(GOAL_KEYS) <= space.spaces.keys():
            return False
        observations = [record.observation for record in self.rollout.records]
        observations += [step.before for step in self.steps[:1]]
        found = [_goal_shapes(observation) for observation in observations]
        return all(one is not None and one == found[0] for one in found)

    @cached_property
    def recomputed(self) -> list[Answer]:
        """``compute_reward`` of each step's next achieved goal, desired goal and info."""
        if self.reward is None or not self.has_goals:
            return []
        return [call_with(self.reward, step) for step in self.steps]

    @cached_property
    def pairs(self) -> list[Pair]:
        """Pairs of goals to relabel with."""
        if self.reward is None or not self.steps or not (self.relabels and self.has_goals):
            return []
        return relabeled_pairs(self.steps, self.reward, np.random.default_rng(self.seed))

    @cached_property
    def rows(self) -> list[Answer]:
        """``compute_reward`` of the relabeled pairs, one by one."""
        return self.call_rows()

    def call_rows(self) -> list[Answer]:
        """Call ``compute_reward`` with each relabeled pair."""
        if self.reward is None:
            return []
        return [self.reward(pair.achieved, pair.desired, pair.info) for pair in self.pairs]

    def batches(self) -> list[list[int]]:
        """Return the batches of relabeled pairs to try, as indices: one of each size, and all."""
        ends = np.cumsum([0, *BATCH_SIZES])
        cuts = [list(range(ends[i], ends[i + 1])) for i in range(len(BATCH_SIZES))]
        everything = list(range(len(self.pairs)))
        return [cut for cut in cuts if cut[-1] < len(self.pairs)] + [everything]

    def batch(self, rows: Sequence[int], form: str | None = None) -> tuple[Any, Any, Any]:
        """Return the goals of several relabeled pairs, or none, and the info in one of its forms."""
        pairs = [self.pairs[i] for i in rows]
        achieved, desired = (
            map_tree(lambda leaves: leaves[: len(pairs)], stack(goals))
            for goals in zip(
                *((pair.achieved, pair.desired) for pair in pairs or self.pairs[:1]), strict=True
            )
        )
        return achieved, desired, info_of(pairs, form or self.info_form or INFO_FORMS[0])

    def call_batch(self, function: Probe, rows: Sequence[int], form: str) -> Answer:
        """Call a goal function with several relabeled pairs, or none, and the info in one of its forms."""
        return function(*self.batch(rows, form))

    @cached_property
    def form_answers(self) -> dict[str, Answer]:
        """``compute_reward`` of two pairs, with the info in each of its forms."""
        if self.reward is None or len(self.pairs) < 2:
            return {}
        return {form: self.call_batch(self.reward, [0, 1], form) for form in INFO_FORMS}

    @cached_property
    def info_form(self) -> str | None:
        """The first form of the info argument with which ``compute_reward`` takes a batch, or None."""
        return next((form for form, answer in self.form_answers.items() if not answer.error), None)

    @cached_property
    def batch_answers(self) -> list[tuple[list[int], Answer]]:
        """``compute_reward`` of batches of relabeled pairs, with the pairs' indices."""
        if self.reward is None or not self.relabels or self.info_form is None:
            return []
        return [(rows, self.call_batch(self.reward, rows, self.info_form)) for rows in self.batches()]

    @cached_property
    def buffer_calls(self) -> BufferCalls | None:
        """Answers to calls as replay buffers make them, or None where ``compute_reward`` takes no batch."""
        return BufferCalls.of(self) if self.batch_answers else None

    @cached_property
    def reward_values(self) -> list[float]:
        """The different finite values that ``compute_reward`` gave, up to three of them."""
        values: list[float] = []
        for answer in [*self.recomputed, *self.rows]:
            number = answer.number
            if number is not None and np.isfinite(number) and not any(close(number, v) for v in values):
                values.append(number)
                if len(values) == 3:
                    break
        return values

    @cached_property
    def reward_scale(self) -> float:
        """The largest finite absolute reward that ``compute_reward`` gave for a step."""
        numbers = [abs(answer.number) for answer in self.recomputed if answer.number is not None]
        return max(filter(np.isfinite, numbers), default=0.0)

    @property
    def is_sparse(self) -> bool:
        """Whether rewards take exactly two values."""
        return len(self.reward_values) == 2

    @cached_property
    def success_reward(self) -> float | None:
        """The reward of a reached goal: that of a goal with itself."""
        numbers = [row.number for row, pair in zip(self.rows, self.pairs, strict=True) if pair.is_self]
        return max((number for number in numbers if number is not None), default=None)

    @cached_property
    def reached(self) -> list[bool]:
        """Whether each step reached its goal, by the reward of a sparse task, else by the success flag."""
        if self.is_sparse and self.success_reward is not None:
            return [
                answer.number is not None and close(answer.number, self.success_reward)
                for answer in self.recomputed
            ]
        return [flag_of(step.info) is True for step in self.steps]

    def is_solved(self, record: ResetRecord) -> bool:
        """Whether an episode began with its goal reached."""
        flag = flag_of(record.info)
        if flag is not None or not self.is_sparse:
            return flag is True
        return self.is_rewarded_as_success(record)

    def is_rewarded_as_success(self, record: ResetRecord) -> bool:
        """Whether ``compute_reward`` gives its best for the goals of a reset."""
        if self.reward is None or self.success_reward is None:
            return False
        number = call_with(self.reward, record).number
        return number is not None and close(number, self.success_reward)

    def missing(self, need: str) -> str:
        """Return why something that a rule needs is missing, or an empty text."""
        reason: str = NEEDS[need](self)
        return reason


def _goal_shapes(observation: Any) -> Any:
    """Return the shapes of both goals of an observation, or None if goals are missing or differ in shape."""
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


NEEDS: dict[str, Any] = {
    "goals": lambda evidence: "" if evidence.has_goals else NO_GOALS,
    "steps": lambda evidence: "" if evidence.steps else "no step was taken",
    "reward": _missing_reward,
    "batch": lambda evidence: (
        _missing_reward(evidence) or ("" if evidence.info_form else "compute_reward takes no batch")
    ),
    "later": lambda evidence: (
        "" if evidence.later_rows else "compute_reward could not be called a second time"
    ),
    "success": lambda evidence: (
        _missing_reward(evidence)
        or ("" if any(evidence.reached) else f"no success was seen in {len(evidence.steps)} steps")
    ),
    "sparse": lambda evidence: (
        _missing_reward(evidence) or ("" if evidence.is_sparse else "rewards do not take exactly two values")
    ),
    "replica": lambda evidence: (
        "" if evidence.compared else "no second environment of this kind could be made"
    ),
    "ended": lambda evidence: (
        "" if evidence.rollout.ended_episodes else f"no episode ended in {len(evidence.steps)} steps"
    ),
}
"""The needs of rules, with functions that return why the evidence does not meet them."""


def call_with(function: Probe, step: ResetRecord | StepRecord) -> Answer:
    """Call a goal function with the goals and the info of one step or reset."""
    goals = step.observation
    return function(goals["achieved_goal"], goals["desired_goal"], step.info)


def info_of(pairs: Sequence[Pair], form: str) -> Any:
    """Return the info argument of a batch in one of `INFO_FORMS`."""
    return {
        INFO_FORMS[0]: [pair.info for pair in pairs],
        INFO_FORMS[1]: [{} for _ in pairs],
        INFO_FORMS[2]: {},
        INFO_FORMS[3]: None,
    }[form]
