"""Replay buffers whose methods are interrupted, and assertions about them afterwards.

After an error between any two instructions, the buffer has its episodes from before the call, from after it,
or those from before without some of the oldest. Open episodes may be lost. All stored rows were recorded,
each once, and the buffer can be used from any thread.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from her_wrappers import HindsightReplayBuffer, Priority
from tests.support.buffers import load_buffer, make_buffer, rows, transitions
from tests.support.counting import assert_counting_rows, counting_episode
from tests.support.equality import assert_same_episodes
from tests.support.interrupts import Countdown, count_instructions

FILES = "her_wrappers/"
LENGTHS = {100: 7, 101: 7, 102: 4, 103: 4}
"""Lengths of the episodes that the operations add; episodes with smaller numbers have 5 to 14 steps."""


def episode(number: int, length: int | None = None):
    """Return an episode, or its first ``length`` steps as a truncated episode."""
    whole = LENGTHS.get(number, 5 + number % 10)
    return counting_episode(number, length or whole, terminated=number % 3 == 0 and length in {None, whole})


def add(buffer: HindsightReplayBuffer) -> None:
    for transition in transitions(episode(100)):
        buffer.add(*transition)
    for steps in rows(episode(102), episode(103)):
        buffer.add(*steps)
    buffer.truncate_open_episode()


MANY = [episode(100), episode(101)]
OPERATIONS: dict[str, Callable[..., object]] = {
    "add": lambda buffer, path: add(buffer),
    "add_episode": lambda buffer, path: buffer.add_episode(MANY[0]),
    "add_episodes": lambda buffer, path: buffer.add_episodes(MANY),
    "extend": lambda buffer, path: buffer.extend(iter(MANY)),
    "sample": lambda buffer, path: [buffer.sample(batch_size) for batch_size in (8, 8, 7)],
    "update_priorities": lambda buffer, path: buffer.update_priorities(np.arange(80, 95), np.arange(15.0)),
    "clear": lambda buffer, path: buffer.clear(),
    "save": lambda buffer, path: buffer.save(path),
}
ADDED = {
    "add": ([], [100], [100, 102], [100, 102, 103]),
    "add_episode": ([], [100]),
    "add_episodes": ([], [100, 101]),
    "extend": ([], [100], [100, 101]),
}
"""The episodes that an interrupted operation may have added; `add` and `extend` add them one by one."""


def stored(buffer: HindsightReplayBuffer) -> list[int]:
    """Return the numbers of the stored episodes."""
    return [int(each.actions[0, 0]) for each in buffer.episodes()]


@functools.cache
def prepare(operation: str, device: str | None) -> tuple[HindsightReplayBuffer, int]:
    """Return a full buffer with prefetched batches, and the operation's number of instructions."""
    original = make_buffer(device, buffer_size=40, prioritized=Priority())
    original.add_episodes([episode(number) for number in range(10)])
    for _ in range(3):
        original.sample(8)

    def count() -> int:
        with tempfile.TemporaryDirectory() as folder:
            run = functools.partial(OPERATIONS[operation], copy.deepcopy(original), Path(folder) / "buffer")
            return count_instructions(run, FILES)

    return original, min(count(), count())  # the first run may import modules


def interrupt(
    operation: str, device: str | None, error: type[BaseException], moment: float, folder: Path
) -> None:
    """Raise an error during an operation, and check the buffer and its file afterwards.

    ``moment`` is the fraction of the operation's instructions that run before the error, from 0 to 1.
    """
    original, instructions = prepare(operation, device)
    buffer, path = copy.deepcopy(original), folder / "buffer"
    buffer.save(path)
    in_file = [stored(buffer)]
    buffer.add_episode(episode(10))
    before = stored(buffer)
    if operation == "save":
        in_file.append(before)
    with contextlib.suppress(error), Countdown(int(moment * instructions), FILES, error=error).running():
        OPERATIONS[operation](buffer, path)

    def check() -> None:
        found = stored(buffer)
        old = [number for number in found if number not in LENGTHS]
        assert old == before[len(before) - len(old) :], "the oldest are evicted first"
        assert found[len(old) :] in ADDED.get(operation, ([],))
        assert_right(buffer)
        assert stored(load_buffer(path, device)) in in_file
        assert_usable(buffer, path)

    run_in_thread(check)


def run_in_thread(function: Callable[[], None]) -> None:
    """Call a function in another thread, which a lock that is still held would block for ever."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "a lock is still held"
    for error in errors:
        raise error


def assert_right(buffer: HindsightReplayBuffer) -> None:
    """Assert that episodes were recorded, each once, and that sampled rows are their steps."""
    found, numbers = list(buffer.episodes()), stored(buffer)
    assert len(numbers) == len(set(numbers)), "each episode is stored once"
    assert_same_episodes(found, [episode(n, len(each)) for n, each in zip(numbers, found, strict=True)])
    lengths = dict(zip(numbers, map(len, found), strict=True))
    length_of = np.vectorize(lambda number: lengths.get(number, 0), otypes=[int])
    for size in (8, 64) if found else ():
        assert_counting_rows(buffer.sample(size), length_of)


def assert_usable(buffer: HindsightReplayBuffer, path: Path) -> None:
    """Assert that all methods work as before the interruption."""
    buffer.truncate_open_episode()
    assert_right(buffer)
    buffer.add_episodes([episode(number) for number in (200, 201)])
    for transition in transitions(episode(202)):
        buffer.add(*transition)
    assert stored(buffer)[-3:] == [200, 201, 202]
    buffer.update_priorities(buffer.sample(4).index, np.ones(4))
    assert_right(buffer)
    buffer.save(path)
    assert_same_episodes(load_buffer(path, None).episodes(), buffer.episodes())
