"""Dataset: protocol that Minari's datasets follow. EpisodeErrors: raises errors, or skips bad episodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from her_wrappers.data.arrays import CorruptFileError
from her_wrappers.data.trees import map_tree
from her_wrappers.recording.episode import Episode
from her_wrappers.support.arguments import require_on_error
from her_wrappers.support.user_warning import warn_user


class EpisodeErrors:
    """Handles errors in single episodes: raises the error with the episode's number, or skips the episode."""

    def __init__(self, on_error: str) -> None:
        self._skips = require_on_error(on_error)
        self._first_error: str | None = None
        self._skipped = 0  # number of episodes
        self._at_least = ""  # "at least " if a skipped file has an unknown number of episodes
        self.number = 0  # of the next episode of the source

    def handle(self, error: Exception, count: int | None = 1) -> None:
        """Raise ``error``, or skip the ``count`` episodes (None: unknown number) that the error concerns."""
        is_file = isinstance(error, CorruptFileError | OSError)  # the message names the file
        message = str(error) if is_file else f"episode {self.number}: {error}"
        if not self._skips:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise error if is_file else kind(message) from error
        self._first_error = self._first_error or message
        self._at_least = self._at_least if count else "at least "
        self._skipped += count or 1
        self.number += count or 1

    def converted(self, convert: Callable[[Any], Episode], sources: Iterable[Any]) -> Iterator[Episode]:
        """Yield ``convert(source)`` for each valid source; the caller then adds 1 to ``number``."""
        for source in sources:
            try:
                episode = convert(source)
            except (IndexError, TypeError, ValueError) as error:
                self.handle(error)
            else:
                yield episode

    def counted(self, parts: Iterable[Any]) -> Iterator[Any]:
        """Yield each `Episode` or `Episodes` of ``parts``; count the episodes; call `finish` at the end."""
        for part in parts:
            yield part
            self.number += 1 if isinstance(part, Episode) else len(part)
        self.finish()

    def finish(self) -> int:
        """Return the number of skipped episodes; warn unless it is 0; raise ValueError if all are skipped."""
        if self._skipped:
            counts = f"{self._at_least}{self._skipped} of {self.number} episodes were skipped"
            message = f"{counts}; the first error: {self._first_error}"
            if self._skipped == self.number:
                raise ValueError(message)
            warn_user(message)
        return self._skipped


def require_no_path(name: str, episodes: object) -> None:
    """Raise TypeError if ``episodes``, the argument ``name``, is the path of an archive."""
    if isinstance(episodes, str | os.PathLike):
        fix = f"pass EpisodeArchive({os.fspath(episodes)!r})"
        raise TypeError(f"{name} takes episodes, got the path {os.fspath(episodes)!r}; {fix}")


def numbered(episodes: Iterable[Episode]) -> Iterator[tuple[int, Episode]]:
    """Yield (number, episode), like ``enumerate``; raise TypeError unless all elements are `Episode`."""
    require_no_path("episodes", episodes)
    if not isinstance(episodes, Iterable):
        fix = "[episode]" if isinstance(episodes, Episode) else "list(buffer.episodes())"
        got = f"{type(episodes).__name__}; write {fix}"
        raise TypeError(f"episodes must be a list of Episode objects or an EpisodeArchive, got {got}")
    for number, episode in enumerate(episodes):
        if not isinstance(episode, Episode):
            got = f"{type(episode).__name__} at position {number}"
            raise TypeError(f"each element of episodes must be an Episode, got {got}")
        yield number, episode


@runtime_checkable
class Dataset(Protocol):
    """A dataset that has the method ``iterate_episodes`` of ``minari.MinariDataset``."""

    def iterate_episodes(self) -> Iterable[Any]:
        """Return the episodes, which have the attributes of ``minari.EpisodeData``."""


def episodes_of(dataset: Dataset, errors: EpisodeErrors) -> Iterator[Episode]:
    """Yield the episodes of a dataset; after each episode, the caller adds 1 to ``errors.number``."""
    return errors.converted(_episode_of, dataset.iterate_episodes())


def _episode_of(data: Any) -> Episode:
    """Convert a Minari episode of T steps. Its infos may have T + 1 rows, if row 0 is from the reset."""
    steps = len(data.rewards)
    infos = _flat(data.infos or {})
    for key, rows in infos.items():
        if len(rows) not in {steps, steps + 1}:
            raise ValueError(
                f"info {key!r} must have {steps} rows (one per step) or {steps + 1} rows (the first from the "
                f"reset), got {len(rows)} rows"
            )
    return Episode(
        observations=map_tree(np.asarray, data.observations),
        actions=map_tree(np.asarray, data.actions),
        rewards=np.asarray(data.rewards),
        terminated=bool(data.terminations[-1]),
        truncated=bool(data.truncations[-1]),
        infos={key: rows[-steps:] for key, rows in infos.items()},
        reset_info={key: np.asarray(rows[0]) for key, rows in infos.items() if len(rows) > steps},
    )


def _flat(infos: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """Return nested infos as one dict whose keys are paths with slashes."""
    flat: dict[str, np.ndarray] = {}
    for key, value in infos.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}/")
        else:
            rows = np.asarray(value)
            if rows.dtype == object:  # strings from h5py
                texts = [part.decode() if isinstance(part, bytes) else str(part) for part in rows.ravel()]
                rows = np.array(texts).reshape(rows.shape)
            flat[prefix + key] = rows
    return flat
