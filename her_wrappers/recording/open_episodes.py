"""OpenEpisodes: the episodes to which `HindsightReplayBuffer.add` still adds, of one or of N environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from her_wrappers.recording.episode_accumulator import ENDED, EpisodeAccumulator
from her_wrappers.recording.open_vector_episodes import NOT_CONTINUED, OpenVectorEpisodes
from her_wrappers.recording.values import as_reward, as_rewards
from her_wrappers.trees import FLOAT32_OVERFLOW, try_as_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gymnasium import spaces

    from her_wrappers.recording.episode import Episode
    from her_wrappers.recording.episodes import Episodes
    from her_wrappers.trees import Tree


class OpenEpisodes:
    """The open episodes of `HindsightReplayBuffer.add`.

    Transitions with and without a leading axis belong to different environments. Episodes that ended are in
    `ended` until `release` is called, so that an interruption loses none of them.

    Args:
        observation_space: Observations of one environment.
        action_space: Actions of one environment.
        info_keys: Infos to keep.
        max_steps: Maximum number of steps of an episode.

    Attributes:
        single: The episode of transitions without a leading axis.
        vector: The episodes of transitions of N environments; None before the first such transition.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        info_keys: Sequence[str],
        max_steps: int,
    ) -> None:
        self._arguments = observation_space, action_space, info_keys
        self._max_steps = max_steps
        self.single = EpisodeAccumulator(*self._arguments)
        self.vector: OpenVectorEpisodes | None = None

    @property
    def ended(self) -> list[Episode | Episodes]:
        """Episodes that ended and were not released yet."""
        single, vector = self.single, self.vector
        if single.phase == ENDED and single.end is not None:
            terminated, truncated = single.end
            single.finish(terminated=terminated, truncated=truncated)
        finished = [single.finished, None if vector is None else vector.finished]
        return [episodes for episodes in finished if episodes is not None]

    def release(self, episodes: Episode | Episodes) -> None:
        """Drop ended episodes that the buffer has stored or rejected.

        Args:
            episodes: An element of `ended`.
        """
        if episodes is self.single.finished:
            self.single.discard()
        elif self.vector is not None:
            self.vector.release()

    def truncate(self) -> None:
        """End the open episodes as truncated; those that have steps are added to `ended`."""
        if self.single.length > 0:
            self.single.finish(terminated=False, truncated=True)
        elif self.single.finished is None:
            self.single.discard()
        if self.vector is not None:
            self.vector.truncate(np.arange(self.vector.num_envs))

    def resume_rows(self, lengths: np.ndarray, episodes: Episodes) -> None:
        """Open episodes of N environments; see `OpenVectorEpisodes.resume`."""
        vector = OpenVectorEpisodes(*self._arguments, len(lengths))
        vector.resume(lengths, episodes)
        self.vector = vector

    def discard(self) -> None:
        """Drop all episodes."""
        self.single.discard()
        self.vector = None

    def num_rows(self, obs: Tree) -> int | None:
        """Return the length of the leading axis of an observation, N; None if it has no such axis.

        Args:
            obs: Observation of one or of N environments; only its first leaf is inspected.
        """
        for leaf in self.single.observations.leaves[:1]:
            try:
                shape = np.shape(leaf.find(obs, ""))
            except ValueError:  # `add` raises this error again, with the step in its message
                return None
            return shape[0] if len(shape) == len(leaf.shape) + 1 else None
        return None

    def add(  # noqa: PLR0917 - a transition, in the order in which Gymnasium's step returns it
        self, obs: Tree, action: Tree, reward: Any, next_obs: Tree, terminated: Any, truncated: Any, info: Any
    ) -> None:
        """Add a transition of a single environment; `HindsightReplayBuffer.add` describes the arguments.

        Raises:
            TypeError: A flag is not a single bool.
            ValueError: A value does not fit its space, the reward is not finite as float32, an info is
                missing, ``obs`` differs from the previous ``next_obs``, or the open episode has ``max_steps``
                steps already. Nothing is added.
        """
        episode = self.single
        length = max(0, episode.length)
        number = as_reward(reward, length)
        if not abs(number) < FLOAT32_OVERFLOW:
            raise ValueError(f"reward must be finite as float32, got {number} at step {length}")
        flags = _as_flag("terminated", terminated), _as_flag("truncated", truncated)
        if length == 0:
            episode.begin(obs, {})
        else:
            try:
                episode.require_continuation(obs)
            except ValueError as error:
                raise ValueError(f"{error}{NOT_CONTINUED}") from error
            self._require_room(length)
        episode.act(action)
        episode.observe(number, next_obs, info or {}, *flags)

    def add_rows(  # noqa: PLR0917 - as in `add`
        self,
        count: int,
        obs: Tree,
        action: Tree,
        reward: Any,
        next_obs: Tree,
        terminated: Any,
        truncated: Any,
        info: Any,
        skip: Any,
    ) -> None:
        """Add a transition of each of ``count`` environments.

        `HindsightReplayBuffer.add` describes the other arguments.

        Raises:
            TypeError: ``terminated``, ``truncated`` or ``skip`` is not an array of (count,) bools.
            ValueError: A value does not fit its space, a reward is not finite as float32, an info is missing,
                ``obs`` differs from the previous ``next_obs``, ``skip`` is True for an environment during an
                episode, an open episode has ``max_steps`` steps already, or ``count`` is 0 or differs while
                episodes are open. Nothing is added.
        """
        vector = self.vector
        if vector is None or vector.num_envs != count:
            if count == 0:
                raise ValueError("obs must have a row for each environment, got none")
            if vector is not None and vector.lengths.max() > 0:
                raise ValueError(
                    f"obs must have a row for each of the {vector.num_envs} environments whose episodes are "
                    f"open, got {count} rows; call truncate_open_episode() before other environments"
                )
            vector = self.vector = OpenVectorEpisodes(*self._arguments, count)
        skipped = None if skip is None else _as_flags("skip", skip, count)
        flags = _as_flags("terminated", terminated, count), _as_flags("truncated", truncated, count)
        rewards = as_rewards(reward, count)
        invalid = ~(np.abs(rewards.astype(np.float64)) < FLOAT32_OVERFLOW)
        if skipped is not None:
            invalid &= ~skipped
        if invalid.any():
            i = int(invalid.argmax())
            raise ValueError(f"reward must be finite as float32, got {rewards[i]} of environment {i}")
        self._require_room(int(vector.lengths.max()))
        vector.add(obs, action, rewards, next_obs, *flags, info, skipped)

    def _require_room(self, length: int) -> None:
        if length >= self._max_steps:
            raise ValueError(
                f"an episode must fit the buffer of {self._max_steps} transitions, and the open episode "
                "has that length; raise buffer_size, pass truncated earlier, or call truncate_open_episode()"
            )


def _as_flag(name: str, value: Any) -> bool:
    if type(value) is bool:
        return value
    array = try_as_array(value)
    if array.dtype != np.bool_ or array.size != 1:
        raise TypeError(f"{name} must be one bool, got {value!r}")
    return bool(array.reshape(-1)[0])


def _as_flags(name: str, values: Any, count: int) -> np.ndarray:
    array = try_as_array(values)
    if array.dtype != np.bool_ or array.shape != (count,):
        raise TypeError(f"{name} must be ({count},) bools, got {values!r}")
    return array
