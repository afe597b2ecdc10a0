"""Sinks: receivers of finished episodes, such as replay buffers and archives."""

from __future__ import annotations

import multiprocessing
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.support.arguments import require_keys, require_on_error
from her_wrappers.support.user_warning import warn_user


class EpisodesSink(Protocol):
    """A sink with a method that adds many episodes at once."""

    def add_episodes(self, episodes: Episodes, /) -> object:
        """Add all ``episodes``; there is at least one."""


Sink: TypeAlias = Callable[[Episode], object] | Callable[[Episodes], object] | EpisodesSink
"""A callable with a finished episode as its argument, such as ``episodes.append``, or an object with a method
``add_episodes``, which gets all episodes that ended at the same step in one call, as `Episodes`.

If a sink has the attribute ``info_keys``, the keys of the infos that the sink needs, a recorder records these
infos in addition to its own ``info_keys``. The attribute is read once, when the recorder is created."""


class NotFiniteError(ValueError):
    """Raised for an episode that contains NaN, an infinite goal or an infinite reward."""


class SinkError(RuntimeError):
    """A sink raised an error. The other sinks got the episodes, and the recorder can still be used.

    Args:
        message: Description of the error.
        episodes: Episodes for which at least one sink raised an error. A sink can add an episode and still
            raise an error: for example, an archive keeps episodes in memory while the disk is full. Empty
            if the error comes from another process, such as a worker of a vector environment.
        result: Values that ``step`` would have returned. None if ``reset`` or ``close`` raised this error, or
            if ``step`` had already failed with another error.
    """

    def __init__(
        self, message: str, episodes: Sequence[Episode] = (), result: tuple[Any, ...] | None = None
    ) -> None:
        super().__init__(message, episodes, result)  # all three, since pickle passes them back
        self.episodes = episodes
        self.result = result

    def __str__(self) -> str:
        return str(self.args[0])


class Sinks:
    """Passes finished episodes to all sinks; with ``"skip"``, a NotFiniteError counts as ``skipped``."""

    def __init__(self, sinks: Iterable[Sink], on_error: str = "raise") -> None:
        self._skips = require_on_error(on_error)
        self.skipped = 0
        self._receivers: list[tuple[str, Any, bool]] = []  # name, function, whether it takes `Episodes`
        keys: list[str] = []
        for sink in sinks:
            name = getattr(sink, "__qualname__", repr(sink))
            is_method = getattr(sink, "__name__", "") in {"add_episode", "add_episodes"}
            owner = getattr(sink, "__self__", None) if is_method else sink
            add_episodes = getattr(owner, "add_episodes", None)
            if add_episodes is None and not callable(sink):
                fix = "; pass its method append" if hasattr(sink, "append") else ""
                raise TypeError(f"a sink must be callable or have a method add_episodes(), got {sink!r}{fix}")
            if any(call == (add_episodes or sink) for _, call, _ in self._receivers):
                raise ValueError(f"each sink must be given once, got {name} twice; remove one of both")
            self._receivers.append((name, add_episodes or sink, add_episodes is not None))
            keys += require_keys(f"info_keys of {name}", getattr(owner, "info_keys", ()))
        self.info_keys = tuple(dict.fromkeys(keys))  # infos that the sinks need
        self._is_in_worker = _is_in_worker()

    def require_other(self, inner: Sinks) -> None:
        """Raise ValueError if a recorder inside of the environment delivers to a sink of this object too."""
        for name, call, _ in self._receivers:
            if any(call == other for _, other, _ in inner._receivers):
                raise ValueError(
                    f"the sink {name} would get each episode twice, since a recorder inside of env delivers "
                    "to it already; pass the environment without this recorder"
                )

    def require_reachable(self) -> None:
        """Raise RuntimeError if a sink keeps episodes in the memory of a worker of a vector environment."""
        if not self._is_in_worker:
            return
        for name, call, _ in self._receivers:
            owner = getattr(call, "__self__", call)
            if isinstance(owner, list | dict | set | deque) or hasattr(owner, "sample"):
                raise RuntimeError(
                    f"the sink {name} gets the episodes in a worker process of a vector environment, where "
                    "it is a copy that is lost with the worker; do not record inside of the environments: "
                    "wrap the vector environment, VectorEpisodeRecorder(envs, sink)"
                )

    def deliver(self, episodes: Episodes, result: tuple[Any, ...] | None = None) -> None:
        """Pass episodes to all sinks. If a sink fails, raise SinkError with ``result``, the step's values."""
        errors: dict[str, Exception] = {}  # first error of each sink
        missing: set[int] = set()
        skipped: dict[int, str] = {}  # reasons
        for name, call, takes_many in self._receivers:
            singles = [slice(i, i + 1) for i in range(len(episodes))]
            parts = [slice(0, len(episodes))] if takes_many else singles
            for part in parts:
                try:
                    call(episodes[part] if takes_many else episodes[part.start])
                except Exception as error:
                    numbers = range(part.start, part.stop)
                    if not (self._skips and isinstance(error, NotFiniteError)):
                        errors.setdefault(name, error)
                        missing.update(numbers)
                    elif len(numbers) > 1:  # the sink added none of them
                        parts += singles
                    else:
                        skipped[part.start] = f"{name} rejected it: {error}"
        if skipped and not self.skipped:
            warn_user(
                f"an episode was skipped: {next(iter(skipped.values()))}. Further episodes with such values "
                "are skipped without a warning"
            )
        self.skipped += len(skipped)
        if not errors:
            return
        is_all = len(missing) == len(episodes)
        kept: Sequence[Episode] = episodes if is_all else [episodes[i] for i in sorted(missing)]
        what = "; ".join(f"{name} raised {type(error).__name__}: {error}" for name, error in errors.items())
        steps = f"{len(kept[0])} steps"
        count = f"an episode of {steps}" if len(kept) == 1 else f"{len(kept)} episodes, the first of {steps},"
        raise SinkError(f"delivering {count} failed: {what}", kept, result) from next(iter(errors.values()))


def _is_in_worker() -> bool:
    """Return whether the function of this process is that of a vector environment in an installed package."""
    target = getattr(multiprocessing.current_process(), "_target", None)  # the main process has none
    module = getattr(target, "__module__", "")
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" in file and ("env" in module or "vec" in module)
