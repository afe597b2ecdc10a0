"""Parts of `HerReplayBuffer`: conversion to SB3's shapes, storage of infos, storage of open episodes."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.preprocessing import get_action_dim

from her_wrappers.data.spaces import LeafSpec, SpaceSpec
from her_wrappers.data.trees import copy_tree
from her_wrappers.recording.episodes import Episodes
from her_wrappers.recording.values import as_batch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from her_wrappers.data.infos import Where
    from her_wrappers.recording.episode import Episode

Row = list[bytes]
"""Observations or actions of N environments at one step: one bytes object for each array of the space."""

STEP = "step"
"""Info key under which the buffer stores, for each step, the number of its info in `RecordedInfos`."""


class RecordedInfos:
    """Stores the info dicts of the steps in the buffer and in open episodes, each under a number."""

    def __init__(self) -> None:
        self._next = 0
        self._by_step: dict[int, dict[str, Any]] = {}
        self._stored: deque[int] = deque()

    def keep(self, infos: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """Store copies of n infos; return the number under which each is stored, (n,) int64."""
        steps = np.arange(self._next, self._next + len(infos))
        self._next += len(infos)
        self._by_step.update(zip(steps.tolist(), map(copy_tree, infos), strict=True))
        return steps

    def evict(self, episodes: Episodes, count: int) -> None:
        """Drop the infos of evicted steps after ``episodes`` were stored; ``count`` infos remain.

        Infos of demonstrations are never evicted, since their episodes are not given to this method.
        """
        self._stored.extend(episodes.infos[STEP].tolist())
        while len(self._stored) > count:
            del self._by_step[self._stored.popleft()]

    def keep_first(self, count: int) -> None:
        """Drop all infos except those with numbers below ``count``, which are of demonstrations."""
        self._by_step = {step: info for step, info in self._by_step.items() if step < count}
        self._stored.clear()

    def of(self, info: Any) -> Any:
        """Return a copy of the stored info whose number is ``info[STEP]``; {} if no info has this number.

        If ``info`` is a list of B dicts, return their infos as a (B,) object array, as SB3 does.
        """
        if isinstance(info, dict):
            return copy_tree(self._by_step.get(info.get(STEP, -1), {}))
        rows = np.empty(len(info), object)
        rows[:] = [self.of(row) for row in info]
        return rows


class Sb3Shapes:
    """Shapes and dtypes of transitions in SB3, where Discrete observations and all actions are vectors.

    ``states`` and ``actions`` are the spaces of a stored observation and a stored action of one environment.
    ``state_spec`` and ``action_spec`` list the leaves of these spaces. ``n_envs`` is N, the number of
    environments.
    """

    def __init__(self, observation_space: spaces.Dict, action_space: spaces.Space[Any], n_envs: int) -> None:
        self.states = spaces.Dict({key: _with_axis(part) for key, part in observation_space.items()})
        self.actions = _with_axis(action_space)
        self._action_shape = n_envs, get_action_dim(action_space)
        self._action_space = action_space
        if isinstance(action_space, spaces.Box):
            # SB3 casts float64 to float32, and scales actions with bounds to [-1, 1].
            dtype: Any = ReplayBuffer._maybe_cast_dtype(action_space.dtype)  # noqa: SLF001 - SB3's own rule
            bound = 1 if action_space.is_bounded() else np.inf
            self.actions = spaces.Box(-bound, bound, self._action_shape[1:], dtype)
        self.state_spec = SpaceSpec.of("observation", self.states)
        self.action_spec = SpaceSpec.of("action", self.actions)
        self.n_envs = n_envs
        self._parts = [(str(leaf.path[0]), (n_envs, *leaf.shape), leaf.dtype) for leaf in self.state_spec]
        (self._action_leaf,) = self.action_spec

    def read_states(self, obs: Mapping[str, Any], where: Where) -> list[bytes]:
        """Return N observations as one bytes object per leaf; raise ValueError if any is not valid."""
        row = [
            value.tobytes()
            for key, shape, dtype in self._parts
            if type(value := obs.get(key)) is np.ndarray and value.dtype is dtype and value.shape == shape
        ]
        if len(row) == len(self._parts):
            return row
        states = dict(obs)
        for key, shape, dtype in self._parts:
            value = obs.get(key)
            if type(value) is np.ndarray:
                if value.dtype.kind == dtype.kind == "f":  # DummyVecEnv casts floats, SubprocVecEnv does not
                    value = value.astype(dtype)
                states[key] = value.reshape(shape) if value.shape == shape[:1] else value
        leaves = [(leaf, leaf.find(states, "in the batch")) for leaf in self.state_spec]
        return [as_batch(leaf, value, count=self.n_envs, where=where).tobytes() for leaf, value in leaves]

    def read_episode(self, episode: Episode, pictures: Sequence[str]) -> Episode:
        """Return the episode in SB3's shapes and dtypes; actions from a bounded Box are scaled to [-1, 1].

        Args:
            episode: An episode of one environment.
            pictures: Keys of the pictures (H, W, C) that SB3 converts to (C, H, W).

        Raises:
            ValueError: An observation has another shape.
        """
        actions, box = episode.actions, self._action_space
        if isinstance(box, spaces.Box) and box.is_bounded():  # as in `scale_action` of SB3's policies
            actions = 2 * (actions - box.low) / (box.high - box.low) - 1
        states = {}
        for key, values in episode.observations.items():
            rows = np.moveaxis(values, -1, 1) if key in pictures else values
            shape = len(values), *(self.states[key].shape or ())
            if rows.shape[1:] != shape[1:] and rows.ndim > 1:
                raise ValueError(f"{key!r} must have rows of shape {shape[1:]}, got {rows.shape[1:]}")
            states[key] = rows.reshape(shape)
        actions = actions.reshape(len(actions), *self._action_shape[1:]).astype(self._action_leaf.dtype)
        return replace(episode, observations=states, actions=actions)

    def as_env(self, states: Mapping[str, Any], pictures: Sequence[str]) -> dict[str, Any]:
        """Return observations or goals with ``pictures`` as (..., H, W, C), as the environment has them."""
        return {
            key: np.ascontiguousarray(np.moveaxis(rows, -3, -1)) if key in pictures else rows
            for key, rows in states.items()
        }

    def env_actions(self, actions: np.ndarray) -> np.ndarray:
        """Return stored actions, (B, A), as (B, ...) actions of the environment."""
        box = self._action_space
        if isinstance(box, spaces.Box) and box.is_bounded():  # as in `unscale_action` of SB3's policies
            actions = box.low + 0.5 * (actions.reshape(-1, *box.shape) + 1) * (box.high - box.low)
        return actions.reshape(len(actions), *(box.shape or ()))

    def arrays_of(self, states: Row) -> list[np.ndarray]:
        """Convert ``states``, N observations from `read_states`, to one (N, ...) array per leaf."""
        parts = zip(self._parts, states, strict=True)
        return [np.ndarray(shape, dtype, data) for (_, shape, dtype), data in parts]

    def read_actions(self, action: Any, where: Where) -> list[bytes]:
        """Return all N actions as one bytes object, in a list; raise ValueError if an action is not valid."""
        actions, leaf = np.asarray(action), self._action_leaf
        if actions.size != self._action_shape[0] * self._action_shape[1]:
            raise ValueError(f"action must have shape {self._action_shape}, got {actions.shape}")
        if actions.dtype is not leaf.dtype:
            rows = actions.reshape(self._action_shape)
            actions = as_batch(leaf, rows, count=self.n_envs, where=where, rounding=True)
        return [actions.tobytes()]


def _with_axis(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Replace a Discrete space by a MultiDiscrete space of shape (1,); return other spaces unchanged."""
    if isinstance(space, spaces.Discrete):
        return spaces.MultiDiscrete([space.n], dtype=space.dtype.type, start=[space.start])
    return space


class StepBytes(NamedTuple):
    """One step of all environments."""

    actions: Row
    rewards: list[float]  # N rewards
    infos: np.ndarray | None  # (N,) numbers in `RecordedInfos`; None if infos are not stored


class VectorEpisodeBytes:
    """The open episodes of N environments that step together.

    Steps are stored as bytes and become arrays only when their episode ends. `EpisodeAccumulator` would take
    three times as long per step for one environment (docs/decisions.md).
    """

    def __init__(self, shapes: Sb3Shapes) -> None:
        self._state_spec, self._action_spec = shapes.state_spec, shapes.action_spec
        self._begun: list[int | None] = [None] * shapes.n_envs  # index of the first step of an open episode
        self._states: list[Row] = []
        self._steps: list[StepBytes] = []

    @property
    def lengths(self) -> list[int]:
        """For each environment, the number of steps of its open episode, or -1 if no episode is open."""
        return [-1 if begun is None else len(self._steps) - begun for begun in self._begun]

    def where(self, env: int, ahead: int = 0) -> str:
        """Return text such as "at step 3 of environment 0"; ``ahead`` is added to the number of the step."""
        return f"at step {max(0, self.lengths[env]) + ahead} of environment {env}"

    def environments_not_at(self, states: Row) -> list[int]:
        """Return the environments that have no open episode, or whose last state differs from ``states``."""
        if None not in self._begun and states == self._states[-1]:
            return []
        return [
            i
            for i, begun in enumerate(self._begun)
            if begun is None
            or _rows(self._state_spec, states, i) != _rows(self._state_spec, self._states[-1], i)
        ]

    def begin(self, envs: Sequence[int], states: Row) -> None:
        """Begin an episode in each of ``envs``; ``states`` are the current states of all environments."""
        self._close(envs)
        self._states[-1:] = [states]
        for i in envs:
            self._begun[i] = len(self._steps)

    def add(self, step: StepBytes, states: Row) -> None:
        """Add a step of all environments, and the states after the step."""
        self._steps.append(step)
        self._states.append(states)

    def finish(self, envs: Sequence[int], terminated: Sequence[bool]) -> Episodes | None:
        """Close the open episodes of ``envs``, and return them without the empty ones; None if all are empty.

        ``terminated`` has a flag for each of ``envs``: True if its episode is terminated, False if truncated.
        """
        lengths = self.lengths
        ends = {i: end for i, end in zip(envs, terminated, strict=True) if lengths[i] > 0}
        if not ends:
            self._close(envs)
            return None
        now = len(self._steps)
        spans = [(i, range(now - lengths[i], now)) for i in ends]
        flags = np.array(list(ends.values()), bool)
        state_rows = [(i, self._states[span.start :]) for i, span in spans]
        step_rows = [(i, [self._steps[t].actions for t in span]) for i, span in spans]
        infos = [(self._steps[t].infos, i) for i, span in spans for t in span]
        numbers = [None if each is None else each[i] for each, i in infos]
        episodes = Episodes(
            observations=_columns(self._state_spec, state_rows),
            actions=_columns(self._action_spec, step_rows),
            rewards=np.array([self._steps[t].rewards[i] for i, span in spans for t in span], np.float64),
            lengths=np.array([len(span) for _, span in spans]),
            terminated=flags,
            truncated=~flags,
            infos={} if numbers[0] is None else {STEP: np.array(numbers)},
        )
        self._close(envs)
        return episodes

    def _close(self, envs: Sequence[int]) -> None:
        """Close the episodes of ``envs``; drop the steps before the oldest episode that is still open."""
        for i in envs:
            self._begun[i] = None
        oldest = min((begun for begun in self._begun if begun is not None), default=len(self._steps))
        del self._states[:oldest], self._steps[:oldest]
        self._begun = [None if begun is None else begun - oldest for begun in self._begun]


def _part(leaf: LeafSpec, data: bytes, env: int) -> bytes:
    size = math.prod(leaf.shape) * leaf.dtype.itemsize
    return data[env * size : (env + 1) * size]


def _rows(spec: SpaceSpec, row: Row, env: int) -> Row:
    """Return the bytes of one environment, ``env``, from a row with the bytes of all environments."""
    return [_part(leaf, data, env) for leaf, data in zip(spec, row, strict=True)]


def _columns(spec: SpaceSpec, pairs: Sequence[tuple[int, Sequence[Row]]]) -> Any:
    """Decode bytes to a tree of arrays; a pair has the index of an environment, and its rows to decode."""
    count = sum(len(rows) for _, rows in pairs)
    return spec.build([
        np.ndarray(
            (count, *leaf.shape),
            leaf.dtype,
            b"".join([_part(leaf, row[number], env) for env, rows in pairs for row in rows]),
        )
        for number, leaf in enumerate(spec)
    ])
