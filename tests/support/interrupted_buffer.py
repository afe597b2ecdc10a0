"""Replay buffers whose methods are interrupted, and assertions about them afterwards."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import tempfile
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from her_wrappers import HindsightReplayBuffer, Priority
from tests.support.buffers import FUNCTIONS, stack_transitions, transitions
from tests.support.counting import counting_buffer, counting_episode
from tests.support.interrupts import Countdown, count_instructions
from tests.support.memory_limit import memory_limit

FILES = "her_wrappers/"


class Size(NamedTuple):
    """Numbers of steps: of the buffer, of its episodes, and of the episodes that are added."""

    buffer: int
    stored: int
    added: int


SMALL, LARGE = Size(40, 5, 7), Size(3000, 190, 230)
LIMITED = Size(200_000, 9_000, 60_000)
"""Its arrays are too large for the memory that a limited process has left."""


def full_buffer(size: Size = SMALL, **options: object) -> HindsightReplayBuffer:
    """Return a full buffer with prefetched batches.

    The buffer of size LIMITED has no priorities: they need a large matrix product, and OpenBLAS ends the
    process if it has no memory for the threads of the product.
    """
    priority = None if size is LIMITED else Priority()
    buffer = counting_buffer(buffer_size=size.buffer, prioritized=priority, **options)
    for number in range(size.buffer // size.stored + 2):
        buffer.add_episode(counting_episode(number, size.stored + number))
    for _ in range(3):
        buffer.sample(8)
    return buffer


def stored(buffer: HindsightReplayBuffer) -> list[tuple[int, int]]:
    """Return number and length of each stored episode."""
    return [(int(episode.actions[0, 0]), len(episode)) for episode in buffer.episodes()]


def assert_rows_are_right(buffer: HindsightReplayBuffer) -> None:
    """Assert that rows are steps of stored episodes, and that relabeled rows have goals achieved in these."""
    buffer.verify()
    known = dict(stored(buffer))
    if not known:
        return
    batch = buffer.sample(64).to_numpy()
    number, t = batch.observations["observation"].T
    assert {int(each) for each in number} <= known.keys()
    assert all(step < known[int(each)] for each, step in zip(number, t, strict=True))
    np.testing.assert_array_equal(batch.next_observations["observation"], np.stack([number, t + 1], axis=1))
    np.testing.assert_array_equal(batch.observations["achieved_goal"], batch.observations["observation"])
    goals = batch.observations["desired_goal"][batch.relabeled]
    assert all(1 <= s <= known[int(each)] for each, s in goals)


Operation = Callable[[HindsightReplayBuffer, Size, Path], object]


def add(buffer: HindsightReplayBuffer, size: Size, folder: Path) -> None:
    for transition in transitions(counting_episode(100, min(size.added, 20), terminated=True)):
        buffer.add(*transition)
    buffer.truncate_open_episode()


def add_two(buffer: HindsightReplayBuffer, size: Size, folder: Path) -> None:
    """Add the transitions of two environments."""
    episodes = [transitions(counting_episode(number, 4, terminated=True)) for number in (100, 101)]
    for steps in zip(*episodes, strict=True):
        buffer.add(*stack_transitions(steps))
    buffer.truncate_open_episode()


def update_priorities(buffer: HindsightReplayBuffer, size: Size, folder: Path) -> None:
    index = buffer._storage.memory.index.first.step
    buffer.update_priorities(np.arange(index, index + 20), np.arange(20.0))


def sample(buffer: HindsightReplayBuffer, size: Size, folder: Path) -> None:
    for batch_size in (8, 8, size.added):
        buffer.sample(batch_size)


OPERATIONS: dict[str, Operation] = {
    "add": add,
    "add, two environments": add_two,
    "add_episode": lambda buffer, size, _: buffer.add_episode(counting_episode(100, size.added)),
    "add_episodes": lambda buffer, size, _: buffer.add_episodes([
        counting_episode(number, size.added) for number in (100, 101)
    ]),
    "extend": lambda buffer, size, _: buffer.extend(
        counting_episode(number, size.added) for number in (100, 101)
    ),
    "sample": sample,
    "update_priorities": update_priorities,
    "clear": lambda buffer, size, _: buffer.clear(),
    "save": lambda buffer, size, folder: buffer.save(folder / "buffer"),
}
"""Methods that read or change the stored transitions; `extend` adds one episode after the other."""


class Scenario(NamedTuple):
    """A buffer, its episodes before and after an operation, and the operation's number of instructions."""

    buffer: HindsightReplayBuffer
    before: list[tuple[int, int]]
    after: list[tuple[int, int]]
    instructions: int


@functools.cache
def scenario(operation: str, size: Size, device: str | None) -> Scenario:
    """Run an operation twice without an interruption, since the first run may import modules."""
    original = full_buffer(size, device=device)
    before, counts = stored(original), []
    for _ in range(2):
        buffer = copy.deepcopy(original)
        with tempfile.TemporaryDirectory() as folder:
            run = functools.partial(OPERATIONS[operation], buffer, size, Path(folder))
            counts.append(count_instructions(run, FILES))
    return Scenario(original, before, stored(buffer), min(counts))


def assert_before_or_after(buffer: HindsightReplayBuffer, case: Scenario) -> None:
    """Assert that an operation had no effect or its full effect, or only evicted episodes.

    `extend` may also have added only the first of its episodes. Sampled rows must be correct.
    """
    found = stored(buffer)
    old = [episode for episode in found if episode in case.before]
    new = found[len(old) :]
    assert old == case.before[len(case.before) - len(old) :], "stored episodes are the newest"
    added = [episode for episode in case.after if episode not in case.before]
    assert new == added[: len(new)], "added episodes are whole and in their order"
    assert_rows_are_right(buffer)


def assert_usable(buffer: HindsightReplayBuffer, size: Size) -> None:
    """Assert that the buffer adds episodes and samples as before the interruption."""
    buffer.truncate_open_episode()
    buffer.add_episodes([counting_episode(number, size.stored) for number in (200, 201)])
    assert stored(buffer)[-2:] == [(200, size.stored), (201, size.stored)]
    numbers = [number for number, _ in stored(buffer)]
    assert numbers == sorted(set(numbers)), "each episode is stored once"
    assert_rows_are_right(buffer)


def interrupt(  # noqa: PLR0917 - one trial, by what happens, where and when
    operation: str, size: Size, device: str | None, error: type[BaseException], moment: float, folder: Path
) -> None:
    """Raise an error during an operation, and check the buffer and its file afterwards.

    ``moment`` is the fraction of the operation's instructions that run before the error, from 0 to 1.
    """
    case = scenario(operation, size, device)
    buffer = copy.deepcopy(case.buffer)
    buffer.save(folder / "buffer")
    countdown = Countdown(int(moment * case.instructions), FILES, error=error)
    with contextlib.suppress(error), countdown.running():
        OPERATIONS[operation](buffer, size, folder)
    assert_before_or_after(buffer, case)
    assert_rows_are_right(HindsightReplayBuffer.load(folder / "buffer", **FUNCTIONS, device=device))
    assert_usable(buffer, size)


def save_from_handler(operation: str, size: Size, device: str | None, moment: float, folder: Path) -> None:
    """Save from a signal handler that runs at the fraction ``moment`` of an operation, and check the file."""
    case = scenario(operation, size, device)
    buffer = copy.deepcopy(case.buffer)
    countdown = Countdown(
        int(moment * case.instructions), FILES, handler=lambda: buffer.save(folder / "from handler")
    )
    with countdown.running():
        OPERATIONS[operation](buffer, size, folder)
    assert countdown.has_raised
    loaded = HindsightReplayBuffer.load(folder / "from handler", **FUNCTIONS, device=device)
    assert_before_or_after(loaded, case)
    assert stored(buffer) == case.after
    assert_usable(buffer, size)


def count_low_limits(operation: str, rooms: Iterable[int], folder: Path) -> int:
    """Run `limit_memory` in a fork of this process for each limit; return the number of limits too low.

    A fork has no free memory of earlier calls, to which a limit would not apply.
    """
    low = 0
    scenario(operation, LIMITED, None)  # cached for all forks
    for room in rooms:
        pid = os.fork()
        if pid == 0:
            code = 2
            try:
                code = int(limit_memory(operation, room, folder))
            except BaseException:
                traceback.print_exc()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code not in {0, 1}:
            raise RuntimeError(f"{operation} with {room} bytes ended with exit code {code}")
        low += code
    return low


def limit_memory(operation: str, room: int, folder: Path) -> bool:
    """Run an operation with large arrays under a memory limit; return whether the limit was too low.

    Args:
        operation: Name of the operation.
        room: Bytes that the process may allocate beyond those that it has.
        folder: Folder for the file of the buffer.
    """
    case = scenario(operation, LIMITED, None)
    buffer = copy.deepcopy(case.buffer)
    has_failed = False
    try:
        with memory_limit(room):
            OPERATIONS[operation](buffer, LIMITED, folder)
    except MemoryError:
        has_failed = True
    assert_before_or_after(buffer, case)
    assert_usable(buffer, LIMITED)
    return has_failed
