"""A driver that adds numbered episodes to a buffer, and the numbers in the rows that the buffer returns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import numpy as np

from her_wrappers.conformance.adapter import STRATEGIES, ReplayAdapter
from her_wrappers.conformance.env import ACTION_SCALE, UNREACHED, ConformanceEnv, EndOfEpisode, round_to_int
from her_wrappers.rules import Violation

STATE_KEYS = ("observation", "next_observation")
OPTIONAL_KEYS = ("truncated", "discount", "index", "weight")
TOLERANCE = 1e-4
ASPECTS = ("transition", "goal", "original goal", "reward", "termination")

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
        self.adapter = adapter
        # Returns aspects that are not judged, since they are wrong in a simpler scenario.
        self.known_faults: Callable[[], AbstractSet[str]] = set
        self.strategy = strategy if strategy in adapter.offers else first_strategy(adapter)
        self.env = env or ConformanceEnv()
        self.env.sparse = adapter.termination == "success"
        self.rng = np.random.default_rng(seed + seed_offset)
        self.buffer = adapter(
            self.env,
            strategy=self.strategy,
            max_episode_steps=HORIZON,
            seed=seed + seed_offset,
            **{"buffer_size": 4000, "n_sampled_goal": N_SAMPLED_GOAL, "num_envs": 1} | options,
        )

    def add_episodes(
        self, lengths: Sequence[int], ends: Sequence[EndOfEpisode] = ("time limit",), *, steps: int = HORIZON
    ) -> BufferDriver:
        """Add episodes, or the first ``steps`` steps of each; episode i ends as ``ends[i % len(ends)]``."""
        for length, end in zip(lengths, itertools.cycle(ends), strict=False):
            for transition in itertools.islice(self.env.transitions(length, end), steps):
                self.buffer.add(*transition, env_index=0)
        return self

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
        self.strategy, self._known_faults = driver.strategy, driver.known_faults
        self.termination = termination = driver.adapter.termination
        columns = self.columns = {
            key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]
        }
        self.batch = np.repeat(np.arange(len(batches)), [len(batch["reward"]) for batch in batches])
        self.episode, self.step = round_to_int(columns["observation"][:, :2]).T
        self.transition: Values = self.episode * 64 + self.step  # no episode has 64 steps or more
        self.next_episode, self.next_step = round_to_int(columns["next_observation"][:, :2]).T
        self.goal_episode, self.goal_code = env.decode(columns["desired_goal"])
        desired, next_achieved = columns["desired_goal"], columns["next_achieved_goal"]

        # Episode numbers that do not exist are clipped; is_added and is_achieved are False in such rows.
        lengths = np.array([each.length for each in env.episodes])
        successes = np.array([each.is_success for each in env.episodes])
        crashes = np.array([each.end == "crash" and each.is_complete for each in env.episodes])
        own, of_goal = (np.clip(each, 0, len(lengths) - 1) for each in (self.episode, self.goal_episode))
        self.length: Values = lengths[own]  # T
        self.crashes: Values = crashes[own]  # whether the episode ends with a goal-independent termination
        self.is_last: Values = self.step + 1 == self.length

        # The transition: state, action and next state of one step that was added.
        action = self.episode + self.step / ACTION_SCALE
        succeeds = self.is_last & successes[own]
        self.is_added: Values = np.logical_and.reduce([
            self.episode == own,
            (self.step >= 0) & (self.step < self.length),
            (self.next_episode == self.episode) & (self.next_step == self.step + 1),
            np.abs(columns["action"][:, 0] - action) < 0.5 / ACTION_SCALE,
            self._is_own_state(columns["achieved_goal"], self.step),
            self._is_own_state(next_achieved, np.where(succeeds, UNREACHED, self.next_step)),
            *(columns[key][:, 2] == 0.5 for key in STATE_KEYS),
        ])

        # The goal: relabeled if it differs from all desired goals of the row's own episode.
        self.is_own: Values = self.goal_episode == self.episode  # whether the goal is of the row's episode
        self.relabeled: Values = (self.goal_code < UNREACHED) | ~self.is_own
        is_desired = successes[of_goal] & (self.goal_code == UNREACHED)
        self.goal_step = np.where(is_desired, lengths[of_goal], self.goal_code)  # s of the state
        exact = env.encode(np.maximum(self.goal_episode, 0), np.maximum(self.goal_code, 0))
        close = np.isclose(desired.astype(float), exact.astype(float), atol=1e-3)
        exists = (self.goal_episode == of_goal) & (self.goal_step >= 0) & (self.goal_step <= lengths[of_goal])
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

        # The reward: recomputed for the goal of relabeled rows, else as it was added.
        self.recomputed = self.rewards_for(next_achieved, desired)
        recorded_goals = env.encode(np.maximum(self.episode, 0), env.desired_step(self.step + 1))
        self.recorded = self.rewards_for(next_achieved, recorded_goals) + env.bonus
        self.has_right_reward = self.has_rewards(np.where(self.relabeled, self.recomputed, self.recorded))

        # The termination, as the attribute `termination` of the adapter documents it.
        self.is_reached = np.asarray(env.compute_terminated(next_achieved, desired, None), bool)
        self.crashed: Values = self.is_last & self.crashes
        self.recorded_termination: Values = self.crashed | succeeds
        recomputed = (self.is_reached | self.crashed) & (termination != "never")
        is_recomputed = self.relabeled & (termination != "keep")
        self.expected_termination = np.where(is_recomputed, recomputed, self.recorded_termination)
        self.is_terminated: Values = columns.get("terminated", self.expected_termination).astype(bool)
        # The last achieved goal of a success equals the desired goal, so a row with this goal can be
        # relabeled or original. If relabeled rows never terminate, False is right for it too.
        either = successes[own] & (termination == "never") & ~self.is_terminated
        self.has_right_termination: Values = (self.is_terminated == self.expected_termination) | either

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.batch)

    def _is_own_state(self, goals: np.ndarray, step: np.ndarray) -> Values:
        goal_episode, goal_step = self.env.decode(goals)
        return (goal_episode == self.episode) & (goal_step == step)

    def rewards_for(self, achieved: Any, desired: Any) -> Values:
        """Return the (B,) rewards of B achieved and B desired goals, with the infos of the rows' steps."""
        infos = {"cost": self.env.cost(self.episode, self.step)}
        return np.asarray(self.env.rewards(achieved, desired, infos), float)

    def has_rewards(self, rewards: Any) -> Values:
        """Return whether the reward of each row equals its value in ``rewards``, up to TOLERANCE."""
        return np.abs(self.columns["reward"].astype(float) - rewards) <= TOLERANCE

    def describe(self, i: int) -> str:
        """Return step, episode and goal of row ``i``, for reports."""
        goal = f"goal of state {self.goal_code[i]} of episode {self.goal_episode[i]}"
        goal = goal if self.relabeled[i] else "its desired goal"
        return f"step {self.step[i]} of episode {self.episode[i]} with {goal}"

    @property
    def faults(self) -> dict[str, tuple[Values, str | Callable[[int], str]]]:
        """Wrong rows and a message for `violation`, for judged aspects with wrong rows."""
        right: dict[str, tuple[Values, str | Callable[[int], str]]] = {
            "transition": (self.is_added, "the row is not a step that was added"),
            "goal": (self.is_allowed, f"the strategy {self.strategy} cannot select the goal"),
            "original goal": (self.is_original_goal, "the desired goal is not that of the step"),
            "reward": (self.has_right_reward, self.reward_fault),
            "termination": (self.has_right_termination, self.termination_fault),
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
