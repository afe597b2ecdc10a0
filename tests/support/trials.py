"""Random trials of interruptions, lack of memory, kills, damaged files and samples.

The default tests run a part of them, and `python -m benchmarks.reliability` all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from her_wrappers import EpisodeArchive
from tests.support.archived_episodes import Nested, random_episode
from tests.support.archived_episodes import assert_same_episodes as assert_same_archived
from tests.support.buffers import example, load_buffer
from tests.support.counting import counting_episode
from tests.support.damage import assert_exact_or_corrupt
from tests.support.equality import assert_same_batches, assert_same_episodes
from tests.support.interrupted_buffer import OPERATIONS, interrupt
from tests.support.interrupted_recorder import RECORDERS, interrupt_recorder
from tests.support.killed import kills
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
    """Kill a process that saves a buffer, twice; each process continues with the saved buffer."""
    path, newest = folder / "buffer", -1
    code = f"""
from pathlib import Path
from her_wrappers import HindsightReplayBuffer
from tests.support.counting import FUNCTIONS, counting_buffer, counting_episode
path = Path({str(path)!r})
if path.exists():
    buffer = HindsightReplayBuffer.load(path, **FUNCTIONS)
else:
    buffer = counting_buffer(buffer_size=20_000)
    buffer.extend(counting_episode(number, 100) for number in range(200))
    buffer.save(path)
number = int(buffer.sample(100_000).observations["observation"][:, 0].max())
while True:
    number += 1
    buffer.add_episode(counting_episode(number, 100))
    buffer.sample(64)
    buffer.save(path)
    print(number, flush=True)
"""
    for _ in kills(code, 2, seed=int(rng.integers(2**31))):
        buffer = load_buffer(path, None)
        last = int(buffer.sample(20_000).index.max()) // 100
        expected = [counting_episode(number, 100) for number in range(last - 199, last + 1)]
        assert_same_episodes(buffer.episodes(), expected)
        assert last >= max(newest, 200), "the program prints a line after it has saved episode 200"
        newest = last
    return 2


def kill_archiving(rng: np.random.Generator, folder: Path) -> int:
    """Kill a process that writes an archive, twice; each process continues the archive."""
    before = 0
    code = f"""
from her_wrappers import EpisodeArchive
from tests.support.archived_episodes import Nested, random_episode
archive = EpisodeArchive({str(folder)!r}, env=Nested(), shard_steps=50)
number = len(archive)
print(number, flush=True)
while True:
    archive(random_episode(number % 7 + 1, seed=number))
    number += 1
"""
    for _ in kills(code, 2, seed=int(rng.integers(2**31))):
        found = list(EpisodeArchive(folder))
        assert_same_archived(found, [random_episode(i % 7 + 1, seed=i) for i in range(len(found))])
        assert len(found) >= before
        before = len(found)
    return 2


def explain_rows(rng: np.random.Generator, folder: Path) -> int:
    """Run a random program, in which the oracle judges each sampled row; return the number of rows."""
    batches = Program(random_tape(int(rng.integers(2**31))), pick(rng, (None, "cpu"))).run()
    return sum(map(len, batches))


def damage_buffer(rng: np.random.Generator, folder: Path) -> int:
    """Load damaged copies of a saved buffer."""
    buffer, path = example(), folder / "buffer"
    buffer.save(path)
    episodes = list(buffer.episodes())
    read = lambda: assert_same_episodes(load_buffer(path, None).episodes(), episodes)  # noqa: E731
    assert_exact_or_corrupt(path, read, 200, int(rng.integers(2**31)))
    assert_same_batches(buffer, load_buffer(path, None))
    return 200


def damage_archive(rng: np.random.Generator, folder: Path) -> int:
    """Read archives with one damaged file."""
    episodes = [random_episode(length) for length in (3, 2, 4)]
    archive = folder / f"archive {rng.integers(2**62)}"
    with EpisodeArchive(archive, env=Nested(), shard_steps=4) as new:
        new.add_episodes(episodes)
    for name in ("manifest.json", "shard-000000.npz"):
        read = lambda: assert_same_archived(EpisodeArchive(archive), episodes)  # noqa: E731
        assert_exact_or_corrupt(archive / name, read, 100, int(rng.integers(2**31)))
    return 200


class Kind(NamedTuple):
    """A kind of trials."""

    what: str  # the counted events, in words
    count: int  # number of events of the whole campaign
    run: Callable[[np.random.Generator, Path], int]  # one trial in an empty folder; returns its events


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
