"""Sinks: delivery of finished episodes to all sinks, even if one raises an error or is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

from her_wrappers.arguments import require_keys
from her_wrappers.recording.episode import Episode, unchecked
from her_wrappers.recording.episodes import Episodes


class EpisodesSink(Protocol):
    """A sink with a method that adds many episodes at once."""

    def add_episodes(self, episodes: Episodes, /) -> object:
        """Add ``episodes``, one or more."""


Sink: TypeAlias = Callable[[Episode], object] | Callable[[Episodes], object] | EpisodesSink
"""A callable with a finished episode as its argument, such as ``episodes.append``, or an object with a method
``add_episodes``, which gets all episodes that ended at the same step in one call, as `Episodes`. ``buffer``,
``buffer.add_episode`` and ``buffer.add_episodes`` are equivalent.

Recorders use two more attributes of a sink, if it has them. ``info_keys``: keys of the infos that the sink
needs, which recorders record in addition to their own ``info_keys``. ``last_added``: the `Episode` or
`Episodes` that the sink added last; this attribute must change at the moment at which the addition takes
effect.

A sink that a KeyboardInterrupt interrupted is called again, with a copy of the argument whose ``is_repeated``
is True. A sink with ``last_added`` is called again, with the same object, only if the addition did not take
effect, so it gets every episode exactly once."""


class SinkError(RuntimeError):
    """A sink raised an error. The other sinks got the episodes, and the recorder can still be used.

    Args:
        message: Description of the error.
        episodes: Episodes that at least one sink did not add because it raised an error. A sink can add an
            episode and still raise an error: for example, an archive keeps episodes in memory while the disk
            is full. If the attribute ``last_added`` of the sink shows that it added an episode, the episode
            is not in this list.
        result: Values that ``step`` would have returned; None if ``reset`` or ``close`` delivered the
            episodes, the step failed, or ``step`` only completed an earlier delivery.

    Attributes:
        episode: The first element of ``episodes``; None if ``episodes`` is empty.
    """

    def __init__(self, message: str, episodes: Sequence[Episode], result: tuple[Any, ...] | None) -> None:
        super().__init__(message, episodes, result)  # all three, since pickle passes them back
        self.episodes = episodes
        self.episode = episodes[0] if len(episodes) else None
        self.result = result

    def __str__(self) -> str:
        return str(self.args[0])


class Sinks:
    """Passes finished episodes to all sinks.

    Args:
        sinks: The sinks.

    Raises:
        TypeError: A sink is neither callable nor has ``add_episodes``, or its ``info_keys`` are not strings.

    Attributes:
        info_keys: Keys of the infos that the sinks need.
    """

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self._callers = [_SinkCaller(sink) for sink in sinks]
        self.info_keys = tuple(dict.fromkeys(key for caller in self._callers for key in caller.info_keys))
        self._delivery: _Delivery | None = None

    def deliver(self, episodes: Episode | Episodes, result: tuple[Any, ...] | None) -> None:
        """Pass one or many episodes to all sinks, in order.

        If an interrupt stops this call, another call with the same object continues the delivery.

        Args:
            episodes: The finished episodes.
            result: Values that ``step`` is about to return, if a step ended the episodes; else None.

        Raises:
            SinkError: A sink raised an error; the other sinks were still called.
        """
        delivery = self._delivery
        if delivery is None or delivery.given is not episodes:
            delivery = self._delivery = _Delivery(episodes)
        for number, caller in enumerate(self._callers):
            if number >= delivery.progress[0]:
                caller.deliver(delivery)
                delivery.progress = number + 1, 0, False
        if delivery.failures:
            raise delivery.error(result) from delivery.failures[0].error

    def release(self) -> None:
        """Drop the reference to the delivered episodes; call this after the caller has dropped its own."""
        self._delivery = None


class _SinkFailure(NamedTuple):
    """An error of a sink: number and name of the sink, error, and indices of episodes that it did not add."""

    sink: int
    name: str
    missing: Sequence[int]
    error: Exception


class _Delivery:
    """One or many episodes that are passed to the sinks.

    Args:
        given: The episodes.

    Attributes:
        progress: Tuple (number of sinks that got all episodes, number of completed calls of the next sink,
            whether another call of it has begun), which is replaced in one assignment.
        failures: Errors of the sinks.
    """

    def __init__(self, given: Episode | Episodes) -> None:
        self.given = given
        self.progress = 0, 0, False
        self.failures: list[_SinkFailure] = []

    @cached_property
    def many(self) -> Episodes:
        """The episodes as `Episodes`."""
        return Episodes.of([self.given]) if isinstance(self.given, Episode) else self.given

    def call(self, caller: _SinkCaller, function: Any, argument: Any, indices: Sequence[int]) -> None:
        """Call a sink; repeat an interrupted call unless it took effect."""
        sink, returned, is_interrupted = self.progress
        if is_interrupted:
            if caller.has_added(argument):
                self.progress = sink, returned + 1, False
                return
            argument = caller.mark(argument)
        self.progress = sink, returned, True
        try:
            function(argument)
        except Exception as error:
            missing = () if caller.has_added(argument) else indices
            self.failures.append(_SinkFailure(sink, caller.name, missing, error))
        self.progress = sink, returned + 1, False

    def error(self, result: tuple[Any, ...] | None) -> SinkError:
        """Return an error with the names of the sinks that raised, and the episodes that they did not add."""
        indices = sorted({i for failure in self.failures for i in failure.missing})
        given: Sequence[Episode] = [self.given] if isinstance(self.given, Episode) else self.given
        episodes = given if len(indices) == len(given) else [given[i] for i in indices]
        firsts = {failure.sink: failure for failure in reversed(self.failures)}
        what = "; ".join(
            f"{first.name} raised {type(first.error).__name__}: {first.error}"
            for _, first in sorted(firsts.items())
        )
        return SinkError(f"on {_describe(episodes or given)} {what}", episodes, result)


class _SinkCaller:
    """Calls one sink, with one episode or with many."""

    def __init__(self, sink: Sink) -> None:
        self.name = getattr(sink, "__qualname__", repr(sink))
        is_method = getattr(sink, "__name__", "") in {"add_episode", "add_episodes"}
        self._owner = getattr(sink, "__self__", None) if is_method else sink
        self._add_episodes = getattr(self._owner, "add_episodes", None)
        is_many = self._add_episodes is not None and getattr(sink, "__name__", "") != "add_episode"
        self._add_episode: Any = None if is_many else sink
        if not is_many and not callable(sink):
            raise TypeError(f"a sink must be callable with an Episode or have add_episodes, got {sink!r}")
        self.info_keys = require_keys(f"info_keys of {self.name}", getattr(self._owner, "info_keys", ()))

    def deliver(self, delivery: _Delivery) -> None:
        """Call the sink with all episodes for which it was not called yet."""
        returned = delivery.progress[1]
        if self._add_episode is not None and isinstance(delivery.given, Episode):
            if not returned:
                delivery.call(self, self._add_episode, delivery.given, [0])
        elif self._add_episodes is not None:
            if not returned:
                delivery.call(self, self._add_episodes, delivery.many, range(len(delivery.many)))
        else:
            for i in range(returned, len(delivery.many)):
                delivery.call(self, self._add_episode, delivery.many[i], [i])

    def has_added(self, argument: Episode | Episodes) -> bool:
        """Whether ``last_added`` of the sink shows that a call with this argument took effect."""
        return getattr(self._owner, "last_added", None) is argument

    def mark(self, argument: Any) -> Any:
        """Return the argument of a repeated call: a marked copy, unless the sink has ``last_added``."""
        if hasattr(self._owner, "last_added"):
            return argument
        return unchecked(type(argument), **{**vars(argument), "is_repeated": True})


def _describe(episodes: Sequence[Episode]) -> str:
    if len(episodes) == 1:
        return f"an episode of {len(episodes[0])} steps"
    return f"{len(episodes)} episodes, the first of {len(episodes[0])} steps,"
