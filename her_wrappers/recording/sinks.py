"""Sinks: the receivers of finished episodes, and what happens if one of them raises or is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

from her_wrappers.recording.episode import Episode, unchecked
from her_wrappers.recording.episodes import Episodes


class TakesMany(Protocol):
    """A sink that takes many episodes at once."""

    def add_episodes(self, episodes: Episodes, /) -> object:
        """Take episodes."""


Sink: TypeAlias = Callable[[Episode], object] | Callable[[Episodes], object] | TakesMany
"""Anything called with a finished episode, such as ``episodes.append``. A sink that has ``add_episodes`` gets
all episodes that ended together in one call, as `Episodes`: ``buffer``, ``buffer.add_episode`` and
``buffer.add_episodes`` all mean the same.

A sink that a KeyboardInterrupt stopped is called again with the same episodes, whose ``is_repeated`` is True
then. A sink with an attribute ``last_added`` gets every episode exactly once: ``last_added`` is the object
whose addition took effect last, and changes in the moment in which the addition takes effect."""


class SinkError(RuntimeError):
    """A sink raised. The other sinks were served, and the recorder is ready for the next call.

    Args:
        message: Description of the error.
        episodes: The episodes that were not taken.
        result: Values that ``step`` would have returned; None if the episodes ended by ``reset`` or
            ``close``.

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
    """Hands finished episodes to all sinks.

    Args:
        sinks: The sinks.

    Raises:
        TypeError: A sink is neither callable nor has ``add_episodes``.
    """

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self._sinks = [_Server(sink) for sink in sinks]
        self._current: _HandOver | None = None

    def hand_over(self, episodes: Episode | Episodes, result: tuple[Any, ...] | None) -> None:
        """Give one or many episodes to all sinks, in turn.

        If an interrupt stops this, another call with the same object continues where it was stopped.

        Args:
            episodes: The finished episodes.
            result: Values that ``step`` is about to return, if a step ended the episodes.

        Raises:
            SinkError: A sink raised; the other sinks were still called.
        """
        current = self._current
        if current is None or current.given is not episodes:
            current = self._current = _HandOver(episodes)
        for number, server in enumerate(self._sinks):
            if number >= current.progress[0]:
                server.serve(current)
                current.progress = number + 1, 0, False
        if current.failures:
            raise current.error(result) from current.failures[0].error

    def release(self) -> None:
        """Forget the last hand-over, which the caller has completed."""
        self._current = None


class _Failure(NamedTuple):
    """An error that a sink raised: number and name of the sink, indices of the episodes."""

    sink: int
    name: str
    indices: Sequence[int]
    error: Exception


class _HandOver:
    """One or many episodes on their way to the sinks.

    Args:
        given: The episodes.

    Attributes:
        progress: Number of sinks that were served; number of calls of the next sink that returned; whether
            another call has begun. One assignment changes all three.
        failures: Errors of the sinks.
    """

    def __init__(self, given: Episode | Episodes) -> None:
        self.given = given
        self.progress = 0, 0, False
        self.failures: list[_Failure] = []

    @cached_property
    def many(self) -> Episodes:
        """The episodes as `Episodes`."""
        return Episodes.of([self.given]) if isinstance(self.given, Episode) else self.given

    def call(self, server: _Server, function: Any, argument: Any, indices: Sequence[int]) -> None:
        """Call a sink; a call that was interrupted is repeated, unless it took effect."""
        sink, returned, is_interrupted = self.progress
        if is_interrupted:
            if server.has_added(argument):
                self.progress = sink, returned + 1, False
                return
            argument = server.mark(argument)
        self.progress = sink, returned, True
        try:
            function(argument)
        except Exception as error:
            self.failures.append(_Failure(sink, server.name, indices, error))
        self.progress = sink, returned + 1, False

    def error(self, result: tuple[Any, ...] | None) -> SinkError:
        """Return the error that names the sinks that raised, and has the episodes."""
        indices = sorted({i for failure in self.failures for i in failure.indices})
        episodes: Sequence[Episode] = [self.given] if isinstance(self.given, Episode) else self.given
        if len(indices) < len(episodes):
            episodes = [episodes[i] for i in indices]
        firsts = {failure.sink: failure for failure in reversed(self.failures)}
        what = "; ".join(
            f"{first.name} raised {type(first.error).__name__}: {first.error}"
            for _, first in sorted(firsts.items())
        )
        return SinkError(f"on {_describe(episodes)} {what}", episodes, result)


class _Server:
    """One sink, and the ways in which it takes episodes."""

    def __init__(self, sink: Sink) -> None:
        self.name = getattr(sink, "__qualname__", repr(sink))
        is_method = getattr(sink, "__name__", "") in {"add_episode", "add_episodes"}
        self._owner = getattr(sink, "__self__", None) if is_method else sink
        self._add_episodes = getattr(self._owner, "add_episodes", None)
        is_many = self._add_episodes is not None and getattr(sink, "__name__", "") != "add_episode"
        self._add_episode: Any = None if is_many else sink
        if not is_many and not callable(sink):
            raise TypeError(f"a sink must be callable with an Episode or have add_episodes, got {sink!r}")

    def serve(self, current: _HandOver) -> None:
        """Call the sink with all episodes for which it was not called."""
        returned = current.progress[1]
        if self._add_episode is not None and isinstance(current.given, Episode):
            if not returned:
                current.call(self, self._add_episode, current.given, [0])
        elif self._add_episodes is not None:
            if not returned:
                current.call(self, self._add_episodes, current.many, range(len(current.many)))
        else:
            for i in range(returned, len(current.many)):
                current.call(self, self._add_episode, current.many[i], [i])

    def has_added(self, argument: Episode | Episodes) -> bool:
        """Whether an interrupted call took effect."""
        return getattr(self._owner, "last_added", None) is argument

    def mark(self, argument: Any) -> Any:
        """Return the argument of a repeated call, marked unless the sink says what it added."""
        if hasattr(self._owner, "last_added"):
            return argument
        return unchecked(type(argument), **{**vars(argument), "is_repeated": True})


def _describe(episodes: Sequence[Episode]) -> str:
    if len(episodes) == 1:
        return f"an episode of {len(episodes[0])} steps"
    return f"{len(episodes)} episodes, the first of {len(episodes[0])} steps,"
