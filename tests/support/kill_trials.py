"""Processes that are killed while they save a buffer or write an archive, and checks of their files."""

from __future__ import annotations

import json
from pathlib import Path

from her_wrappers import EpisodeArchive, HindsightReplayBuffer
from tests.support.archived_episodes import assert_same_episodes as assert_same_archived
from tests.support.archived_episodes import random_episode
from tests.support.counting import compute_reward, counting_episode
from tests.support.equality import assert_same_episodes
from tests.support.killed import kills


def kill_while_saving(folder: Path, times: int, seed: int = 0) -> tuple[int, int]:
    """Kill a process that saves a buffer after every episode, and continues with the saved buffer.

    Return the number of kills that left an unfinished file, and of the last saved episode, from 199 on.
    """
    path, unfinished, newest = folder / "buffer", 0, -1
    code = f"""
from pathlib import Path
from her_wrappers import HindsightReplayBuffer
from tests.support.counting import compute_reward, counting_buffer, counting_episode
path = Path({str(path)!r})
if path.exists():
    buffer = HindsightReplayBuffer.load(path, compute_reward=compute_reward)
else:
    buffer = counting_buffer(compute_terminated=None, buffer_size=20_000)
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
    for _ in kills(code, times, seed=seed):
        unfinished += any(folder.glob("*.her-part"))
        buffer = HindsightReplayBuffer.load(path, compute_reward=compute_reward)
        buffer.verify()
        last = int(buffer.sample(20_000).index.max()) // 100
        expected = [counting_episode(number, 100) for number in range(last - 199, last + 1)]
        assert_same_episodes(buffer.episodes(), expected)
        assert last >= newest
        newest = last
    return unfinished, newest


def kill_while_archiving(folder: Path, times: int, seed: int = 0) -> tuple[int, int]:
    """Kill a process that adds random episodes to an archive; read the archive after each kill.

    Return the number of kills between writing a shard and its line in the manifest, and that of episodes.
    """
    unlisted = before = 0
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
    for _ in kills(code, times, seed=seed):
        listed = len(json.loads((folder / "manifest.json").read_text())["shards"])
        unlisted += len(list(folder.glob("*.npz"))) > listed
        found = list(EpisodeArchive(folder))
        assert_same_archived(found, [random_episode(i % 7 + 1, seed=i) for i in range(len(found))])
        assert len(found) >= before
        before = len(found)
    return unlisted, before
