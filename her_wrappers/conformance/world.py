"""World: a goal environment whose goals name episode and step, and the episodes that were fed from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces

UNREACHED = 200
"""Desired goals have this step number or a higher one, which no state has."""

SHIFT = 1 / 3
"""Added to episode numbers in float64 goals; a conversion to float32 changes it."""

ACTION_SCALE = 128.0
CODES = 256

Kind: TypeAlias = Literal["vector", "image", "discrete"]
End: TypeAlias = Literal["time limit", "crash", "success", "interrupted", "open"]


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
class FedEpisode:
    """An episode as it was fed.

    Attributes:
        number: Number of the episode, which its goals name.
        length: Steps fed so far.
        end: How the episode ended.
        changing: Whether its desired goal changes every second step.
        is_complete: Whether its last step was fed.
    """

    number: int
    length: int
    end: End = "time limit"
    changing: bool = False
    is_complete: bool = False


class World(gym.Env[Any, Any]):
    """Counting episodes: step t of episode e leads from state (e, t) to state (e, t + 1).

    A goal is reached by the step that achieves its state, and by the next one. So rewards and terminations
    change if goals are swapped, taken from before the step, or from another episode.

    Args:
        kind: Goals are (2,) float64 vectors, (2, 2) uint8 images, or Discrete numbers.
        sparse: Whether rewards are 0 and -1 only; otherwise they also depend on the achieved state.
        costs: Whether rewards need ``info["cost"]``.
        bonus: Added to the rewards of the fed steps, but not to those of ``compute_reward``.
    """

    def __init__(
        self, kind: Kind = "vector", *, sparse: bool = False, costs: bool = False, bonus: float = 0.0
    ) -> None:
        kinds: dict[str, spaces.Space[Any]] = {
            "vector": spaces.Box(-np.inf, np.inf, (2,), np.float64),
            "image": spaces.Box(0, 255, (2, 2), np.uint8),
            "discrete": spaces.Discrete(CODES * CODES),
        }
        goal = kinds[kind]
        state = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.goal_env_space = spaces.Dict(observation=state, achieved_goal=goal, desired_goal=goal)
        self.observation_space = self.goal_env_space
        self.action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.kind, self.sparse, self.costs, self.bonus = kind, sparse, costs, bonus
        self.episodes: list[FedEpisode] = []
        self.reward_calls = 0

    def encode(self, episode: Any, step: Any) -> Any:
        """Return the goals that name states: (...) integers to (..., G) goals."""
        episode, step = np.asarray(episode), np.asarray(step)
        if self.kind == "discrete":
            return episode * CODES + step
        if self.kind == "vector":
            return np.stack([episode + SHIFT, step.astype(float)], axis=-1)
        rows = np.stack([episode, step, CODES - 1 - episode, CODES - 1 - step], axis=-1)
        return rows.reshape(*rows.shape[:-1], 2, 2).astype(np.uint8)

    def decode(self, goals: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return episode and step that goals name, rounded; a negative number for what is not finite."""
        goals = np.asarray(goals)
        if self.kind == "discrete":
            return goals // CODES, goals % CODES
        leading = goals.shape[: goals.ndim - (1 if self.kind == "vector" else 2)]
        flat = goals.reshape(*leading, 2 if self.kind == "vector" else 4)  # -1 fails for no rows
        shift = SHIFT if self.kind == "vector" else 0
        return np.rint(flat[..., 0] - shift).astype(int), np.rint(flat[..., 1]).astype(int)

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the rewards of goals: (..., G) goals to (...) rewards."""
        self.reward_calls += 1
        return self.rewards(achieved_goal, desired_goal, info)

    def rewards(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the same without counting the call."""
        reached = self.compute_terminated(achieved_goal, desired_goal, info)
        step = 0.0 if self.sparse else self.decode(achieved_goal)[1] / ACTION_SCALE
        return reached - 1.0 - step - (_costs_of(info) if self.costs else 0.0)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return whether goals are reached: the state of the goal, or the one after it."""
        (episode, step), (goal, goal_step) = self.decode(achieved_goal), self.decode(desired_goal)
        return (episode == goal) & (step - goal_step >= 0) & (step - goal_step <= 1)

    def begin(self, *, end: End = "time limit", changing: bool = False) -> FedEpisode:
        """Register an episode of no steps yet."""
        self.episodes.append(FedEpisode(len(self.episodes), 0, end, changing))
        return self.episodes[-1]

    def transitions(self, episode: FedEpisode, length: int) -> Iterator[Transition]:
        """Yield the steps of an episode of ``length`` steps, counting those that were taken."""
        for t in range(length):
            last = t + 1 == length
            obs = self.observe(episode, t, last=False)
            next_obs = self.observe(episode, t + 1, last=last)
            info = {"cost": float(self.cost(episode.number, t)), "is_success": False}
            episode.length, episode.is_complete = t + 1, last
            reward = self.rewards(next_obs["achieved_goal"], next_obs["desired_goal"], info) + self.bonus
            yield Transition(
                obs,
                np.array([episode.number + t / ACTION_SCALE], np.float32),
                float(reward),
                next_obs,
                last and episode.end in {"crash", "success"},
                last and episode.end == "time limit",
                info,
            )

    def observe(self, episode: FedEpisode, t: int, *, last: bool) -> dict[str, Any]:
        """Return the observation of state t."""
        code = UNREACHED if last and episode.end == "success" else t
        desired = UNREACHED + (t // 2 if episode.changing else 0)
        return {
            "observation": np.array([episode.number, t, 0.5], np.float32),
            "achieved_goal": self._one_goal(episode.number, code),
            "desired_goal": self._one_goal(episode.number, desired),
        }

    def _one_goal(self, episode: int, step: int) -> Any:
        goal = self.encode(episode, step)
        return np.int64(goal) if self.kind == "discrete" else goal

    @staticmethod
    def cost(episode: Any, t: Any) -> Any:
        """Return the cost of steps, a different one for each."""
        return (np.asarray(episode) % 16 * 32 + np.asarray(t)) / 64


def _costs_of(info: Any) -> Any:
    """Return the costs in infos: one dict, a list of dicts, or a dict of columns."""
    if isinstance(info, dict):
        return np.asarray(info["cost"])
    return np.array([each["cost"] for each in info])
