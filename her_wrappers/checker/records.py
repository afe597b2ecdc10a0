"""Records of the calls of an environment: resets, steps, and the batches of a vector environment.

`split_batches` makes them episodes of single environments, so the same rules apply to both kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from her_wrappers.checker.exceptions import FailedCall
from her_wrappers.checker.values import to_arrays
from her_wrappers.infos import final_observation_row, info_row
from her_wrappers.trees import copy_tree, leaf_arrays, map_tree

OUTCOME = ("reward", "terminated", "truncated")


@dataclass(frozen=True, eq=False, slots=True)
class ResetRecord:
    """One call of ``reset`` with ``seed`` and ``options``; ``episode`` is the index of the new episode.

    Fields that begin with ``live_`` are the returned objects, which may change later; ``observation`` and
    ``info`` are copies made when ``reset`` returned.
    """

    episode: int
    seed: int | None
    options: dict[str, Any] | None
    observation: Any
    info: Any
    live_observation: Any
    live_info: Any

    @property
    def place(self) -> str:
        """Episode and options, for messages."""
        return f"episode {self.episode}, reset{f' with options={self.options!r}' if self.options else ''}"


@dataclass(frozen=True, eq=False, slots=True)
class StepRecord:
    """One call of ``step``; ``episode`` is the index of the episode, ``t`` that of the step in the episode.

    Fields that begin with ``live_`` are the objects passed and returned, which may change later; reward,
    terminated and truncated are in ``live_outcome``. The other fields are copies made when ``step`` was
    called or returned; ``before`` is a copy of the observation in which the action was taken.
    """

    episode: int
    t: int
    before: Any
    action: Any
    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any
    live_action: Any
    live_observation: Any
    live_info: Any
    live_outcome: tuple[Any, Any, Any]

    @property
    def outcome(self) -> tuple[Any, Any, Any]:
        """Reward, terminated and truncated."""
        return self.reward, self.terminated, self.truncated

    @classmethod
    def of(
        cls, place: tuple[int, int], before: Any, action: Any, live_action: Any, returned: tuple[Any, ...]
    ) -> StepRecord:
        """Return the record of a step.

        Args:
            place: Index of the episode, and of the step in the episode.
            before: Copy of the observation before the step.
            action: Copy of the action.
            live_action: Action object passed to ``step``.
            returned: The five values that ``step`` returned.
        """
        observation, reward, terminated, truncated, info = returned
        return cls(
            *place, before, action, copy_tree(observation), copy_tree(reward), copy_tree(terminated),
            copy_tree(truncated), copy_tree(info), live_action, observation, info,
            (reward, terminated, truncated),
        )  # fmt: skip

    @property
    def place(self) -> str:
        """Episode and step, for messages."""
        return f"episode {self.episode}, step {self.t}"


@dataclass(eq=False)
class Rollout:
    """The resets in order of time, and the steps in order of time.

    Attributes:
        resets: Records of the calls of ``reset``.
        steps: Records of the calls of ``step``.
        failure: The call that raised an exception, in the run or in an experiment after the run, or None.
        cut_off: Reason why the run stopped early, or an empty text.
        ended_episodes: Number of episodes that terminated or were truncated.
        spaces_replaced: Names of the space attributes that the environment replaced during the run.
    """

    resets: list[ResetRecord] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    failure: FailedCall | None = None
    cut_off: str = ""
    ended_episodes: int = 0
    spaces_replaced: Sequence[str] = ()

    @property
    def records(self) -> list[ResetRecord | StepRecord]:
        """All resets, followed by all steps."""
        return [*self.resets, *self.steps]


def call_reset(env: Any, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
    """Return what ``reset`` of an environment returns, with arrays instead of tensors.

    Raises:
        TypeError: ``reset`` does not return two values.
    """
    observation, info = to_arrays(require_tuple(env.reset(seed=seed, options=copy_tree(options)), 2))
    return observation, info


def call_step(env: Any, action: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return what ``step`` of an environment returns, with arrays instead of tensors.

    Raises:
        TypeError: ``step`` does not return five values.
    """
    observation, reward, terminated, truncated, info = to_arrays(require_tuple(env.step(action), 5))
    return observation, reward, terminated, truncated, info


def require_tuple(returned: Any, length: int) -> tuple[Any, ...]:
    """Return ``returned``, or raise TypeError if it is not a tuple of ``length`` values."""
    if not isinstance(returned, tuple) or len(returned) != length:
        count = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
        raise TypeError(f"expected {length} values, got {count}")
    return returned


def wrong_shapes(
    record: ResetRecord | StepRecord, num_envs: int
) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Yield name, shape and expected shape of each array that does not have one row per environment.

    Args:
        record: Batch of a vector environment.
        num_envs: Number of environments, N.
    """
    observation = record.observation
    trees = observation if isinstance(observation, dict) else {"observation": observation}
    for key, tree in trees.items():
        for leaf in map(as_array, leaf_arrays(tree)):
            if leaf.shape[:1] != (num_envs,):
                yield str(key), leaf.shape, f"({num_envs}, ...)"
    if isinstance(record, StepRecord):
        for name in OUTCOME:
            shape = as_array(getattr(record, name)).shape
            if shape != (num_envs,):
                yield name, shape, f"({num_envs},)"


def as_array(value: Any) -> np.ndarray:
    """Return a value as an array, or an array of shape () for lists of unequal length."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.asarray(None)


def ended_rows(step: StepRecord) -> np.ndarray:
    """Return whether the episode of each environment ended: (N,) bool."""
    return np.array([bool(one or other) for one, other in zip(step.terminated, step.truncated, strict=True)])


def split_batches(batches: Rollout, mode: AutoresetMode, num_envs: int) -> Rollout:
    """Return a rollout of the episodes of the single environments, up to the first batch that lacks a row.

    Args:
        batches: Rollout of a vector environment.
        mode: Autoreset mode of the vector environment.
        num_envs: Number of environments, N.
    """
    rollout = replace(batches, resets=[], steps=[])
    episodes, times, ended = [0] * num_envs, [0] * num_envs, np.zeros(num_envs, bool)

    def start_episode(i: int, record: ResetRecord | StepRecord) -> None:
        episodes[i], times[i], ended[i] = len(rollout.resets), 0, False
        observations = (_row(record.observation, i), _row(record.live_observation, i))
        infos = (info_row(record.info, i, num_envs), info_row(record.live_info, i, num_envs))
        rollout.resets.append(
            ResetRecord(episodes[i], None, None, observations[0], infos[0], observations[1], infos[1])
        )

    def add_step(i: int, step: StepRecord, *, resets: bool) -> None:
        infos = [each.get("final_info") if resets else each for each in (step.info, step.live_info)]
        info, live_info = (info_row(each, i, num_envs) for each in infos)
        observation, live = (
            (final_observation_row(step.info, i), final_observation_row(step.live_info, i))
            if resets
            else (_row(step.observation, i), _row(step.live_observation, i))
        )
        if observation is None:
            return  # reported by final-obs-missing
        rollout.steps.append(
            StepRecord(
                episodes[i], times[i], _row(step.before, i), _row(step.action, i), observation,
                step.reward[i], bool(step.terminated[i]), bool(step.truncated[i]), info,
                _row(step.live_action, i), live, live_info, _row(step.live_outcome, i),
            )
        )  # fmt: skip
        times[i] += 1

    resets, episode = iter(batches.resets), -1  # an episode of the vector environment, see `_Runner`
    for step in batches.steps:
        while episode < step.episode:
            record, episode = next(resets), episode + 1
            mask = (record.options or {}).get("reset_mask", np.ones(num_envs, bool))
            for i in np.flatnonzero(mask).tolist():
                start_episode(i, record)
        if any(wrong_shapes(step, num_envs)):
            break
        ends = ended_rows(step)
        for i in range(num_envs):
            if ended[i]:
                start_episode(i, step)  # in mode NEXT_STEP, the row of a reset is not a transition
                continue
            resets_now = bool(ends[i]) and mode is AutoresetMode.SAME_STEP
            add_step(i, step, resets=resets_now)
            if resets_now:
                start_episode(i, step)
            ended[i] = ends[i] and mode is AutoresetMode.NEXT_STEP
    return rollout


def _row(batch: Any, i: int) -> Any:
    """Return a tree with row ``i`` of each array."""
    return map_tree(lambda leaf: leaf[i], batch)
