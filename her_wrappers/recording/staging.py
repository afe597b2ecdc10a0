"""StagingArea: the open episodes of environments that step one by one, each in a row of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from her_wrappers.recording.open_episode import OpenEpisode
from her_wrappers.recording.values import as_reward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gymnasium import spaces

    from her_wrappers.recording.episode import Episode
    from her_wrappers.trees import Tree

__all__ = ["StagingArea", "as_reward"]


class StagingArea:
    """`OpenEpisode`, one for each of ``num_envs`` environments; see there.

    Args:
        observation_space: Observations of one environment.
        action_space: Actions of one environment.
        num_envs: Number of rows.
        info_keys: Entries of the infos to keep.

    Raises:
        TypeError: A space has elements that are not arrays of one shape.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        num_envs: int = 1,
        info_keys: Iterable[str] = (),
    ) -> None:
        keys = tuple(info_keys)
        self._rows = [OpenEpisode(observation_space, action_space, keys) for _ in range(num_envs)]

    def length(self, row: int) -> int:
        """Return the number of steps so far of the open episode in ``row``; -1 where none is open."""
        return self._rows[row].length

    def begin(self, row: int, observation: Tree, info: Mapping[str, Any]) -> None:
        """See `OpenEpisode.begin`."""
        self._rows[row].begin(observation, info)

    def require_continuation(self, row: int, observation: Tree) -> None:
        """See `OpenEpisode.require_continuation`."""
        self._rows[row].require_continuation(observation)

    def act(self, row: int, action: Tree) -> None:
        """See `OpenEpisode.act`."""
        self._rows[row].act(action)

    def observe(self, row: int, reward: Any, observation: Tree, info: Mapping[str, Any]) -> None:
        """See `OpenEpisode.observe`."""
        self._rows[row].observe(reward, observation, info)

    def finish(self, row: int, *, terminated: bool, truncated: bool) -> Episode:
        """See `OpenEpisode.finish`."""
        return self._rows[row].finish(terminated=terminated, truncated=truncated)

    def forget(self, row: int) -> None:
        """See `OpenEpisode.forget`."""
        self._rows[row].forget()
