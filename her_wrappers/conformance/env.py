"""The environment of the conformance suite; each goal encodes an episode number and a step number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_wrappers.recording.episode import Episode

UNREACHED = 200
"""Smallest step number in desired goals (1000 if goals are vectors); all episodes are shorter."""

SHIFT = 1 / 3
"""Added to episode numbers in float64 goals, so that a conversion to float32 changes the goals."""

ACTION_SCALE = 1024.0
CODES = 256
LARGEST = 2**31

GoalKind: TypeAlias = Literal["vector", "image", "discrete"]
EndOfEpisode: TypeAlias = Literal["time limit", "crash", "success"]


class Transition(NamedTuple):
    """The arguments of `ReplayAdapter.add`, without the index of the environment."""

    obs: dict[str, Any]
    action: np.ndarray
    reward: float
    next_obs: dict[str, Any]
    terminated: bool
    truncated: bool
    info: dict[str, Any]


@dataclass
class AddedEpisode:
    """An episode of which all steps, or only the first ones, were added to a buffer."""

    number: int  # index of the episode, which the goals contain
    end: EndOfEpisode
    env_index: int = 0
    length: int = 0  # number of steps added
    is_complete: bool = False  # whether the last step was added

    @property
    def is_success(self) -> bool:
        """Whether the last step reached the desired goal."""
        return self.end == "success" and self.is_complete


class ConformanceEnv(gym.Env[Any, Any]):
    """Goal environment in which step t of episode e leads from state (e, t) to state (e, t + 1).

    `transitions` yields the steps of an episode; `reset` and `step` are not defined.

    A goal is a pair (episode, step), which is encoded as a vector, an image or an integer (``kind``). A
    desired goal (e, s), recorded or relabeled, is reached if the achieved goal is (e, s) or (e, s + 1).
    Therefore rewards and terminations change if the two goals are swapped, if the achieved goal before the
    step is used, or if a goal is from another episode.

    In recorded desired goals (e, s), s is even and larger than any t. The achieved goal of state (e, t) is
    (e, t), except in the last state of a successful episode, which achieves (e, s + 1). So only the last
    state of a successful episode reaches a recorded desired goal, and no achieved goal equals such a goal.

    Args:
        kind: ``"vector"``: goals are (2,) float64 vectors; ``"image"``: (2, 2) uint8 images; ``"discrete"``:
            integers of a Discrete space.
        sparse: Whether rewards are only 0 and -1; otherwise rewards also depend on the achieved state.
        costs: Whether rewards depend on ``info["cost"]``.
        bonus: Number that is added to the rewards of `transitions`, but not to results of ``compute_reward``.
        changing: Whether the desired goal changes after every second step.
    """

    observation_space: spaces.Dict

    def __init__(
        self,
        kind: GoalKind = "vector",
        *,
        sparse: bool = False,
        costs: bool = False,
        bonus: float = 0.0,
        changing: bool = False,
    ) -> None:
        kinds: dict[str, spaces.Space[Any]] = {
            "vector": spaces.Box(-np.inf, np.inf, (2,), np.float64),
            "image": spaces.Box(0, 255, (2, 2), np.uint8),
            "discrete": spaces.Discrete(CODES * CODES),
        }
        goal = kinds[kind]
        state = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.observation_space = spaces.Dict(observation=state, achieved_goal=goal, desired_goal=goal)
        self.action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.kind, self.sparse, self.costs, self.bonus, self.changing = kind, sparse, costs, bonus, changing
        self.unreached = 1000 if kind == "vector" else UNREACHED
        self.episodes: list[AddedEpisode] = []
        self.reward_calls = 0

    def encode(self, episode: Any, step: Any) -> Any:
        """Return pairs (episode, step) as goals of the environment's ``kind``, (B, ...)."""
        episode, step = np.asarray(episode), np.asarray(step)
        if self.kind == "discrete":
            return episode * CODES + step
        if self.kind == "vector":
            return np.stack([episode + SHIFT, step + 0.0], axis=-1)
        rows = np.stack([episode, step, CODES - 1 - episode, CODES - 1 - step], axis=-1)
        return rows.reshape(*rows.shape[:-1], 2, 2).astype(np.uint8)

    def decode(self, goals: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the episode number and the step number that each goal encodes, as rounded integers."""
        goals = np.asarray(goals)
        if self.kind == "discrete":
            numbers = round_to_int(goals)
            return numbers // CODES, numbers % CODES
        if self.kind == "vector":
            return round_to_int(goals[..., 0] - SHIFT), round_to_int(goals[..., 1])
        return round_to_int(goals[..., 0, 0]), round_to_int(goals[..., 0, 1])

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the reward of each pair of goals, and count the call in ``reward_calls``.

        ``info`` is an info, a list of infos or a dict of columns, with the key ``cost`` if ``costs`` is set.
        """
        self.reward_calls += 1
        return self.rewards(achieved_goal, desired_goal, info)

    def rewards(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the same rewards as `compute_reward`, but do not increase ``reward_calls``."""
        reached = self.compute_terminated(achieved_goal, desired_goal, info)
        rewards = reached - 1.0
        if not self.sparse:
            vectors = self.kind == "vector"  # decode is slow for single goals
            steps = np.rint(achieved_goal[..., 1]) if vectors else self.decode(achieved_goal)[1]
            rewards = rewards - steps / ACTION_SCALE
        if not self.costs:
            return rewards
        columns = isinstance(info, dict)
        return rewards - (np.asarray(info["cost"]) if columns else np.array([each["cost"] for each in info]))

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return whether each achieved goal is (e, s) or (e, s + 1), where (e, s) is the desired goal."""
        if self.kind == "vector":  # without decode, which is slow for single goals
            difference = np.asarray(achieved_goal) - np.asarray(desired_goal)
            if difference.ndim == 1:  # floats are faster than arrays of one element
                number, t = difference.tolist()
                return np.bool_(abs(number) < 0.5 and -0.5 < t < 1.5)
            episodes, steps = difference[..., 0], difference[..., 1]
        else:
            (episode, step), (goal, goal_step) = self.decode(achieved_goal), self.decode(desired_goal)
            episodes, steps = episode - goal, step - goal_step
        return (abs(episodes) < 0.5) & (steps > -0.5) & (steps < 1.5)

    def transitions(
        self, length: int, end: EndOfEpisode = "time limit", env_index: int = 0
    ) -> Iterator[Transition]:
        """Append a new episode to the attribute ``episodes``, and yield its ``length`` transitions."""
        episode = AddedEpisode(len(self.episodes), end, env_index)
        self.episodes.append(episode)
        numbers, steps = np.full(length + 1, episode.number), np.arange(length + 1)
        achieved, desired = steps.copy(), self.desired_step(steps)
        if end == "success":
            achieved[-1] = desired[-1] + 1
        states = {
            "observation": np.stack([numbers, steps, np.full(length + 1, 0.5)], axis=-1).astype(np.float32),
            "achieved_goal": self.encode(numbers, achieved),
            "desired_goal": self.encode(numbers, desired),
        }
        costs = self.cost(numbers, steps)
        goals = states["achieved_goal"][1:], states["desired_goal"][1:]
        rewards = self.rewards(*goals, {"cost": costs[:-1]}) + self.bonus
        for t in range(length):
            last = t + 1 == length
            obs, next_obs = ({key: values[i].copy() for key, values in states.items()} for i in (t, t + 1))
            episode.length, episode.is_complete = t + 1, last
            yield Transition(
                obs,
                np.array([episode.number + t / ACTION_SCALE], np.float32),
                float(rewards[t]),
                next_obs,
                last and end in {"crash", "success"},
                last and end == "time limit",
                {"cost": float(costs[t]), "is_success": False},
            )

    def episode(self, length: int, end: EndOfEpisode = "time limit") -> Episode:
        """Return a new episode as an `Episode`, and append it to ``episodes`` as an `AddedEpisode`."""
        steps = list(self.transitions(length, end))
        states = [*(step.obs for step in steps), steps[-1].next_obs]
        return Episode(
            observations={key: np.stack([state[key] for state in states]) for key in states[0]},
            actions=np.stack([step.action for step in steps]),
            rewards=np.array([step.reward for step in steps]),
            terminated=steps[-1].terminated,
            truncated=steps[-1].truncated,
            infos={key: np.array([step.info[key] for step in steps]) for key in steps[0].info},
        )

    def desired_step(self, t: Any) -> Any:
        """Return the step number in the desired goal of state ``t`` of an episode; ``t`` may be an array."""
        return self.unreached + t // 2 * 2 * self.changing

    @staticmethod
    def cost(episode: Any, t: Any) -> Any:
        """Return the cost of a step, which is unique in 16 successive episodes of at most 32 steps each."""
        return (episode % 16 * 32 + t) / 64


def round_to_int(values: Any) -> np.ndarray:
    """Return values rounded to int64; -1 for floats that are NaN or at least 2**31 in absolute value."""
    values = np.asarray(values)
    if values.dtype.kind == "f":
        values = values.astype(np.float64)
        values = np.where(np.abs(values) < LARGEST, np.rint(values), -1)  # False for NaN
    return np.asarray(values.astype(np.int64))
