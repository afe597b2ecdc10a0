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
from typing import NamedTuple

import numpy as np

from her_wrappers import HindsightReplayBuffer, Priority
from tests.support.buffers import load_buffer, make_buffer, stack_transitions, transitions
from tests.support.counting import counting_episode
from tests.support.equality import assert_same_episodes
from tests.support.interrupts import Countdown, count_instructions

FILES = "her_wrappers/"
LENGTHS = {100: 7, 101: 7, 102: 4, 103: 4}
"""Lengths of the episodes that the operations add; episodes with smaller numbers have 5 to 14 steps."""


def episode(number: int, length: int | None = None):
    """Return an episode, or its first ``length`` steps as a truncated episode."""
    whole = LENGTHS.get(number, 5 + number % 10)
    return counting_episode(number, length or whole, terminated=number % 3 == 0 and length in {None, whole})


def full_buffer(device: str | None) -> HindsightReplayBuffer:
    """Return a full buffer with prefetched batches."""
    buffer = make_buffer(device, buffer_size=40, prioritized=Priority())
    buffer.add_episodes([episode(number) for number in range(10)])
    for _ in range(3):
        buffer.sample(8)
    return buffer


def add(buffer: HindsightReplayBuffer) -> None:
    for transition in transitions(episode(100)):
        buffer.add(*transition)
    for steps in zip(*[transitions(episode(number)) for number in (102, 103)], strict=True):
        buffer.add(*stack_transitions(steps))
    buffer.truncate_open_episode()


def sample(buffer: HindsightReplayBuffer) -> None:
    for batch_size in (8, 8, 7):
        buffer.sample(batch_size)


MANY = [episode(100), episode(101)]
OPERATIONS: dict[str, Callable[..., object]] = {
    "add": lambda buffer, path: add(buffer),
    "add_episode": lambda buffer, path: buffer.add_episode(episode(100)),
    "add_episodes": lambda buffer, path: buffer.add_episodes(MANY),
    "extend": lambda buffer, path: buffer.extend(iter(MANY)),
    "sample": lambda buffer, path: sample(buffer),
    "update_priorities": lambda buffer, path: buffer.update_priorities(np.arange(80, 95), np.arange(15.0)),
    "clear": lambda buffer, path: buffer.clear(),
    "save": lambda buffer, path: buffer.save(path),
}
"""Methods that read or change the stored transitions; `add` and `extend` store episodes one by one."""


class Scenario(NamedTuple):
    """A buffer, its episodes before and after an operation, and the operation's number of instructions."""

    buffer: HindsightReplayBuffer
    before: list[int]
    after: list[int]
    instructions: int


def stored(buffer: HindsightReplayBuffer) -> list[int]:
    """Return the numbers of the stored episodes."""
    return [int(each.actions[0, 0]) for each in buffer.episodes()]


@functools.cache
def scenario(operation: str, device: str | None) -> Scenario:
    """Run an operation twice without an interruption, since the first run may import modules."""
    original, counts = full_buffer(device), []
    for _ in range(2):
        buffer = copy.deepcopy(original)
        with tempfile.TemporaryDirectory() as folder:
            run = functools.partial(OPERATIONS[operation], buffer, Path(folder) / "buffer")
            counts.append(count_instructions(run, FILES))
    return Scenario(original, stored(original), stored(buffer), min(counts))


def interrupt(
    operation: str, device: str | None, error: type[BaseException], moment: float, folder: Path
) -> None:
    """Raise an error during an operation, and check the buffer and its file afterwards.

    ``moment`` is the fraction of the operation's instructions that run before the error, from 0 to 1.
    """
    case, path = scenario(operation, device), folder / "buffer"
    buffer = copy.deepcopy(case.buffer)
    buffer.save(path)
    buffer.add_episode(episode(10))
    case = case._replace(before=stored(buffer))
    countdown = Countdown(int(moment * case.instructions), FILES, error=error)
    with contextlib.suppress(error), countdown.running():
        OPERATIONS[operation](buffer, path)

    def check() -> None:
        assert_before_or_after(buffer, operation, case)
        found = stored(load_buffer(path, device))
        assert found in (
            [case.before, scenario(operation, device).before]
            if operation == "save"
            else [scenario(operation, device).before]
        )
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


def assert_before_or_after(buffer: HindsightReplayBuffer, operation: str, case: Scenario) -> None:
    """Assert that an operation had no effect or its full effect, or only evicted episodes."""
    found = stored(buffer)
    old = [number for number in found if number in case.before]
    new = found[len(old) :]
    assert old == case.before[len(case.before) - len(old) :], "stored episodes are the newest"
    added = [number for number in case.after if number in LENGTHS]
    wholly = (
        [added[:count] for count in range(len(added) + 1)] if operation in {"add", "extend"} else [[], added]
    )
    assert new in wholly
    assert_rows_are_right(buffer)


def assert_rows_are_right(buffer: HindsightReplayBuffer) -> None:
    """Assert that episodes were recorded, each once, and that sampled rows are their steps."""
    buffer.verify()
    found = list(buffer.episodes())
    numbers = stored(buffer)
    assert len(numbers) == len(set(numbers)), "each episode is stored once"
    assert_same_episodes(found, [episode(n, len(each)) for n, each in zip(numbers, found, strict=True)])
    lengths = dict(zip(numbers, map(len, found), strict=True))
    if not found:
        return
    for size in (8, 64):
        batch = buffer.sample(size).to_numpy()
        number, t = batch.observations["observation"].T.astype(int)
        assert all(step < lengths[each] for each, step in zip(number.tolist(), t, strict=True))
        np.testing.assert_array_equal(batch.next_observations["observation"].T, [number, t + 1])
        np.testing.assert_array_equal(batch.actions[:, 0], number + t / 1000)
        goals, rows = batch.observations["desired_goal"], batch.relabeled
        assert all(
            step < s <= lengths[each] for (each, s), step in zip(goals[rows].tolist(), t[rows], strict=True)
        )
        reached = (batch.next_observations["achieved_goal"] == goals).all(-1)
        np.testing.assert_array_equal(batch.rewards, reached - 1.0)
        firsts = set(zip(number.tolist(), (batch.index - t).tolist(), strict=True))
        assert len(firsts) == len(dict(firsts)) == len({first for _, first in firsts})


def assert_usable(buffer: HindsightReplayBuffer, path: Path) -> None:
    """Assert that all methods work as before the interruption."""
    buffer.truncate_open_episode()
    assert_rows_are_right(buffer)
    add_again = [episode(number) for number in (200, 201)]
    buffer.add_episodes(add_again)
    for transition in transitions(episode(202)):
        buffer.add(*transition)
    assert stored(buffer)[-3:] == [200, 201, 202]
    buffer.update_priorities(buffer.sample(4).index, np.ones(4))
    assert_rows_are_right(buffer)
    buffer.save(path)
    assert_same_episodes(load_buffer(path, None).episodes(), buffer.episodes())
