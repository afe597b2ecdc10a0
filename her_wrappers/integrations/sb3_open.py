"""Open episodes for Stable-Baselines3: what environments do, moment by moment, until their episodes end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.integrations.sb3_infos import STEP
from her_wrappers.recording.episodes import Episodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from her_wrappers.spaces import LeafSpec, SpaceSpec

Row = list[bytes]
"""One value of all environments: the bytes of each leaf."""


class Step(NamedTuple):
    """One step of all environments.

    Attributes:
        actions: What they did.
        rewards: N numbers, what they earned.
        infos: (N,) numbers of the infos, where those are kept.
    """

    actions: Row
    rewards: list[float]
    infos: np.ndarray | None


class EpisodeAccumulators:
    """The open episodes of N environments that step together.

    `VectorEpisodeAccumulator` does more, in many small calls. Between updates of a network, which leave
    nothing in the caches, each of these takes microseconds; so a step is kept as bytes here, and they become
    arrays when an episode ends.

    Args:
        state_spec: Leaves of the stored observations of one environment.
        action_spec: Leaves of the stored actions of one environment.
        n_envs: Number of environments, N.
    """

    def __init__(self, state_spec: SpaceSpec, action_spec: SpaceSpec, n_envs: int) -> None:
        self._state_spec = state_spec
        self._action_spec = action_spec
        self._begun: list[int | None] = [None] * n_envs  # the moment, where an episode is open
        self._states: list[Row] = []
        self._steps: list[Step] = []

    @property
    def lengths(self) -> list[int]:
        """N steps so far; -1 where no episode is open."""
        return [-1 if begun is None else len(self._steps) - begun for begun in self._begun]

    @property
    def span(self) -> int:
        """No open episode has more steps."""
        return len(self._steps)

    def where(self, env: int) -> str:
        """Say where an environment is, for messages."""
        return f"at step {max(0, self.lengths[env])} of environment {env}"

    def where_next(self, env: int) -> str:
        """Say where an environment will be after the next step."""
        return f"at step {max(0, self.lengths[env]) + 1} of environment {env}"

    def show(self, states: Row) -> bool:
        """Whether all have an episode under way, and these are the very bytes of their present states."""
        return None not in self._begun and states == self._states[-1]

    def elsewhere(self, states: Row) -> list[int]:
        """Return the environments that have no episode under way, or one that is in another state."""
        return [
            i
            for i, begun in enumerate(self._begun)
            if begun is None or _rows(self._state_spec, states, i) != self._present(i)
        ]

    def begin(self, envs: Sequence[int], states: Row) -> None:
        """Open episodes in these environments; all of them are in these states."""
        self._close(envs)
        self._states[-1:] = [states]
        for i in envs:
            self._begun[i] = len(self._steps)

    def add(self, step: Step, states: Row) -> None:
        """Add a step of all environments, which led to these states."""
        self._steps.append(step)
        self._states.append(states)

    def finish(self, envs: Sequence[int], terminated: Sequence[bool]) -> Episodes | None:
        """Close episodes and return those that have steps.

        Args:
            envs: The environments.
            terminated: Whether the task ended in each; else the episode was cut.
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
        """Close all episodes, and drop them."""
        self._close(range(len(self._begun)))

    def _present(self, env: int) -> Row:
        """Return the state that an environment is in."""
        return _rows(self._state_spec, self._states[-1], env)

    def _infos(self, spans: Sequence[tuple[int, range]]) -> dict[str, np.ndarray]:
        """Return the numbers of the infos of steps."""
        numbers: list[Any] = [self._steps[t].infos for _, span in spans for t in span]
        if numbers[0] is None:
            return {}
        envs = [i for i, span in spans for _ in span]
        return {STEP: np.array([each[i] for each, i in zip(numbers, envs, strict=True)])}

    def _close(self, envs: Sequence[int]) -> None:
        """Close episodes, and drop what belongs to none that is open."""
        for i in envs:
            self._begun[i] = None
        oldest = min((begun for begun in self._begun if begun is not None), default=len(self._steps))
        del self._states[:oldest], self._steps[:oldest]
        self._begun = [None if begun is None else begun - oldest for begun in self._begun]


def _part(leaf: LeafSpec, data: bytes, env: int) -> bytes:
    """Return what is of one environment."""
    return data[env * leaf.nbytes : (env + 1) * leaf.nbytes]


def _rows(spec: SpaceSpec, row: Row, env: int) -> Row:
    """Return what is of one environment, of each leaf."""
    return [_part(leaf, data, env) for leaf, data in zip(spec, row, strict=True)]


def _columns(spec: SpaceSpec, rows: Sequence[tuple[int, Sequence[Row]]]) -> Any:
    """Return the tree of arrays with the rows of environments, end to end."""
    count = sum(len(each) for _, each in rows)
    return spec.build([
        np.ndarray(
            (count, *leaf.shape),
            leaf.dtype,
            b"".join([_part(leaf, row[number], env) for env, each in rows for row in each]),
        )
        for number, leaf in enumerate(spec)
    ])
