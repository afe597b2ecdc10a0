"""BufferDriver adds numbered episodes to a buffer; DecodedRows decodes the numbers in sampled rows."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from her_wrappers.conformance.adapter import STRATEGIES, ReplayAdapter
from her_wrappers.conformance.env import ACTION_SCALE, ConformanceEnv, EndOfEpisode, round_to_int
from her_wrappers.rules import Violation

OBSERVATION_KEYS = ("achieved_goal", "desired_goal", "next_achieved_goal", "next_desired_goal")
STATE_KEYS = ("observation", "next_observation")
OPTIONAL_KEYS = ("truncated", "discount", "index", "weight")
TOLERANCE = 1e-4

MESSAGES = {
    "transition": "the row does not match any step that was added",
    "goal": "the strategy cannot select the goal",
    "original goal": "the desired goal is not the desired goal of the step",
    "next goal": "the next observation has another desired goal than the observation",
    "precision": "a goal lost precision",
}
ASPECTS = (*MESSAGES, "reward", "terminated", "truncated", "discount")
"""Aspects in which a row can be wrong: the keys of `MESSAGES`, and columns that have an expected value."""

Values: TypeAlias = Any
"""A (B,) array. The alias is Any, since NumPy's operators are annotated to return Any."""


class ScenarioError(ValueError):
    """A scenario failed; ``code`` is the code of the rule that reports this failure, HB001 to HB005."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


N_SAMPLED_GOAL = 4
"""Number of relabeled transitions per original transition."""

HORIZON = 12
"""Maximum number of steps of an episode, except in scenarios of long episodes."""

Batches: TypeAlias = Sequence[dict[str, np.ndarray]]


def first_strategy(adapter: type[ReplayAdapter]) -> str:
    """Return the strategy that most scenarios use: the first of `STRATEGIES` that the adapter offers."""
    return next(name for name in STRATEGIES if name in adapter.offers)


class BufferDriver:
    """A new buffer, with methods that add episodes and sample decoded rows.

    ``options`` are passed to the adapter. If the adapter does not offer ``strategy``, the result of
    `first_strategy` is used instead. ``known_faults`` are the `ASPECTS` in which rows of a simpler scenario
    were already wrong; `DecodedRows.faults` omits them.
    """

    def __init__(
        self,
        adapter: type[ReplayAdapter],
        *,
        seed: int = 0,
        seed_offset: int = 0,
        strategy: str = "",
        env: ConformanceEnv | None = None,
        known_faults: AbstractSet[str] = frozenset(),
        **options: Any,
    ) -> None:
        self.adapter, self.seed = adapter, seed + seed_offset
        self.known_faults = known_faults
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
        """Add one episode for each of ``lengths``, or only the first ``steps`` steps of each; return self.

        The end of episode i, if all its steps are added, is ``ends[i % len(ends)]``, such as ``"success"``.
        """
        for length, end in zip(lengths, itertools.cycle(ends), strict=False):
            for transition in itertools.islice(self.env.transitions(length, end), steps):
                self.buffer.add(*transition, env_index=0)
        return self

    def reload(self) -> None:
        """Save the buffer and replace it by a new buffer that loads it, if the adapter offers ``"save"``."""
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
        """Return copies of a batch's arrays; raise ScenarioError unless they are valid for ``rows`` rows."""
        spaces = self.env.observation_space.items()
        needed = {prefix + key: space.shape or () for prefix in ("", "next_") for key, space in spaces}
        needed |= {"action": (1,), "reward": ()}
        if self.adapter.termination is not None:
            needed["terminated"] = ()
        if "prioritized" in self.options:
            needed["index"] = ()
        if not isinstance(batch, dict):
            raise ScenarioError("HB002", f"sample() returned {type(batch).__name__}, not a dict")
        missing = [key for key in needed if key not in batch]
        if missing:
            keys = ", ".join(map(repr, missing))
            raise ScenarioError("HB002", f"sample() returned a dict without the keys {keys}")
        arrays = {}
        for key in dict.fromkeys((*needed, *(key for key in OPTIONAL_KEYS if key in batch))):
            shape = (rows, *needed.get(key, ()))
            try:
                array = np.array(batch[key])
            except Exception as error:  # anything that the conversion of a user's object raises
                message = f"{key!r} cannot be converted from {type(batch[key]).__name__} to an array: {error}"
                raise ScenarioError("HB003", message) from error
            if array.shape != shape:
                raise ScenarioError("HB003", f"{key!r} has shape {array.shape} instead of {shape}")
            if array.dtype.kind not in "fiub":
                raise ScenarioError("HB003", f"{key!r} has dtype {array.dtype}, which is not numeric")
            arrays[key] = array
        return arrays

    def rows(self, count: int, rows: int = 128) -> DecodedRows:
        """Sample ``count`` batches of ``rows`` rows each, and return all rows as `DecodedRows`."""
        return DecodedRows(self, self.batches(count, rows))


class StepValues(NamedTuple):
    """Correct values, (B,) each, of the steps of B rows, or of the steps that come m steps later."""

    code: Values  # step number in the next achieved goal
    recorded_reward: Values  # reward of the step when it was added
    reward: Values
    is_reached: Values  # whether the next state reaches the goal of the row
    crashed: Values
    recorded_end: Values  # whether the step was added as terminated
    terminated: Values


class DecodedRows:
    """The rows (sampled transitions) of several batches, and the values that each row should have.

    The B rows of all batches are concatenated. ``columns`` is a dict of the sampled (B, ...) arrays. Other
    arrays are (B,): for example, ``episode[i]`` and ``step[i]`` are the episode number and the step number of
    row i, and ``wrong[aspect]`` is a mask of the rows that are wrong in this aspect, one of `ASPECTS`.
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

        # Episode numbers that do not exist are clipped; is_added and is_achieved are False in such rows.
        lengths = np.array([each.length for each in env.episodes])
        successes = np.array([each.is_success for each in env.episodes])
        crashes = np.array([each.end == "crash" and each.is_complete for each in env.episodes])
        own, of_goal = (np.clip(each, 0, len(lengths) - 1) for each in (self.episode, self.goal_episode))
        self.length: Values = lengths[own]  # T
        self.is_last: Values = self.step + 1 == self.length
        self._crashes, self._successes = crashes[own], successes[own]
        self.is_complete: Values = np.array([each.is_complete for each in env.episodes])[own]

        # The goal: relabeled if it is not a desired goal of the row's own episode.
        self.is_own: Values = self.goal_episode == self.episode  # whether the goal is of the row's episode
        self.relabeled: Values = (self.goal_code < env.unreached) | (self.goal_code % 2 == 1) | ~self.is_own
        self.goal_length: Values = lengths[of_goal]
        of_success = successes[of_goal] & (self.goal_code == env.desired_step(self.goal_length) + 1)
        self.goal_step = np.where(of_success, self.goal_length, self.goal_code)  # s of the state
        exact = env.encode(np.maximum(self.goal_episode, 0), np.maximum(self.goal_code, 0))
        close = np.isclose(columns["desired_goal"].astype(float), exact.astype(float), atol=1e-3)
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
        next_episode, next_code = env.decode(columns["next_desired_goal"])
        is_same = (next_episode == self.goal_episode) & (next_code == self.goal_code)
        is_next = (next_episode == self.episode) & (next_code == env.desired_step(self.step + 1))

        # The transition: state, action and next state of one step that was added.
        self.right = self.values_of_step()
        action = self.episode + self.step / ACTION_SCALE
        self.is_added: Values = np.logical_and.reduce([
            self.episode == own,
            (self.step >= 0) & (self.step < self.length),
            (self.next_episode == self.episode) & (self.next_step == self.step + 1),
            np.abs(columns["action"][:, 0] - action) < 0.1 / ACTION_SCALE,
            self._is_own_state(columns["achieved_goal"], self.step),
            self._is_own_state(columns["next_achieved_goal"], self.right.code),
            *((each[:, 2] == 0.5) & (np.abs(each - each.round(1)).max(axis=1) < 1e-3) for each in states),
        ])

        # The found and the expected values of columns; a column that the batches do not have is right.
        # All rows that are not terminated have the same discount.
        self.is_terminated: Values = np.asarray(columns.get("terminated", self.right.terminated), bool)
        discount = np.where(self.is_terminated, 0.0, columns.get("discount", np.ones(1)).max())
        truncated = self.is_last & ~self.right.recorded_end
        self._values: dict[str, tuple[Any, Any]] = {
            "reward": (columns["reward"].astype(float), self.right.reward),
            "terminated": (self.is_terminated, self.right.terminated),
            "truncated": (columns.get("truncated", truncated).astype(bool), truncated),
            "discount": (columns.get("discount", discount), discount),
        }
        self.wrong: dict[str, Values] = {
            "transition": ~self.is_added,
            "goal": ~self.is_allowed,
            "original goal": ~self.relabeled & ~is_of_step,
            "next goal": ~(is_same | (~self.relabeled & is_next)),
            "precision": ~np.logical_and.reduce([self._is_precise(columns[key]) for key in OBSERVATION_KEYS]),
            **{name: differ(*values) for name, values in self._values.items()},
        }
        # A relabeled success need not be truncated too.
        either = self.is_last & (~self.is_complete | (self.relabeled & self.is_terminated))
        self.wrong["truncated"] &= ~either

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.batch)

    def _is_own_state(self, goals: np.ndarray, step: np.ndarray) -> Values:
        goal_episode, goal_step = self.env.decode(goals)
        return (goal_episode == self.episode) & (goal_step == step)

    def _is_precise(self, goals: np.ndarray) -> Values:
        """Return whether each goal stays exactly equal if it is decoded and encoded again, (B,) bool."""
        is_equal = goals == self.env.encode(*self.env.decode(goals))
        return is_equal.reshape(len(self), -1).all(axis=1)

    def values_of_step(self, ahead: int = 0) -> StepValues:
        """Return the correct values of step ``step + ahead`` of each row's episode, for the row's goal."""
        env, step, episode = self.env, self.step + ahead, np.maximum(self.episode, 0)
        is_last = step + 1 == self.length
        code = np.where(is_last & self._successes, env.desired_step(step + 1) + 1, step + 1)
        achieved, own_goal = env.encode(episode, code), env.encode(episode, env.desired_step(step + 1))
        recorded_reward = self.rewards_for(achieved, own_goal, ahead) + env.bonus
        recomputed = self.rewards_for(achieved, self.columns["desired_goal"], ahead)
        is_reached = np.asarray(env.compute_terminated(achieved, self.columns["desired_goal"], None), bool)
        crashed, recorded_end = is_last & self._crashes, is_last & (self._crashes | self._successes)
        terminated = (is_reached | crashed) & (self.termination != "never")
        is_recomputed = self.relabeled & (self.termination != "keep")
        return StepValues(
            code,
            recorded_reward,
            np.where(self.relabeled, recomputed, recorded_reward),
            is_reached,
            crashed,
            recorded_end,
            np.where(is_recomputed, terminated, recorded_end),
        )

    def rewards_for(self, achieved: Any, desired: Any, ahead: int = 0) -> Values:
        """Return the (B,) rewards of B pairs of goals, with the infos of the steps ``self.step + ahead``."""
        infos = {"cost": self.env.cost(self.episode, self.step + ahead)}
        return np.asarray(self.env.rewards(achieved, desired, infos), float)

    def describe(self, i: int) -> str:
        """Return a text that names the step, the episode and the goal of row ``i``."""
        goal = f"goal of state {self.goal_code[i]} of episode {self.goal_episode[i]}"
        goal = goal if self.relabeled[i] else "its desired goal"
        return f"step {self.step[i]} of episode {self.episode[i]} with {goal}"

    @property
    def faults(self) -> list[str]:
        """The `ASPECTS` in which any row is wrong, without those that were wrong in a simpler scenario."""
        return [name for name in ASPECTS if name not in self._known_faults and self.wrong[name].any()]

    def violation(
        self, wrong: np.ndarray, message: str, values: tuple[Any, Any] | None = None, suffix: str = ""
    ) -> Iterator[Violation]:
        """Yield a violation for the first wrong row, if any; ``values`` are the found and expected values."""
        for i in np.flatnonzero(wrong)[:1].tolist():
            if values is not None:
                found, expected = (
                    f"{each[i]:.5g}" if each.dtype.kind == "f" else str(each[i]) for each in values
                )
                message += f" is {found} instead of {expected}{suffix}"
            yield Violation(f"{message}: {int(wrong.sum())} of {len(self)} rows", self.describe(i))

    def violation_in(self, aspect: str, among: Any = True, suffix: str = "") -> Iterator[Violation]:
        """Yield one violation if ``aspect`` is wrong in any row of the mask ``among``.

        ``suffix`` follows the found and the expected value in the message, if the aspect has such values.
        """
        message, values = MESSAGES.get(aspect, aspect), self._values.get(aspect)
        yield from self.violation(self.wrong[aspect] & among, message, values, suffix)

    def first_violation(self) -> Iterator[Violation]:
        """Yield a violation for the first entry of `faults`, such as "reward"; nothing without `faults`."""
        for aspect in self.faults[:1]:
            yield from self.violation_in(aspect)


def differ(found: Any, expected: Any) -> Values:
    """Return, (B,) bool, whether two values differ by more than TOLERANCE; also True if either is NaN."""
    return ~(np.abs(found.astype(float) - expected) <= TOLERANCE)


def first_of_each(rows: DecodedRows, chosen: np.ndarray) -> np.ndarray:
    """Return, among the rows in the mask ``chosen``, the index of the first row of each transition.

    Statistical tests of goals use only these rows, since several rows of one transition may depend on each
    other: a buffer that stores relabeled transitions can sample the same one twice.
    """
    index = np.flatnonzero(chosen)
    _, first = np.unique(rows.transition[index], return_index=True)
    return index[first]
