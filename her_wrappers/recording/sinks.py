"""Sinks: those who get the finished episodes, and what happens when one of them raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes


class TakesMany(Protocol):
    """What takes many episodes at once."""

    def add_episodes(self, episodes: Episodes, /) -> object:
        """Take them."""


Sink: TypeAlias = Callable[[Episode], object] | Callable[[Episodes], object] | TakesMany
"""Anything called with a finished episode, such as ``episodes.append``. What has ``add_episodes`` gets all
episodes that ended together in one call, as `Episodes`: ``buffer``, ``buffer.add_episode`` and
``buffer.add_episodes`` all mean the same."""


class SinkError(RuntimeError):
    """A sink raised. The other sinks were served, and the recorder is ready to go on.

    Args:
        message: What happened.
        episodes: The episodes that were not taken.
        result: What ``step`` would have returned; None when the episodes ended by ``reset`` or ``close``.

    Attributes:
        episode: The first of the episodes.
    """

    def __init__(self, message: str, episodes: Sequence[Episode], result: tuple[Any, ...] | None) -> None:
        super().__init__(message, episodes, result)  # all of them, so that the error can be pickled
        self.episodes = episodes
        self.episode = episodes[0]
        self.result = result

    def __str__(self) -> str:
        return str(self.args[0])


class Sinks:
    """Hands finished episodes to everybody who asked for them.

    Args:
        sinks: Those.

    Raises:
        TypeError: One is neither callable nor has ``add_episodes``.
    """

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self._sinks = [_Server(sink) for sink in sinks]

    def hand_over(self, episodes: Sequence[Episode], result: tuple[Any, ...] | None) -> None:
        """Give episodes to all sinks, each in turn.

        Args:
            episodes: At least one.
            result: What ``step`` is about to return, if it was a step that ended them.

        Raises:
            SinkError: A sink raised; all were served nevertheless.
        """
        failed = [(server.name, failures) for server in self._sinks if (failures := server.serve(episodes))]
        if not failed:
            return
        indices = sorted({i for _, failures in failed for i in failures})
        refused = episodes if len(indices) == len(episodes) else [episodes[i] for i in indices]
        firsts = [(name, next(iter(failures.values()))) for name, failures in failed]
        what = "; ".join(f"{name} raised {type(error).__name__}: {error}" for name, error in firsts)
        raise SinkError(f"on {_describe(refused)} {what}", refused, result) from firsts[0][1]


class _Server:
    """One sink, and the ways in which it takes episodes."""

    def __init__(self, sink: Sink) -> None:
        self.name = getattr(sink, "__qualname__", repr(sink))
        self._add_episodes = _add_episodes(sink)
        is_many = self._add_episodes is not None and getattr(sink, "__name__", "") != "add_episode"
        self._add_episode: Any = None if is_many else sink
        if not is_many and not callable(sink):
            raise TypeError(f"a sink must be callable with an Episode or have add_episodes, got {sink!r}")

    def serve(self, episodes: Sequence[Episode]) -> dict[int, Exception]:
        """Hand over, and return the errors by the index of the episode."""
        one_by_one = self._add_episodes is None or (len(episodes) == 1 and self._add_episode is not None)
        if not one_by_one:
            error = _call(self._add_episodes, Episodes.of(episodes))
            return {} if error is None else dict.fromkeys(range(len(episodes)), error)
        errors = ((i, _call(self._add_episode, episode)) for i, episode in enumerate(episodes))
        return {i: error for i, error in errors if error is not None}


def _add_episodes(sink: Any) -> Any:
    """Return what takes many episodes at once: the sink's own, or that of the object it is a method of."""
    is_method = getattr(sink, "__name__", "") in {"add_episode", "add_episodes"}
    return getattr(getattr(sink, "__self__", None) if is_method else sink, "add_episodes", None)


def _call(function: Any, argument: object) -> Exception | None:
    try:
        function(argument)
    except Exception as error:
        return error
    return None


def _describe(episodes: Sequence[Episode]) -> str:
    if len(episodes) == 1:
        return f"an episode of {len(episodes[0])} steps"
    return f"{len(episodes)} episodes, the first of {len(episodes[0])} steps,"
