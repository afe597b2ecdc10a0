"""A loaded buffer samples the same batches next as the one that was saved."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from her_wrappers import EpisodeRecorder, Geometric, HindsightReplayBuffer, Mixture, Priority
from her_wrappers.replay.goal_selection import final
from tests.support.buffers import FUNCTIONS, own_strategy, reloaded, transitions, wrapped
from tests.support.counting import (
    counting_buffer,
    counting_episode,
)
from tests.support.equality import assert_same_batches, assert_same_episodes, assert_same_tree


@pytest.mark.parametrize(
    "options",
    [
        {"goal_selection_strategy": "future"},
        {"goal_selection_strategy": "final", "n_sampled_goal": 1},
        {"goal_selection_strategy": "episode", "her_ratio": np.float32(0.7)},
        {"goal_selection_strategy": "geometric", "her_ratio": 1},
        {"goal_selection_strategy": Geometric(0.8), "resample_achieved_goals": True},
        {"goal_selection_strategy": "random", "resample_achieved_goals": np.True_},
        {"goal_selection_strategy": final, "n_sampled_goal": np.int64(2)},
        {"goal_selection_strategy": Mixture({"future": 0.5, "random": 0.3, "original": 0.2})},
        {"goal_selection_strategy": "desired", "resample_achieved_goals": True},
        {"goal_selection_strategy": Mixture({"desired": 0.3, "future": 0.5, "original": 0.2})},
        {"goal_selection_strategy": Mixture({Geometric(0.5): 0.5, "final": 0.25, final: 0.25})},
        {"n_sampled_goal": 0},
    ],
)
def test_a_loaded_buffer_continues_with_the_same_batches(tmp_path, options):
    """Batches of another size are prefetched before saving, and episodes are added to both buffers."""
    for sampled in ([], [16], [16] * 6, [16, 16, 7], [10_000, 10_000]):
        buffer = wrapped(**options)
        for size in sampled:
            buffer.sample(size)
        twin = reloaded(buffer, tmp_path / "buffer")
        twin.verify()
        assert (len(twin), twin.num_episodes, twin.buffer_size) == (len(buffer), buffer.num_episodes, 60)
        assert_same_batches(buffer, twin, [16] * 40 + [7, 7, 300, 10_000])
        for number in range(10, 14):
            for each in (buffer, twin):
                each.add_episode(counting_episode(number, 2 * number, terminated=True))
            assert_same_batches(buffer, twin, [7] * 5)


@pytest.mark.parametrize("termination", [None, "recompute", "success", "keep", "never"])
def test_terminations_are_restored_with_their_dependence_on_the_goal(tmp_path, termination):
    buffer = wrapped(termination=termination)
    twin = reloaded(reloaded(buffer, tmp_path / "buffer"), tmp_path / "buffer")
    assert_same_batches(buffer, twin, [500, 500])


def test_functions_of_the_users_own_are_given_again(tmp_path):
    def termination(achieved, desired, info):
        return achieved[:, 1] % 2 == 0

    own = {"goal_selection_strategy": own_strategy, "termination": termination}
    buffer = wrapped(**own)
    for _ in range(5):
        buffer.sample(16)
    assert_same_batches(buffer, reloaded(buffer, tmp_path / "buffer", **FUNCTIONS, **own))

    buffer = wrapped(goal_selection_strategy=Mixture({own_strategy: 0.5, "future": 0.5}))
    twin = reloaded(
        buffer,
        tmp_path / "buffer",
        **FUNCTIONS,
        goal_selection_strategy=Mixture({own_strategy: 0.5, "future": 0.5}),
    )
    assert_same_batches(buffer, twin)


def test_an_empty_buffer_is_restored_and_usable(tmp_path):
    for buffer in (counting_buffer(buffer_size=30), wrapped()):
        buffer.clear()
        twin = reloaded(buffer, tmp_path / "buffer")
        assert (len(twin), twin.num_episodes, twin.can_sample) == (0, 0, False)
        for each in (buffer, twin):
            each.add_episode(counting_episode(0, 5))
        assert_same_batches(buffer, twin)


def test_the_open_episode_is_restored_and_continues(tmp_path):
    buffer = wrapped()
    steps = list(transitions(counting_episode(20, 8, terminated=True)))
    for transition in steps[:5]:
        buffer.add(*transition)
    twin = reloaded(buffer, tmp_path / "buffer")
    with pytest.raises(ValueError, match="obs must equal the previous next_obs"):
        twin.add(*steps[0])
    for transition in steps[5:]:
        for each in (buffer, twin):
            each.add(*transition)
    assert_same_batches(buffer, twin)
    assert_same_episodes(buffer.episodes(), twin.episodes())


def test_prefetched_batches_survive_another_memory_layout(tmp_path):
    """Another capacity changes the slots of rows, but not serial numbers, goals and samples."""
    buffer = wrapped()
    for _ in range(4):
        buffer.sample(16)
    assert_same_batches(buffer, reloaded(buffer, tmp_path / "buffer", **FUNCTIONS, buffer_size=61))


@pytest.mark.parametrize("taken", range(1, 9))
@pytest.mark.parametrize("options", [{}, {"n_steps": 3}, {"prioritized": Priority()}])
def test_changes_of_a_batch_are_not_saved(tmp_path, taken, options):
    buffer, twin = wrapped(**options), wrapped(**options)
    for _ in range(taken):
        batch = buffer.sample(8)
        twin.sample(8)
        for column in (batch.index, batch.relabeled, batch.weights):
            column[...] = -1
    again = reloaded(buffer, tmp_path / "buffer")
    batch = again.sample(8)
    assert_same_tree(batch.index, twin.sample(8).index)
    batch.index[...] = -1
    assert_same_batches(twin, reloaded(again, tmp_path / "buffer"))


def test_a_buffer_may_be_saved_again_and_again(tmp_path):
    buffer = wrapped()
    for number in range(10, 20):
        for _ in range(number % 4):
            buffer.sample(9)
        twin = reloaded(buffer, tmp_path / "buffer")
        assert_same_batches(buffer, twin, [9] * (number % 3))
        buffer = twin
        buffer.add_episode(counting_episode(number, number))
    assert_same_episodes(buffer.episodes(), [counting_episode(n, n) for n in (17, 18, 19)])


def test_an_environment_of_our_own_gives_the_functions(tmp_path):
    env = gym.make("her_envs:her_envs/PointPush-v0")
    buffer = HindsightReplayBuffer.for_env(env, buffer_size=400, seed=0)
    recorder = EpisodeRecorder(env, buffer.add_episode)
    recorder.action_space.seed(0)
    for seed in range(5):
        recorder.reset(seed=seed)
        for _ in range(100):
            recorder.step(recorder.action_space.sample())
    buffer.sample(64)
    assert_same_batches(buffer, reloaded(buffer, tmp_path / "buffer", env=env), [64] * 10)
