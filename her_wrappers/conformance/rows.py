"""A driver that adds numbered episodes to a buffer, and the numbers in the rows that the buffer returns."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from her_wrappers.conformance.adapter import STRATEGIES, ReplayAdapter
from her_wrappers.conformance.env import ACTION_SCALE, ConformanceEnv, EndOfEpisode, round_to_int
from her_wrappers.rules import Violation

GOAL_KEYS = ("achieved_goal", "desired_goal", "next_achieved_goal", "next_desired_goal")
STATE_KEYS = ("observation", "next_observation")
OPTIONAL_KEYS = ("truncated", "discount", "index", "weight")
TOLERANCE = 1e-4
ASPECTS = (
    *("transition", "goal", "original goal", "next goal", "precision"),
    *("reward", "termination", "truncation", "discount"),
)

Values: TypeAlias = Any
"""A (B,) array; NumPy's operators are annotated to return Any."""


class ScenarioError(ValueError):
    """The reason why a scenario has no result, and the code of the rule on this reason, HB001 to HB005."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


N_SAMPLED_GOAL = 4
"""Relabeled transitions per original one."""

HORIZON = 12
"""Maximum number of steps of an episode."""

Batches: TypeAlias = Sequence[dict[str, np.ndarray]]


def first_strategy(adapter: type[ReplayAdapter]) -> str:
    """Return the strategy that most scenarios use: the first of `STRATEGIES` that the adapter offers."""
    return next(name for name in STRATEGIES if name in adapter.offers)


class BufferDriver:
    """A new buffer, with methods that add episodes and sample decoded rows.

    Args:
        adapter: The adapter class.
        seed: Seed of the buffer and of the lengths of episodes.
        seed_offset: Added to the seed.
        strategy: Goal selection strategy; if the adapter does not offer it, the first offered strategy.
        env: Environment; by default with vectors as goals.
        **options: Further arguments of the adapter.
    """

    def __init__(
        self,
        adapter: type[ReplayAdapter],
        *,
        seed: int = 0,
        seed_offset: int = 0,
        strategy: str = "",
        env: ConformanceEnv | None = None,
        **options: Any,
    ) -> None:
        self.adapter, self.seed = adapter, seed + seed_offset
        # Returns aspects that are not judged, since they are wrong in a simpler scenario.
        self.known_faults: Callable[[], AbstractSet[str]] = set
        self.strategy = strategy if strategy in adapter.offers else first_strategy(adapter)
        self.env = env or ConformanceEnv()
        self.env.sparse = adapter.termination == "success"
        self.rng = np.random.default_rng(self.seed)
        self.options: dict[str, Any] = {"buffer_size": 4000, "n_sampled_goal": N_SAMPLED_GOAL, "num_envs": 1}
        self.options |= {"max_episode_steps": HORIZON, "strategy": self.strategy, **options}
        self.buffer = adapter(self.env, seed=self.seed, **self.options)

    def add_episodes(
        self,
        lengths: Sequence[int],
        ends: Sequence[EndOfEpisode] = ("time limit",),
        *,
        steps: int | None = None,
    ) -> BufferDriver:
        """Add episodes, or the first ``steps`` steps of each; episode i ends as ``ends[i % len(ends)]``."""
        for length, end in zip(lengths, itertools.cycle(ends), strict=False):
            for transition in itertools.islice(self.env.transitions(length, end), steps):
                self.buffer.add(*transition, env_index=0)
        return self

    def reload(self) -> None:
        """Save the buffer, and replace it with one of another seed that loads the file, if offered."""
        if "save" not in self.adapter.offers:
            return
        other = self.adapter(self.env, seed=self.seed + 1, **self.options)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "buffer")
            self.buffer.save(path)
            other.load(path)
        self.buffer = other

    def batches(self, count: int, rows: int = 128) -> list[dict[str, np.ndarray]]:
        """Sample ``count`` batches of ``rows`` rows each, and return their arrays."""
        return [self.read(self.buffer.sample(rows), rows) for _ in range(count)]

    def read(self, batch: Any, rows: int) -> dict[str, np.ndarray]:
        """Return copies of the arrays of a batch of ``rows`` rows; raise ScenarioError for a wrong batch."""
        spaces = self.env.observation_space.items()
        needed = {prefix + key: space.shape or () for prefix in ("", "next_") for key, space in spaces}
        needed |= {"action": (1,), "reward": ()}
        if self.adapter.termination is not None:
            needed["terminated"] = ()
        if not isinstance(batch, dict):
            raise ScenarioError("HB002", f"the batch is a {type(batch).__name__}, not a dict")
        missing = [key for key in needed if key not in batch]
        if missing:
            raise ScenarioError("HB002", f"the batch has no {', '.join(missing)}")
        arrays = {}
        for key in (*needed, *(key for key in OPTIONAL_KEYS if key in batch)):
            shape = (rows, *needed.get(key, ()))
            try:
                array = np.array(batch[key])
            except Exception as error:  # anything that the conversion of a user's object raises
                kind = type(batch[key]).__name__
                raise ScenarioError("HB003", f"{key} is a {kind} that is not an array: {error}") from error
            if array.shape != shape:
                raise ScenarioError("HB003", f"{key} has shape {array.shape} instead of {shape}")
            if array.dtype.kind not in "fiub":
                raise ScenarioError("HB003", f"{key} has dtype {array.dtype}, which is not a type of numbers")
            arrays[key] = array
        return arrays

    def rows(self, count: int, rows: int = 128) -> DecodedRows:
        """Sample ``count`` batches of ``rows`` rows each, and return all rows, decoded."""
        return DecodedRows(self, self.batches(count, rows))


class DecodedRows:
    """Transitions of several batches, and what is right for them.

    All attributes are (B,) arrays, except those of the arguments and ``columns``, the concatenated batches.
    """

    def __init__(self, driver: BufferDriver, batches: Batches) -> None:
        env = self.env = driver.env
        self.k: int = driver.options["n_sampled_goal"]
        self.strategy, self._known_faults = driver.strategy, driver.known_faults
        self.termination = driver.adapter.termination
        columns = self.columns = {
            key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]
        }
        self.batch = np.repeat(np.arange(len(batches)), [len(batch["reward"]) for batch in batches])
        states = [columns[key].astype(float) for key in STATE_KEYS]
        self.episode, self.step = round_to_int(columns["observation"][:, :2]).T
        self.transition: Values = self.episode * 1024 + self.step  # no episode has 1024 steps
        self.next_episode, self.next_step = round_to_int(columns["next_observation"][:, :2]).T
        self.goal_episode, self.goal_code = env.decode(columns["desired_goal"])
        desired, next_achieved = columns["desired_goal"], columns["next_achieved_goal"]

        # Episode numbers that do not exist are clipped; is_added and is_achieved are False in such rows.
        lengths = np.array([each.length for each in env.episodes])
        successes = np.array([each.is_success for each in env.episodes])
        crashes = np.array([each.end == "crash" and each.is_complete for each in env.episodes])
        own, of_goal = (np.clip(each, 0, len(lengths) - 1) for each in (self.episode, self.goal_episode))
        self.length: Values = lengths[own]  # T
        self.is_last: Values = self.step + 1 == self.length
        self._crashes, self._successes = crashes[own], successes[own]
        self.is_complete: Values = np.array([each.is_complete for each in env.episodes])[own]

        # The transition: state, action and next state of one step that was added.
        action = self.episode + self.step / ACTION_SCALE
        self.is_added: Values = np.logical_and.reduce([
            self.episode == own,
            (self.step >= 0) & (self.step < self.length),
            (self.next_episode == self.episode) & (self.next_step == self.step + 1),
            np.abs(columns["action"][:, 0] - action) < 0.1 / ACTION_SCALE,
            self._is_own_state(columns["achieved_goal"], self.step),
            self._is_own_state(next_achieved, self.code_after(self.step)),
            *((each[:, 2] == 0.5) & (np.abs(each - each.round(1)).max(axis=1) < 1e-3) for each in states),
        ])

        # The goal: relabeled if it is not a desired goal of the row's own episode.
        self.is_own: Values = self.goal_episode == self.episode  # whether the goal is of the row's episode
        self.relabeled: Values = (self.goal_code < env.unreached) | (self.goal_code % 2 == 1) | ~self.is_own
        self.goal_length: Values = lengths[of_goal]
        of_success = successes[of_goal] & (self.goal_code == env.desired_step(self.goal_length) + 1)
        self.goal_step = np.where(of_success, self.goal_length, self.goal_code)  # s of the state
        exact = env.encode(np.maximum(self.goal_episode, 0), np.maximum(self.goal_code, 0))
        close = np.isclose(desired.astype(float), exact.astype(float), atol=1e-3)
        exists = (self.goal_episode == of_goal) & (self.goal_step >= 0) & (self.goal_step <= self.goal_length)
        self.is_achieved: Values = exists & close.reshape(len(self), -1).all(axis=1)
        self.has_own_goal: Values = self.relabeled & self.is_achieved & self.is_own
        of_strategy = {
            "future": self.is_own & (self.goal_step > self.step),
            "geometric": self.is_own & (self.goal_step > self.step),
            "final": self.is_own & (self.goal_step == self.length),
            "episode": self.is_own,
        }.get(self.strategy, np.ones(len(self), bool))
        self.is_allowed: Values = ~self.relabeled | (self.is_achieved & of_strategy)
        is_of_step = self.is_own & (self.goal_code == env.desired_step(self.step))
        self.is_original_goal: Values = self.relabeled | is_of_step
        next_episode, next_code = env.decode(columns["next_desired_goal"])
        is_same = (next_episode == self.goal_episode) & (next_code == self.goal_code)
        is_next = (next_episode == self.episode) & (next_code == env.desired_step(self.step + 1))
        self.is_next_goal: Values = is_same | (~self.relabeled & is_next)
        self.is_precise = np.logical_and.reduce([self._is_precise(columns[key]) for key in GOAL_KEYS])

        self._decode_rewards_and_ends()

    def _decode_rewards_and_ends(self) -> None:
        env, columns, termination = self.env, self.columns, self.termination
        desired, next_achieved = columns["desired_goal"], columns["next_achieved_goal"]

        # The reward: recomputed for the goal of relabeled rows, else as it was added.
        self.recomputed = self.rewards_for(next_achieved, desired)
        self.recorded = self.recorded_reward(self.step)
        self.has_right_reward = self.has_rewards(np.where(self.relabeled, self.recomputed, self.recorded))

        # The termination, as the attribute `termination` of the adapter documents it.
        self.is_reached = np.asarray(env.compute_terminated(next_achieved, desired, None), bool)
        self.crashed: Values = self.is_last & self._crashes
        self.recorded_termination = self.recorded_end(self.step)
        recomputed = (self.is_reached | self.crashed) & (termination != "never")
        is_recomputed = self.relabeled & (termination != "keep")
        self.expected_termination = np.where(is_recomputed, recomputed, self.recorded_termination)
        self.is_terminated: Values = columns.get("terminated", self.expected_termination).astype(bool)
        self.has_right_termination: Values = self.is_terminated == self.expected_termination

        # The truncation: as recorded, but a relabeled success need not be truncated too.
        self.expected_truncation: Values = self.is_last & ~self.recorded_termination
        truncated: Values = np.asarray(columns.get("truncated", self.expected_truncation), bool)
        either = ~self.is_complete | (self.relabeled & self.is_terminated)
        self.has_right_truncation: Values = (truncated == self.expected_truncation) | (self.is_last & either)

        # The discount: 0 for terminated rows, the same for all others.
        discount: Values = np.asarray(columns.get("discount", np.where(self.is_terminated, 0.0, 1.0)))
        self.expected_discount = np.where(self.is_terminated, 0.0, discount.max())
        self.has_right_discount: Values = np.abs(discount - self.expected_discount) <= TOLERANCE

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.batch)

    def _is_own_state(self, goals: np.ndarray, step: np.ndarray) -> Values:
        goal_episode, goal_step = self.env.decode(goals)
        return (goal_episode == self.episode) & (goal_step == step)

    def _is_precise(self, goals: np.ndarray) -> Values:
        """Return which goals equal the goals with their numbers exactly; only vectors can lose precision."""
        if self.env.kind != "vector":
            return np.ones(len(self), bool)
        return (goals == self.env.encode(*self.env.decode(goals))).all(axis=1)

    def rewards_for(self, achieved: Any, desired: Any, ahead: Any = 0) -> Values:
        """Return the (B,) rewards of B pairs of goals, with the infos of ``ahead`` steps later."""
        infos = {"cost": self.env.cost(self.episode, self.step + ahead)}
        return np.asarray(self.env.rewards(achieved, desired, infos), float)

    def succeeds_after(self, step: Values) -> Values:
        """Return whether the (B,) given steps of the episodes reached their desired goals."""
        return self._successes & (step + 1 == self.length)

    def code_after(self, step: Values) -> Values:
        """Return the (B,) step numbers in the achieved goals after the (B,) given steps of the episodes."""
        return np.where(self.succeeds_after(step), self.env.desired_step(step + 1) + 1, step + 1)

    def achieved_after(self, step: Values) -> Any:
        """Return the achieved goals after the (B,) given steps of the episodes of the rows."""
        return self.env.encode(np.maximum(self.episode, 0), self.code_after(step))

    def recorded_reward(self, step: Values) -> Values:
        """Return the (B,) rewards that were added for the (B,) given steps."""
        desired = self.env.encode(np.maximum(self.episode, 0), self.env.desired_step(step + 1))
        return self.rewards_for(self.achieved_after(step), desired, step - self.step) + self.env.bonus

    def recorded_end(self, step: Values) -> Values:
        """Return whether the (B,) given steps were added as terminated."""
        return (step + 1 == self.length) & (self._crashes | self._successes)

    def has_rewards(self, rewards: Any) -> Values:
        """Return whether the reward of each row equals its value in ``rewards``, up to TOLERANCE."""
        return np.abs(self.columns["reward"].astype(float) - rewards) <= TOLERANCE

    def describe(self, i: int) -> str:
        """Return step, episode and goal of row ``i``, for reports."""
        goal = f"goal of state {self.goal_code[i]} of episode {self.goal_episode[i]}"
        goal = goal if self.relabeled[i] else "its desired goal"
        return f"step {self.step[i]} of episode {self.episode[i]} with {goal}"

    @cached_property
    def faults(self) -> dict[str, tuple[Values, str | Callable[[int], str]]]:
        """Wrong rows and a message for `violation`, for judged aspects with wrong rows."""
        right: dict[str, tuple[Values, str | Callable[[int], str]]] = {
            "transition": (self.is_added, "the row is not a step that was added"),
            "goal": (self.is_allowed, f"the strategy {self.strategy} cannot select the goal"),
            "original goal": (self.is_original_goal, "the desired goal is not that of the step"),
            "next goal": (self.is_next_goal, "the next observation has another desired goal"),
            "precision": (self.is_precise, "a goal lost precision"),
            "reward": (self.has_right_reward, self.reward_fault),
            "termination": (self.has_right_termination, self.termination_fault),
            "truncation": (self.has_right_truncation, self.truncation_fault),
            "discount": (self.has_right_discount, self.discount_fault),
        }
        judged = [name for name in ASPECTS if name not in self._known_faults()]
        return {name: (~right[name][0], right[name][1]) for name in judged if not right[name][0].all()}

    def violation(self, wrong: np.ndarray, message: str | Callable[[int], str]) -> Iterator[Violation]:
        """Yield a violation for the first wrong row i, with ``message`` or ``message(i)``."""
        for i in np.flatnonzero(wrong)[:1].tolist():
            text = message if isinstance(message, str) else message(i)
            yield Violation(f"{text}: {int(wrong.sum())} of {len(self)} rows", self.describe(i))

    def first_violation(self) -> Iterator[Violation]:
        """Yield a violation for the first wrong row of the first aspect that has wrong rows."""
        for wrong, message in list(self.faults.values())[:1]:
            yield from self.violation(wrong, message)

    def reward_fault(self, i: int) -> str:
        """Return the found and the right reward of row ``i`` in a sentence."""
        right = f"compute_reward returns {self.recomputed[i]:.4g} for its goals"
        if not self.relabeled[i]:
            right = f"{self.recorded[i]:.4g} was added"
        return f"the reward is {self.columns['reward'][i]:.4g}, but {right}"

    def termination_fault(self, i: int) -> str:
        """Return the found and the right termination of row ``i`` in a sentence."""
        return f"terminated is {self.is_terminated[i]} instead of {self.expected_termination[i]}"

    def truncation_fault(self, i: int) -> str:
        """Return the found and the right truncation of row ``i`` in a sentence."""
        return f"truncated is {not self.expected_truncation[i]} instead of {self.expected_truncation[i]}"

    def discount_fault(self, i: int) -> str:
        """Return the found and the right discount of row ``i`` in a sentence."""
        return f"discount is {self.columns['discount'][i]:.5g} instead of {self.expected_discount[i]:.5g}"


def first_of_each(rows: DecodedRows, chosen: np.ndarray) -> np.ndarray:
    """Return the first chosen row of each transition; buffers that relabel when storing repeat its goals."""
    index = np.flatnonzero(chosen)
    _, first = np.unique(rows.transition[index], return_index=True)
    return index[first]
