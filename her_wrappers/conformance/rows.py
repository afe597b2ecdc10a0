"""DecodedRows: transitions of batches, with the episode and step that their values contain."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from her_wrappers.conformance.env import ACTION_SCALE, UNREACHED, ConformanceEnv, round_to_int
from her_wrappers.rules import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from her_wrappers.conformance.adapter import Terminations

BATCH_GOAL_KEYS = ("achieved_goal", "desired_goal", "next_achieved_goal", "next_desired_goal")
STATE_KEYS = ("observation", "next_observation")
SCALAR_KEYS = ("reward", "terminated")
OPTIONAL_KEYS = ("truncated", "discount", "index", "weight")
TOLERANCE = 1e-4
ASPECTS = ("transition", "goal", "original goal", "reward", "termination")

Values: TypeAlias = Any
"""A (B,) array; NumPy's operators are annotated to return Any."""


class BatchError(ValueError):
    """A batch breaks a rule, so that other rules cannot judge it.

    Args:
        code: Code of the rule that the batch breaks.
        message: The violation in one sentence.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_batch(batch: Any, env: ConformanceEnv, rows: int, *, terminations: bool) -> dict[str, np.ndarray]:
    """Return copies of the arrays of a batch.

    Args:
        batch: Result of `ReplayAdapter.sample`.
        env: Environment of the transitions.
        rows: Expected number of rows.
        terminations: Whether the key ``terminated`` is required.

    Raises:
        BatchError: The batch is not a dict, has no array of a required key, or has an array with the wrong
            shape or without numbers.
    """
    needed = (*STATE_KEYS, *BATCH_GOAL_KEYS, "action", "reward", *(("terminated",) if terminations else ()))
    if not isinstance(batch, dict):
        raise BatchError("HB002", f"the batch is a {type(batch).__name__}, not a dict")
    missing = [key for key in needed if key not in batch]
    if missing:
        raise BatchError("HB002", f"the batch has no {', '.join(missing)}")
    arrays = {}
    for key in (*needed, *OPTIONAL_KEYS):
        if key not in batch:
            continue
        space: Any = env.action_space
        if key in {*STATE_KEYS, *BATCH_GOAL_KEYS}:
            space = env.observation_space[key.removeprefix("next_")]
        shape = (rows,) if key in {*SCALAR_KEYS, *OPTIONAL_KEYS} else (rows, *space.shape)
        try:
            array = np.array(batch[key])
        except Exception as error:  # anything that the conversion of a user's object raises
            kind = type(batch[key]).__name__
            raise BatchError("HB003", f"{key} is a {kind} that is not an array: {error}") from error
        if array.shape != shape:
            raise BatchError("HB003", f"{key} has shape {array.shape} instead of {shape}")
        if array.dtype.kind not in "fiub":
            raise BatchError("HB003", f"{key} has dtype {array.dtype}, which is not a type of numbers")
        arrays[key] = array
    return arrays


class DecodedRows:
    """Transitions of several batches, concatenated.

    Args:
        env: Environment of the transitions.
        strategy: Goal selection strategy of the buffer.
        termination: Documented terminations of relabeled transitions.
        batches: The batches, as `read_batch` returns them.
        known_faults: Function that returns the aspects that are not judged, since they are wrong in a simpler
            scenario.
    """

    def __init__(
        self,
        env: ConformanceEnv,
        strategy: str,
        termination: Terminations | None,
        batches: Sequence[dict[str, np.ndarray]],
        known_faults: Callable[[], AbstractSet[str]] = set,
    ) -> None:
        self.env, self.strategy, self.termination = env, strategy, termination
        self._known_faults = known_faults
        self.columns = {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
        sizes = [len(batch["reward"]) for batch in batches]
        self.batch = np.repeat(np.arange(len(batches)), sizes)
        self.episode, self.step = round_to_int(self.columns["observation"][:, :2]).T
        self.next_episode, self.next_step = round_to_int(self.columns["next_observation"][:, :2]).T
        self.goal_episode, self.goal_code = env.decode(self.columns["desired_goal"])
        episodes = env.episodes
        self._lengths = np.array([each.length for each in episodes])
        self._crash = np.array([each.end == "crash" and each.is_complete for each in episodes])
        self._success = np.array([each.is_success for each in episodes])
        self._changing = np.array([each.changing for each in episodes])

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.batch)

    def of_episode(self, values: np.ndarray, episode: np.ndarray | None = None) -> Values:
        """Return the value of each row's episode, an arbitrary value if the episode was not added.

        Args:
            values: Values by episode number, as long as the number of added episodes.
            episode: (B,) episode numbers; by default those of the states.
        """
        episode = self.episode if episode is None else episode
        return values[np.clip(episode, 0, len(values) - 1)]

    @cached_property
    def transition(self) -> Values:
        """Number of each row's transition; no scenario has an episode of 64 steps or more."""
        return self.episode * 64 + self.step

    @cached_property
    def length(self) -> Values:
        """Length T of each row's episode."""
        return self.of_episode(self._lengths)

    @cached_property
    def is_last(self) -> Values:
        """Whether each row is the last step of its episode."""
        return self.step + 1 == self.length

    @cached_property
    def is_added(self) -> Values:
        """Whether each row is a transition that was added: state, action and next state of one step."""
        columns = self.columns
        added = (self.episode >= 0) & (self.episode < len(self._lengths))
        added &= (self.step >= 0) & (self.step < self.length)
        added &= (self.next_episode == self.episode) & (self.next_step == self.step + 1)
        action = self.episode + self.step / ACTION_SCALE
        added &= np.abs(columns["action"][:, 0] - action) < 0.5 / ACTION_SCALE
        added &= self._names(columns["achieved_goal"], self.step)
        code = np.where(self.of_episode(self._success) & self.is_last, UNREACHED, self.next_step)
        added &= self._names(columns["next_achieved_goal"], code)
        states = [columns[key][:, 2] == 0.5 for key in STATE_KEYS]
        return np.logical_and.reduce([added, *states])

    def _names(self, goals: np.ndarray, code: np.ndarray) -> Values:
        episode, step = self.env.decode(goals)
        return (episode == self.episode) & (step == code)

    @cached_property
    def relabeled(self) -> Values:
        """Whether the goal of each row differs from all desired goals of the row's own episode."""
        return (self.goal_code < UNREACHED) | ~self.is_own

    @cached_property
    def goal_step(self) -> Values:
        """Step number s of the state whose achieved goal is the goal of each relabeled row."""
        succeeded = self.of_episode(self._success, self.goal_episode) & (self.goal_code == UNREACHED)
        return np.where(succeeded, self.of_episode(self._lengths, self.goal_episode), self.goal_code)

    @cached_property
    def is_achieved(self) -> Values:
        """Whether each row's goal is an achieved goal of an episode that was added."""
        length = self.of_episode(self._lengths, self.goal_episode)
        known = (self.goal_episode >= 0) & (self.goal_episode < len(self._lengths))
        goals = self.env.encode(np.maximum(self.goal_episode, 0), np.maximum(self.goal_code, 0))
        close = np.isclose(self.columns["desired_goal"].astype(float), goals.astype(float), atol=1e-3)
        exists = (self.goal_step >= 0) & (self.goal_step <= length)
        return known & exists & close.reshape(len(self), -1).all(axis=1)

    @cached_property
    def is_own(self) -> Values:
        """Whether each row's goal is from its own episode."""
        return self.goal_episode == self.episode

    @cached_property
    def is_allowed(self) -> Values:
        """Whether each relabeled row has a goal that the strategy can select; True for original rows."""
        s, t = self.goal_step, self.step
        allowed = {
            "future": self.is_own & (s > t),
            "geometric": self.is_own & (s > t),
            "final": self.is_own & (s == self.length),
            "episode": self.is_own,
        }.get(self.strategy, np.ones(len(self), bool))
        return ~self.relabeled | (self.is_achieved & allowed)

    @cached_property
    def is_original_goal(self) -> Values:
        """Whether each original row has the desired goal of its step; True for relabeled rows."""
        changing = self.of_episode(self._changing)
        code = UNREACHED + np.where(changing, self.step // 2, 0)
        return self.relabeled | (self.is_own & (self.goal_code == code))

    @cached_property
    def infos(self) -> dict[str, np.ndarray]:
        """Columns of the infos of the rows' steps."""
        return {"cost": ConformanceEnv.cost(self.episode, self.step)}

    def rewards_for(self, achieved: Any, desired: Any) -> Values:
        """Return the (B,) rewards of B achieved and B desired goals, with the infos of the rows' steps."""
        return np.asarray(self.env.rewards(achieved, desired, self.infos), float)

    @cached_property
    def recomputed(self) -> Values:
        """Results of `compute_reward` for the next achieved goals and the desired goals of the rows."""
        return self.rewards_for(self.columns["next_achieved_goal"], self.columns["desired_goal"])

    @cached_property
    def recorded(self) -> Values:
        """Rewards of the rows' steps when they were added."""
        changing = self.of_episode(self._changing)
        code = UNREACHED + np.where(changing, (self.step + 1) // 2, 0)
        goals = self.env.encode(np.maximum(self.episode, 0), code)
        return self.rewards_for(self.columns["next_achieved_goal"], goals) + self.env.bonus

    def has_rewards(self, rewards: Any) -> Values:
        """Return whether the reward of each row equals its value in ``rewards``, up to TOLERANCE."""
        return np.abs(self.columns["reward"].astype(float) - rewards) <= TOLERANCE

    @cached_property
    def has_right_reward(self) -> Values:
        """Whether relabeled rows have the recomputed reward, and original rows the recorded reward."""
        return self.has_rewards(np.where(self.relabeled, self.recomputed, self.recorded))

    @cached_property
    def is_reached(self) -> Values:
        """Whether each row reaches its goal."""
        achieved, desired = self.columns["next_achieved_goal"], self.columns["desired_goal"]
        return np.asarray(self.env.compute_terminated(achieved, desired, None), bool)

    @cached_property
    def crashed(self) -> Values:
        """Whether each row is the last step of an episode with a goal-independent termination."""
        return self.is_last & self.of_episode(self._crash)

    @cached_property
    def recorded_termination(self) -> Values:
        """Terminations of the rows' steps when they were added."""
        return self.crashed | (self.is_last & self.of_episode(self._success))

    @cached_property
    def expected_termination(self) -> Values:
        """Termination of each row as the attribute ``termination`` of the adapter documents it."""
        if self.termination == "keep":
            return self.recorded_termination
        relabeled = (self.is_reached | self.crashed) & (self.termination != "never")
        return np.where(self.relabeled, relabeled, self.recorded_termination)

    @cached_property
    def is_terminated(self) -> Values:
        """Termination flag of each row; the correct termination if batches have no flags."""
        if "terminated" not in self.columns:
            return self.expected_termination
        return self.columns["terminated"].astype(bool)

    @cached_property
    def has_right_termination(self) -> Values:
        """Whether each row has the right termination.

        In an episode that ended with success, the last achieved goal equals the desired goal, so a row with
        this goal can be relabeled or original. If relabeled rows never terminate, False is right for it too.
        """
        either = self.of_episode(self._success) & (self.termination == "never")
        return (self.is_terminated == self.expected_termination) | (either & ~self.is_terminated)

    def describe(self, i: int) -> str:
        """Return step, episode and goal of row ``i``, for reports."""
        goal = f"goal of state {self.goal_code[i]} of episode {self.goal_episode[i]}"
        if not self.relabeled[i]:
            goal = "its desired goal"
        return f"step {self.step[i]} of episode {self.episode[i]} with {goal}"

    @cached_property
    def wrong_by_aspect(self) -> dict[str, Values]:
        """Whether each row is wrong, for the `ASPECTS` that are judged."""
        right = (
            self.is_added,
            self.is_allowed,
            self.is_original_goal,
            self.has_right_reward,
            self.has_right_termination,
        )
        known = self._known_faults()
        return {name: ~rows for name, rows in zip(ASPECTS, right, strict=True) if name not in known}

    def violation(
        self, wrong: np.ndarray, message: str | Callable[[int], str], subject: str = ""
    ) -> Iterator[Violation]:
        """Yield a violation for the first wrong row, with the number of wrong rows.

        Args:
            wrong: (B,) bool, whether each row is wrong.
            message: The fault as a sentence, or a function that returns it for the number of a row.
            subject: Subject of the violation.
        """
        for i in np.flatnonzero(wrong)[:1].tolist():
            text = message if isinstance(message, str) else message(i)
            yield Violation(f"{text}: {int(wrong.sum())} of {len(self)} rows", self.describe(i), subject)

    def first_violation(self) -> Iterator[Violation]:
        """Yield a violation for the first wrong row of the first aspect that has wrong rows."""
        messages: dict[str, str | Callable[[int], str]] = {
            "transition": "the row is not a step that was added",
            "goal": f"the strategy {self.strategy} cannot select the goal",
            "original goal": "the desired goal is not that of the step",
            "reward": self.reward_fault,
            "termination": lambda i: (
                f"terminated is {self.is_terminated[i]} instead of {self.expected_termination[i]}"
            ),
        }
        for aspect, wrong in self.wrong_by_aspect.items():
            if wrong.any():
                yield from self.violation(wrong, messages[aspect])
                return

    def reward_fault(self, i: int) -> str:
        """Return the found and the right reward of row ``i`` in a sentence."""
        right = f"compute_reward returns {self.recomputed[i]:.4g} for its goals"
        if not self.relabeled[i]:
            right = f"{self.recorded[i]:.4g} was added"
        return f"the reward is {self.columns['reward'][i]:.4g}, but {right}"
