"""Internals, `byte_rows.py`: the buffer is unchanged if a ring cannot grow."""

from __future__ import annotations

import copy

import pytest

from her_wrappers import HindsightReplayBuffer
from her_wrappers.replay.byte_rows import ByteRing
from her_wrappers.replay.torch_records import TensorRing
from tests.support.counting import counting_buffer, counting_episode
from tests.support.counting_rewards import episode_with_costs, reward_of_columns
from tests.support.equality import assert_same_batches, assert_same_episodes
from tests.support.odd_spaces import image_buffer, image_episode


def refuse(*arguments, **options):
    raise MemoryError


def assert_unchanged_without_memory(buffer, add, method, replacement=refuse):
    """Assert that adding fails without memory, changes nothing, and works again with memory.

    Args:
        buffer: The buffer.
        add: Function that adds to the buffer.
        method: Name of the method of rings or of the storage that fails.
        replacement: Function from the class to the failing method.
    """
    twin, before = copy.deepcopy(buffer), list(buffer.episodes())
    with pytest.MonkeyPatch.context() as patch:
        for owner in (ByteRing, TensorRing, type(buffer._storage)):
            if hasattr(owner, method):
                patch.setattr(owner, method, replacement(owner) if replacement is not refuse else refuse)
        with pytest.raises(MemoryError):
            add(buffer)
    buffer.verify()
    assert_same_episodes(buffer.episodes(), before)
    if before:
        assert set(buffer.sample(1000).index) == set(twin.sample(1000).index)
    for each in (buffer, twin):
        add(each)
        each.verify()
    assert_same_episodes(buffer.episodes(), twin.episodes())
    assert len(buffer.sample(10)) == 10


@pytest.mark.parametrize("full", [64, 1032])
def test_the_buffer_is_unchanged_when_its_rings_cannot_grow(full):
    """Episodes of one step need more segments and states than are allocated at first."""
    buffer = counting_buffer(buffer_size=1000)
    for number in range(20):
        buffer.add_episode(counting_episode(number, 50))
    buffer.sample(30)

    def resizing_other_rings(owner):
        resized = owner.resized

        def resize(ring, first, end, capacity):
            if ring.capacity == full:
                raise MemoryError
            return resized(ring, first, end, capacity)

        return resize

    one_step = [counting_episode(number, 1) for number in range(20, 160)]
    assert_unchanged_without_memory(
        buffer, lambda each: each.add_episodes(one_step), "resized", resizing_other_rings
    )


def test_the_buffer_is_unchanged_when_memory_for_deduplicated_images_is_missing():
    buffer = image_buffer(buffer_size=40, seed=0)
    episode = image_episode(0, 12)
    assert_unchanged_without_memory(buffer, lambda each: each.add_episode(episode), "_new_ring")


def test_the_buffer_is_unchanged_when_memory_for_different_images_is_missing():
    buffer = image_buffer(buffer_size=40, seed=0)
    buffer.add_episode(image_episode(0, 12))
    apart = image_episode(1, 12, apart=True)
    assert_unchanged_without_memory(buffer, lambda each: each.add_episode(apart), "converted")
    assert_same_episodes(buffer.episodes(), [image_episode(0, 12), apart])


def test_the_buffer_is_unchanged_when_memory_for_infos_is_missing():
    buffer = counting_buffer(
        compute_reward=reward_of_columns, info_keys=["cost", "force"], info_format="columns"
    )
    episode = episode_with_costs(0, 5)
    assert_unchanged_without_memory(buffer, lambda each: each.add_episode(episode), "_new_ring")


def test_missing_memory_while_loading_is_an_error_with_its_size(tmp_path):
    buffer = counting_buffer(buffer_size=100)
    buffer.add_episodes([counting_episode(number, 1) for number in range(100)])
    buffer.save(tmp_path / "buffer")
    with pytest.raises(
        MemoryError, match=r"buffer_size=1000000000000000 needs \d+.\d GiB, and there is not enough memory"
    ):
        HindsightReplayBuffer.load(tmp_path / "buffer", n_sampled_goal=0, buffer_size=10**15)
    with pytest.MonkeyPatch.context() as patch:
        for ring in (ByteRing, TensorRing):
            patch.setattr(ring, "resized", refuse)
        with pytest.raises(MemoryError):
            HindsightReplayBuffer.load(tmp_path / "buffer", n_sampled_goal=0)
    assert_same_batches(
        *(HindsightReplayBuffer.load(tmp_path / "buffer", n_sampled_goal=0) for _ in range(2))
    )


@pytest.mark.parametrize("failing", range(2))
def test_the_buffer_is_unchanged_when_it_cannot_be_cleared(failing):
    buffer = counting_buffer(buffer_size=1000)
    for number in range(3):
        buffer.add_episode(counting_episode(number, 7))
    twin, new_ring, calls = copy.deepcopy(buffer), type(buffer._storage)._new_ring, []

    def fail_once(storage, capacity, dtype):
        calls.append(capacity)
        if len(calls) == failing + 1:
            raise MemoryError
        return new_ring(storage, capacity, dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(buffer._storage), "_new_ring", fail_once)
        with pytest.raises(MemoryError):
            buffer.clear()
    buffer.verify()
    assert_same_episodes(buffer.episodes(), twin.episodes())
    assert_same_batches(buffer, twin)
    buffer.clear()
    buffer.verify()
    assert (len(buffer), buffer.num_episodes) == (0, 0)
