"""Open episodes of `HerReplayBuffer`, stored as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.integrations.sb3_infos import STEP
from her_wrappers.recording.episodes import Episodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.spaces import LeafSpec, SpaceSpec

Row = list[bytes]
"""Observations or actions of all environments: the bytes of each leaf."""


class StepBytes(NamedTuple):
    """One step of all environments.

    Attributes:
        actions: Bytes of the actions.
        rewards: N rewards.
        infos: (N,) numbers of the infos in `RecordedInfos`; None if infos are not stored.
    """

    actions: Row
    rewards: list[float]
    infos: np.ndarray | None


class VectorEpisodeBytes:
    """The open episodes of N environments that step together.

    Steps are stored as bytes, which become arrays when an episode ends. `EpisodeAccumulator` makes more
    function calls per step, which are slow between the updates of a network, since updates fill the caches of
    the processor.

    Args:
        state_spec: Leaves of the stored observations of one environment.
        action_spec: Leaves of the stored actions of one environment.
        n_envs: Number of environments, N.
    """

    def __init__(self, state_spec: SpaceSpec, action_spec: SpaceSpec, n_envs: int) -> None:
        self._state_spec = state_spec
        self._action_spec = action_spec
        self._begun: list[int | None] = [None] * n_envs  # index of the first step of an open episode
        self._states: list[Row] = []
        self._steps: list[StepBytes] = []

    @property
    def lengths(self) -> list[int]:
        """Number of steps of the open episode of each of N environments; -1 if no episode is open."""
        return [-1 if begun is None else len(self._steps) - begun for begun in self._begun]

    @property
    def span(self) -> int:
        """Number of stored steps; an open episode has at most this number of steps."""
        return len(self._steps)

    def where(self, env: int) -> str:
        """Return a description of an environment and its current step, for messages."""
        return f"at step {max(0, self.lengths[env])} of environment {env}"

    def where_next(self, env: int) -> str:
        """Return a description of an environment and its next step, for messages."""
        return f"at step {max(0, self.lengths[env]) + 1} of environment {env}"

    def is_at(self, states: Row) -> bool:
        """Whether all environments have open episodes, and their current states are equal to ``states``."""
        return None not in self._begun and states == self._states[-1]

    def environments_not_at(self, states: Row) -> list[int]:
        """Return the environments without an open episode, or whose current state differs from ``states``."""
        return [
            i
            for i, begun in enumerate(self._begun)
            if begun is None or _rows(self._state_spec, states, i) != self._present(i)
        ]

    def begin(self, envs: Sequence[int], states: Row) -> None:
        """Open episodes in some environments; ``states`` are the current states of all environments."""
        self._close(envs)
        self._states[-1:] = [states]
        for i in envs:
            self._begun[i] = len(self._steps)

    def add(self, step: StepBytes, states: Row) -> None:
        """Add a step of all environments, and the states after the step."""
        self._steps.append(step)
        self._states.append(states)

    def finish(self, envs: Sequence[int], terminated: Sequence[bool]) -> Episodes | None:
        """Close open episodes, and return those with at least one step, or None if there are none.

        Args:
            envs: Indices of the environments.
            terminated: Whether each episode is terminated; the others are truncated.
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
        episodes = Episodes(
            observations=_columns(self._state_spec, state_rows),
            actions=_columns(self._action_spec, step_rows),
            rewards=np.array([self._steps[t].rewards[i] for i, span in spans for t in span], np.float64),
            lengths=np.array([len(span) for _, span in spans]),
            terminated=flags,
            truncated=~flags,
            infos=self._infos(spans),
        )
        self._close(envs)
        return episodes

    def discard(self) -> None:
        """Drop all open episodes."""
        self._close(range(len(self._begun)))

    def _present(self, env: int) -> Row:
        """Return the current state of an environment."""
        return _rows(self._state_spec, self._states[-1], env)

    def _infos(self, spans: Sequence[tuple[int, range]]) -> dict[str, np.ndarray]:
        """Return the numbers of the infos of some steps."""
        numbers: list[Any] = [self._steps[t].infos for _, span in spans for t in span]
        if numbers[0] is None:
            return {}
        envs = [i for i, span in spans for _ in span]
        return {STEP: np.array([each[i] for each, i in zip(numbers, envs, strict=True)])}

    def _close(self, envs: Sequence[int]) -> None:
        """Close episodes, and drop steps that do not belong to an open episode."""
        for i in envs:
            self._begun[i] = None
        oldest = min((begun for begun in self._begun if begun is not None), default=len(self._steps))
        del self._states[:oldest], self._steps[:oldest]
        self._begun = [None if begun is None else begun - oldest for begun in self._begun]


def _part(leaf: LeafSpec, data: bytes, env: int) -> bytes:
    """Return the bytes of one environment."""
    return data[env * leaf.nbytes : (env + 1) * leaf.nbytes]


def _rows(spec: SpaceSpec, row: Row, env: int) -> Row:
    """Return the bytes of each leaf of one environment."""
    return [_part(leaf, data, env) for leaf, data in zip(spec, row, strict=True)]


def _columns(spec: SpaceSpec, rows: Sequence[tuple[int, Sequence[Row]]]) -> Any:
    """Return the tree of arrays that concatenates the rows of some environments."""
    count = sum(len(each) for _, each in rows)
    return spec.build([
        np.ndarray(
            (count, *leaf.shape),
            leaf.dtype,
            b"".join([_part(leaf, row[number], env) for env, each in rows for row in each]),
        )
        for number, leaf in enumerate(spec)
    ])
