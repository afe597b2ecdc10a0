"""The environment of the conformance suite; each value encodes an episode number and a step number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_wrappers.conformance.oracle import StoredEpisode

SHIFT = 1 / 3  # fraction that is added to values, so that a conversion to a smaller dtype changes them

ACTION_SCALE = 1024.0
CODES = 2**22
"""Number of codes that a discrete goal can have; the goal episode * CODES + code has up to 44 bits."""

ENDS = ("time limit", "crash", "success")
ALL_ENDS = (*ENDS, "crash at the time limit", "success at the time limit")


class Transition(NamedTuple):
    """The arguments of `ReplayAdapter.add`, without the index of the environment."""

    obs: dict[str, Any]
    action: Any
    reward: float
    next_obs: dict[str, Any]
    terminated: bool
    truncated: bool
    info: dict[str, Any]


Step: TypeAlias = tuple[Transition, tuple[StoredEpisode, int]]
"""A step twice: as arrays for the buffer; and for the oracle, as its episode of integers and the step t."""


class ConformanceEnv(gym.Env[Any, Any]):
    """Goal environment in which step t of episode e leads from state (e, t) to state (e, t + 1).

    `transitions` yields the steps of an episode; `reset` and `step` are not defined.

    A goal is a pair (episode, code), which is encoded as a vector, an image or an integer (``kind``). A
    desired goal (e, c), recorded or relabeled, is reached if the achieved goal is (e, c) or (e, c + 1). So
    rewards change if the goals are swapped, or if the achieved goal before the step is used.

    In recorded desired goals (e, c), c is even and larger than any t. The achieved goal of state (e, t) is
    (e, t), but (e, c + 1) in the last state of a successful episode. So no other state reaches a recorded
    desired goal, and no achieved goal equals one.

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
        kind: Literal["vector", "image", "discrete"] = "vector",
        *,
        sparse: bool = False,
        costs: bool = False,
        bonus: float = 0.0,
        changing: bool = False,
    ) -> None:
        vector, image = spaces.Box(-np.inf, np.inf, (2,), np.float64), spaces.Box(0, 255, (2, 2), np.uint8)
        goals: Any = {"vector": vector, "image": image, "discrete": spaces.Discrete(CODES**2)}
        state = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        pair = dict.fromkeys(("achieved_goal", "desired_goal"), goals[kind])
        self.observation_space = spaces.Dict(observation=state, **pair)
        self.action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.kind, self.sparse, self.costs, self.bonus, self.changing = kind, sparse, costs, bonus, changing
        self.unreached = 1000 if kind == "vector" else 200  # the smallest code of desired goals
        self.episodes: list[StoredEpisode] = []  # by number, also those that are no longer stored

    # --- arrays of numbers: each argument is an integer or a (B,) array ---

    def encode(self, episode: Any, code: Any) -> Any:
        """Return pairs (episode, code) as goals of the environment's ``kind``, (B, ...)."""
        episode, code = np.asarray(episode), np.asarray(code)
        if self.kind == "discrete":
            return episode * CODES + code
        if self.kind == "vector":
            return np.stack([episode + SHIFT, code + 0.0], axis=-1)
        rows = np.stack([episode, code, 255 - episode, 255 - code], axis=-1)
        return rows.reshape(*rows.shape[:-1], 2, 2).astype(np.uint8)

    def decode(self, goals: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the episodes and the codes of goals, two (B,) int64 arrays, rounded to integers."""
        goals = np.asarray(goals)
        if self.kind == "discrete":
            episode, code = np.divmod(round_to_int(goals), CODES)
            return episode, code
        if self.kind == "vector":
            return round_to_int(goals[..., 0] - SHIFT), round_to_int(goals[..., 1])
        return round_to_int(goals[..., 0, 0]), round_to_int(goals[..., 0, 1])

    @staticmethod
    def observation(episode: Any, t: Any) -> np.ndarray:
        """Return the observations of states (episode, t), (B, 3) float32; the last value needs all bits."""
        episode, t = np.asarray(episode), np.asarray(t)
        return np.stack([episode, t, (7 * episode + t) % 64 + SHIFT], axis=-1).astype(np.float32)

    @staticmethod
    def action(episode: Any, t: Any) -> np.ndarray:
        """Return the actions of steps (episode, t), (B, 1) float32."""
        return (np.asarray(episode) + (np.asarray(t) + SHIFT) / ACTION_SCALE)[..., None].astype(np.float32)

    def arrays_of(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the observations and goals of S states, dicts of pairs, as (S, ...) arrays."""
        encode = {"observation": self.observation}
        pairs = {key: np.transpose([state[key] for state in states]) for key in states[0]}
        return {key: encode.get(key, self.encode)(*pair) for key, pair in pairs.items()}

    @staticmethod
    def cost(episode: Any, t: Any) -> Any:
        """Return the cost of a step, which is unique in 16 successive episodes of at most 32 steps each."""
        return (episode % 16 * 32 + t) / 64

    # --- the functions of the environment ---

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the reward of each pair of goals; ``info`` is a dict, a list of infos, or columns."""
        reached = self.compute_terminated(achieved_goal, desired_goal, info)
        costs: Any = 0.0
        if self.costs:
            columns = isinstance(info, dict)
            costs = np.asarray(info["cost"]) if columns else np.array([each["cost"] for each in info])
        return self._reward(reached, self.decode(achieved_goal)[1], costs)

    def _reward(self, reached: Any, code: Any, cost: Any) -> Any:
        return reached - 1.0 - (0.0 if self.sparse else code / ACTION_SCALE) - (cost if self.costs else 0.0)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return whether each achieved goal is (e, c) or (e, c + 1), where (e, c) is the desired goal."""
        if self.kind == "vector" and np.ndim(achieved_goal) == 1:  # floats are faster than small arrays
            number, t = (np.asarray(achieved_goal) - np.asarray(desired_goal)).tolist()
            return np.bool_(abs(number) < 0.5 and -0.5 < t < 1.5)
        (episode, code), (goal, goal_code) = self.decode(achieved_goal), self.decode(desired_goal)
        return (episode == goal) & ((code == goal_code) | (code == goal_code + 1))

    # --- the same functions of one step, with pairs (episode, code), for the oracle ---

    def reward_of_step(self, observation: Any, action: Any, achieved: Any, goal: Any, info: Any) -> float:
        """Return the reward of one step under a goal."""
        return float(self._reward(self.reaches(achieved, goal), achieved[1], info["cost"]))

    @staticmethod
    def reaches(achieved: Any, goal: Any, info: Any = None) -> bool:
        """Return whether the pair ``achieved`` reaches the pair ``goal``."""
        return achieved[0] == goal[0] and achieved[1] - goal[1] in {0, 1}

    # --- episodes ---

    def transitions(self, length: int, end: str = "time limit") -> Iterator[Step]:
        """Yield the steps of the next episode; `BufferDriver.add` appends the episode to ``episodes``."""
        number, steps = len(self.episodes), range(length)
        desired = [(number, self.unreached + t // 2 * 2 * self.changing) for t in range(length + 1)]
        achieved = [(number, t) for t in range(length + 1)]
        if end.startswith("success"):
            achieved[-1] = number, desired[-1][1] + 1
        states = [
            {"observation": (number, t), "achieved_goal": achieved[t], "desired_goal": desired[t]}
            for t in range(length + 1)
        ]
        infos = [
            {"cost": self.cost(number, t), "is_success": t + 1 == length and end.startswith("success")}
            for t in steps
        ]
        rewards = [
            self.reward_of_step(None, None, achieved[t + 1], desired[t + 1], infos[t]) + self.bonus
            for t in steps
        ]
        actions, flags = [(number, t) for t in steps], (not end.startswith("time"), "time" in end)
        episode = StoredEpisode(states, actions, rewards, infos, *flags)
        arrays, action_rows = self.arrays_of(states), self.action(*np.transpose(actions))
        for t in steps:
            obs, next_obs = ({key: np.array(rows[i]) for key, rows in arrays.items()} for i in (t, t + 1))
            last = t + 1 == length
            action, is_ended = action_rows[t].copy(), (last and flags[0], last and flags[1])
            yield Transition(obs, action, rewards[t], next_obs, *is_ended, dict(infos[t])), (episode, t)


def round_to_int(values: Any) -> np.ndarray:
    """Return rounded values, int64; -1 for NaN and for numbers that float64 cannot represent exactly."""
    values = np.asarray(values, np.float64)
    return np.asarray(np.where(np.abs(values) < 2**53, np.rint(values), -1).astype(np.int64))
