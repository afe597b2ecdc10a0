"""DecodedRows: transitions of batches, with the episode and step that their values contain."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from gymnasium import spaces

from her_wrappers.conformance.env import ACTION_SCALE, UNREACHED, ConformanceEnv, round_to_int

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.conformance.adapter import Terminations

GOAL_KEYS = ("achieved_goal", "desired_goal", "next_achieved_goal", "next_desired_goal")
STATE_KEYS = ("observation", "next_observation")
ROW_KEYS = ("reward", "terminated")
OPTIONAL_KEYS = ("truncated", "discount", "index", "weight")
TOLERANCE = 1e-4

Values: TypeAlias = Any
"""A (B,) array; NumPy's operators are annotated to return Any."""


class BatchError(ValueError):
    """A batch is not a dict of arrays of the expected shapes.

    Attributes:
        code: Code of the rule that the batch breaks.
        expected: The expected value.
        got: The value found.
    """

    def __init__(self, code: str, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.code, self.expected, self.got = code, expected, got


def read_batch(batch: Any, env: ConformanceEnv, rows: int, *, terminations: bool) -> dict[str, np.ndarray]:
    """Return copies of the arrays of a batch.

    Args:
        batch: Result of `ReplayAdapter.sample`.
        env: Environment of the transitions.
        rows: Expected number of rows.
        terminations: Whether the key ``terminated`` is required.

    Raises:
        BatchError: The batch is not a dict, a key is missing, or a value has the wrong shape or is not an
            array of numbers.
    """
    needed = (*STATE_KEYS, *GOAL_KEYS, "action", "reward", *(("terminated",) if terminations else ()))
    if not isinstance(batch, dict):
        raise BatchError("HB002", "a dict of arrays", f"a {type(batch).__name__}")
    missing = [key for key in needed if key not in batch]
    if missing:
        raise BatchError("HB002", f"the keys {', '.join(needed)}", f"a dict without {', '.join(missing)}")
    return {
        key: _read_array(key, batch[key], _shape_of(key, env, rows))
        for key in (*needed, *OPTIONAL_KEYS)
        if key in batch
    }


def _shape_of(key: str, env: ConformanceEnv, rows: int) -> tuple[int, ...]:
    if key in {*ROW_KEYS, *OPTIONAL_KEYS}:
        return (rows,)
    space: spaces.Space[Any] = env.action_space
    if key != "action":
        space = env.goal_env_space[key.removeprefix("next_")]
    return (rows, *(space.shape or ()))


def _read_array(key: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return a value as a new array; raise BatchError unless it is an array of numbers of this shape."""
    try:
        array = np.array(value)
    except Exception as error:  # anything that the conversion of a user's object raises
        raise BatchError("HB003", f"{key}: an array", f"{type(value).__name__} ({error})") from error
    if array.shape != shape:
        raise BatchError("HB003", f"{key} of shape {shape}", f"shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise BatchError("HB003", f"{key} of numbers", f"dtype {array.dtype}")
    return array


class DecodedRows:
    """Transitions of several batches, concatenated.

    Args:
        env: Environment of the transitions.
        strategy: Goal selection strategy of the buffer.
        termination: Documented terminations of relabeled transitions.
        batches: The batches, as `read_batch` returns them.
    """

    def __init__(
        self,
        env: ConformanceEnv,
        strategy: str,
        termination: Terminations | None,
        batches: Sequence[dict[str, np.ndarray]],
    ) -> None:
        self.env, self.strategy, self.termination = env, strategy, termination
        self.columns = {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}
        sizes = [len(batch["reward"]) for batch in batches]
        self.batch = np.repeat(np.arange(len(batches)), sizes)
        self.episode, self.step = round_to_int(self.columns["observation"][:, :2]).T
        self.next_episode, self.next_step = round_to_int(self.columns["next_observation"][:, :2]).T
        self.goal_episode, self.goal_code = env.decode(self.columns["desired_goal"])
        episodes = env.episodes
        self._lengths = np.array([each.length for each in episodes])
        self._crash = np.array([each.end == "crash" and each.is_complete for each in episodes])
        self._success = np.array([each.end == "success" and each.is_complete for each in episodes])
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
        """Whether each row is wrong, by aspect: transition, goal, original goal, reward and termination."""
        return {
            "transition": ~self.is_added,
            "goal": ~self.is_allowed,
            "original goal": ~self.is_original_goal,
            "reward": ~self.has_right_reward,
            "termination": ~self.has_right_termination,
        }

    def expected(self, aspect: str, i: int) -> tuple[str, str]:
        """Return the expected and the found value of an aspect of row ``i``, as texts for reports."""
        if aspect == "reward":
            expected = np.where(self.relabeled, self.recomputed, self.recorded)[i]
            return f"reward {expected:.4g}", f"{self.columns['reward'][i]:.4g}"
        if aspect == "termination":
            return f"terminated {self.expected_termination[i]}", str(self.is_terminated[i])
        return {
            "transition": "one step of one episode as it was added",
            "goal": f"a goal that the strategy {self.strategy} can select",
            "original goal": "the desired goal of the step",
        }[aspect], self.describe(i)
