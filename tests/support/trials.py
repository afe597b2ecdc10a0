"""Random trials of interruptions, lack of memory, kills, damaged files and samples.

The default tests run a hundredth of them, and `python -m benchmarks.reliability` all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from her_wrappers import CorruptFileError, EpisodeArchive, HindsightReplayBuffer
from tests.support.archived_episodes import Nested, random_episode
from tests.support.archived_episodes import assert_same_episodes as assert_same_archived
from tests.support.buffers import FUNCTIONS, example
from tests.support.damage import damaged
from tests.support.equality import assert_same_episodes
from tests.support.interrupted_buffer import OPERATIONS, interrupt
from tests.support.interrupted_recorder import RECORDERS, interrupt_recorder
from tests.support.kill_trials import kill_while_archiving, kill_while_saving
from tests.support.memory_limit import count_low_limits
from tests.support.programs import Program, random_tape

LIMITED_OPERATIONS = "add_episodes", "sample", "save", "grow"
ROOM = 1e4, 2e7
"""Bytes that a process with a limit may still allocate."""


def pick(rng: np.random.Generator, choices):
    """Return one of several objects; `Generator.choice` would convert the objects to an array."""
    choices = list(choices)
    return choices[rng.integers(len(choices))]


def interrupt_buffer(rng: np.random.Generator, folder: Path, error=KeyboardInterrupt) -> int:
    """Raise an error at a random instruction of a method of the buffer."""
    device = pick(rng, (None, "cpu"))
    interrupt(pick(rng, OPERATIONS), device, error, rng.random(), folder)
    return 1


def interrupt_recording(rng: np.random.Generator, folder: Path, error=KeyboardInterrupt) -> int:
    """Raise an error at a random instruction of a recorder, a vector recorder or an archive."""
    interrupt_recorder(pick(rng, RECORDERS), error, rng.random(), folder)
    return 1


def lack_memory(rng: np.random.Generator, folder: Path) -> int:
    """Raise MemoryError at a random instruction of the buffer or of a recorder."""
    trial = pick(rng, (interrupt_buffer, interrupt_buffer, interrupt_recording))
    return trial(rng, folder, MemoryError)


def exceed_limits(rng: np.random.Generator, folder: Path) -> int:
    """Call a method of the buffer under ten memory limits; return the number of limits that were too low."""
    rooms = np.exp(rng.uniform(*np.log(ROOM), size=10)).astype(int)
    return count_low_limits(pick(rng, LIMITED_OPERATIONS), rooms.tolist(), folder / "buffer")


def kill_saving(rng: np.random.Generator, folder: Path) -> int:
    """Kill a process that saves a buffer, five times; each process continues with the saved buffer."""
    kill_while_saving(folder, 5, int(rng.integers(2**31)))
    return 5


def kill_archiving(rng: np.random.Generator, folder: Path) -> int:
    """Kill a process that writes an archive, five times; each process continues the archive."""
    kill_while_archiving(folder, 5, int(rng.integers(2**31)))
    return 5


def explain_rows(rng: np.random.Generator, folder: Path) -> int:
    """Run a random program, in which the oracle judges each sampled row; return the number of rows."""
    batches = Program(random_tape(int(rng.integers(2**31))), pick(rng, (None, "cpu"))).run()
    return sum(map(len, batches))


def damage_buffer(rng: np.random.Generator, folder: Path) -> int:
    """Load damaged copies of a saved buffer: each gives `CorruptFileError` or the same episodes."""
    buffer, path = example(), folder / "buffer"
    buffer.save(path)
    episodes = list(buffer.episodes())
    for variant in damaged(path.read_bytes(), 200, int(rng.integers(2**31))):
        path.write_bytes(variant)
        try:
            loaded = HindsightReplayBuffer.load(path, **FUNCTIONS)
        except CorruptFileError:
            continue
        assert_same_episodes(loaded.episodes(), episodes)
    return 200


def damage_archive(rng: np.random.Generator, folder: Path) -> int:
    """Read archives with one damaged file: each gives `CorruptFileError` or the original episodes."""
    episodes = [random_episode(length) for length in (3, 2, 4)]
    archive = folder / f"archive {rng.integers(2**62)}"
    with EpisodeArchive(archive, env=Nested(), shard_steps=4) as new:
        new.add_episodes(episodes)
    for name in ("manifest.json", "shard-000000.npz"):
        content = (archive / name).read_bytes()
        for variant in damaged(content, 100, int(rng.integers(2**31))):
            (archive / name).write_bytes(variant)
            try:
                found = list(EpisodeArchive(archive))
            except CorruptFileError:
                continue
            assert_same_archived(found, episodes)
        (archive / name).write_bytes(content)
    return 200


class Kind(NamedTuple):
    """A kind of trials.

    Attributes:
        what: The counted events, in words.
        count: Number of events of the whole campaign.
        run: Makes one trial in an empty folder; returns its number of events.
    """

    what: str
    count: int
    run: Callable[[np.random.Generator, Path], int]


KINDS = [
    Kind("interrupts of the replay buffer", 8_000, interrupt_buffer),
    Kind("interrupts of recorders and archives", 2_000, interrupt_recording),
    Kind("MemoryError at an instruction", 1_500, lack_memory),
    Kind("memory limits of the operating system", 500, exceed_limits),
    Kind("kills while saving a buffer", 500, kill_saving),
    Kind("kills while writing an archive", 500, kill_archiving),
    Kind("sampled rows, explained by an oracle in plain Python", 1_000_000, explain_rows),
    Kind("damaged files of buffers", 50_000, damage_buffer),
    Kind("damaged files of archives", 50_000, damage_archive),
]
