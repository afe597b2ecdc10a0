"""Recorders that are interrupted, and assertions about their sinks afterwards."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from gymnasium.vector import AutoresetMode

from her_wrappers import EpisodeArchive, SinkError
from tests.support.archived_episodes import Nested, assert_same_episodes, random_episode
from tests.support.interrupts import Countdown
from tests.support.numbered import Numbered, drive, length_of, recorder_of, vector

FILES = "her_wrappers/"
LENGTHS = [[3, 2], [1, 4], [5]]


def interrupted(countdown, make, *sinks):
    """Record with an error at one instruction, reset and continue; return all steps, and those after it."""
    taken = []
    recorder = recorder_of(make(taken), *sinks, info_keys=["place"], max_episode_steps=4)
    try:
        with countdown.running():
            drive(recorder, 9)
    except (KeyboardInterrupt, MemoryError, SinkError):
        pass
    before = len(taken)
    drive(recorder, 8, first=9)
    recorder.close()
    places = [step[:3] for step in taken]
    return places, places[before:]


def assert_right(episodes, taken, after):
    """Assert that episodes have unchanged steps of one episode, once, and all steps after the error."""
    seen = []
    for episode in episodes:
        places = episode.observations["place"]
        number = places[0, 1]
        assert (places[:, :2] == places[0, :2]).all()
        np.testing.assert_array_equal(np.diff(places[:, 2]), 1)
        np.testing.assert_array_equal(episode.infos.get("place", places[1:]), places[1:])
        np.testing.assert_array_equal(episode.rewards, episode.actions[:, 0])
        assert (episode.actions[:, 1] == places[0, 0]).all()
        whole = places[-1, 2] == length_of(LENGTHS, places[0, 0], number)
        assert episode.terminated == (whole and number % 2 == 0)
        assert episode.truncated == (not episode.terminated)
        seen += map(tuple, places[1:].tolist())
    assert len(seen) == len(set(seen)), "a step is delivered twice"
    assert set(after) <= set(seen) <= set(taken)


def into_memory(countdown, folder, make=lambda taken: Numbered(LENGTHS, taken=taken)):
    """Record into a list, with an error at one instruction."""
    episodes = []
    assert_right(episodes, *interrupted(countdown, make, episodes.append))


def into_archive(countdown, folder):
    """Record into an archive, with an error at one instruction."""
    path = folder / f"archive {len(list(folder.iterdir()))}"
    with EpisodeArchive(path, shard_steps=4) as archive:
        happened = interrupted(countdown, lambda taken: Numbered(LENGTHS, taken=taken), archive)
    assert_right(list(EpisodeArchive(path)), *happened)


def into_memory_from(mode):
    return functools.partial(into_memory, make=lambda taken: vector(3, LENGTHS, mode, taken=taken))


def archive(countdown, folder):
    """Open an archive, add episodes and close it, with an error at one instruction."""
    path, opened = folder / f"archive {len(list(folder.iterdir()))}", []
    before, block, after = random_episode(4, 0), [random_episode(4, i) for i in (1, 2, 3)], random_episode(2)
    with EpisodeArchive(path, env=Nested(), shard_steps=6) as first:
        first(before)
    with contextlib.suppress(KeyboardInterrupt, MemoryError), countdown.running():
        opened.append(EpisodeArchive(path, env=Nested(), shard_steps=6))
        with opened[0]:
            opened[0].add_episodes(block)
    for each in opened:
        each.close()  # as a user does after an interrupt at the beginning of `__exit__`
    with EpisodeArchive(path, shard_steps=6) as again:
        known = len(again)
        again(after)
    assert_same_episodes(EpisodeArchive(path), [before, *block[: known - 1], after])


RECORDERS: dict[str, Callable[[Countdown, Path], None]] = {
    "recorder": into_memory,
    "recorder into an archive": into_archive,
    "archive": archive,
    **{f"vector recorder, {mode.value}": into_memory_from(mode) for mode in AutoresetMode},
}
"""Functions that record with an error at one instruction, continue, and check the recorded episodes."""


@functools.cache
def instructions(recorder: str) -> int:
    """Return the number of instructions of a run without an error and without the imports of a first run."""
    counts = []
    for _ in range(2):
        countdown = Countdown(10**9, FILES)
        with tempfile.TemporaryDirectory() as folder:
            RECORDERS[recorder](countdown, Path(folder))
        counts.append(10**9 - countdown.left)
    return min(counts)


def interrupt_recorder(recorder: str, error: type[BaseException], moment: float, folder: Path) -> None:
    """Raise an error during a recording, and check the episodes in the sinks afterwards.

    ``moment`` is the fraction of the recording's instructions that run before the error, from 0 to 1.
    """
    RECORDERS[recorder](Countdown(int(moment * instructions(recorder)), FILES, error=error), folder)
