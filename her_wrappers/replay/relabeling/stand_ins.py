"""Stand-ins for `Relabeling`: where nothing is relabeled, and where the functions for it are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from her_wrappers.files import Json
    from her_wrappers.replay.batch import Batch
    from her_wrappers.replay.storage.encoded_episodes import EncodedEpisodes
    from her_wrappers.replay.storage.steps import Steps


def missing_reward(batch: Batch) -> Any:
    """Stand where a reward function belongs; never called, since `MissingFunctions` is asked before."""
    raise NotImplementedError


class NoRelabeling:
    """For a buffer that relabels nothing: there is nothing to ask, and nothing to learn."""

    def forget(self) -> None:
        """Do nothing."""

    def learned(self) -> Json:
        """Return that there is nothing."""
        return None

    def recall(self, learned: Json, *, anew: bool) -> bool:
        """Leave what another learned alone; nothing will ask for it."""
        return True

    def learn(self, episodes: EncodedEpisodes) -> None:
        """Do nothing."""

    def relabel(self, batch: Batch, steps: Steps, count: int) -> None:
        """Do nothing; never called, since no steps are relabeled."""


class MissingFunctions:
    """For a buffer that was loaded without functions: all goes on but what needs one.

    What was learned from episodes is kept for the day on which functions are there again.
    """

    def __init__(self) -> None:
        self._learned: Json = None

    def forget(self) -> None:
        """Forget what was learned from episodes."""
        self._learned = None

    def learned(self) -> Json:
        """Return what was learned from episodes."""
        return self._learned

    def recall(self, learned: Json, *, anew: bool) -> bool:
        """Take over what another learned, see `Relabeling.recall`."""
        self._learned = learned
        return not anew

    def learn(self, episodes: EncodedEpisodes) -> None:
        """Note that there is something to learn from the episodes as soon as there are functions."""
        if self._learned is not None:
            self._learned = {**self._learned, "rule": None}

    def relabel(self, batch: Batch, steps: Steps, count: int) -> None:
        """Say what is missing.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "relabeled transitions need their rewards computed, and the buffer was loaded without functions; "
            "load it with env=, compute_reward= or reward_fn="
        )
