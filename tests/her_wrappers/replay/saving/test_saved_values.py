"""Observations, goals and infos of every kind are restored from a file bit for bit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers import HindsightReplayBuffer
from tests.support.buffers import reloaded, transitions, wrapped
from tests.support.counting import (
    compute_terminated,
    counting_buffer,
    counting_episode,
)
from tests.support.counting_rewards import episode_with_costs, reward_of_columns, reward_of_rows
from tests.support.equality import assert_same_batches, assert_same_episodes
from tests.support.odd_spaces import ODD_SPACES, image_buffer, image_episode, image_reward, random_tree


@pytest.mark.parametrize("actions", ["discrete", "nested", "half"])
@pytest.mark.parametrize("name", ODD_SPACES)
def test_every_space_of_arrays_is_restored_exactly(tmp_path, name, actions):
    observation, goal = ODD_SPACES[name]
    space = spaces.Dict(
        observation=observation, achieved_goal=goal, desired_goal=goal, extra=spaces.Discrete(2)
    )
    action_space = ODD_SPACES[actions][0]
    functions = {"compute_reward": lambda a, d, i: (a == d).reshape(len(a), -1).all(-1) + -1.0}
    buffer = HindsightReplayBuffer(
        space, action_space, buffer_size=30, termination="keep", seed=0, **functions
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the recorded rewards are arbitrary
        for length in (7, 1, 12, 9, 8):
            episode = counting_episode(
                0,
                length,
                observations=random_tree(space, length + 1),
                actions=random_tree(action_space, length),
            )
            buffer.add_episode(episode)
    twin = reloaded(buffer, tmp_path / "buffer", **functions)
    assert (twin.observation_space, twin.action_space) == (space, action_space)
    assert_same_episodes(buffer.episodes(), twin.episodes())
    assert_same_batches(buffer, twin, [50])


@pytest.mark.parametrize("first_apart", [0, 2, 9])
def test_images_are_restored_whether_deduplicated_or_not(tmp_path, first_apart):
    buffer = image_buffer(buffer_size=60, seed=0)
    for number in range(4):
        buffer.add_episode(image_episode(number, 12, apart=number >= first_apart))
    twin = reloaded(buffer, tmp_path / "buffer", compute_reward=image_reward)
    for number in range(4, 9):
        assert twin.nbytes == buffer.nbytes
        assert_same_batches(buffer, twin, [30])
        for each in (buffer, twin):
            each.add_episode(image_episode(number, 12, apart=number >= 6))
    assert_same_episodes(buffer.episodes(), twin.episodes())


def test_an_image_that_is_observation_and_achieved_goal_is_saved_once(tmp_path):
    buffer = image_buffer(buffer_size=500, seed=0)
    for number in range(10):
        buffer.add_episode(image_episode(number, 50))
    buffer.save(tmp_path / "buffer")
    assert (tmp_path / "buffer").stat().st_size < 1.1 * 36 * 36 * 520


def test_numpy_opens_the_file_too(tmp_path):
    buffer = wrapped()
    buffer.save(tmp_path / "buffer")
    with np.load(tmp_path / "buffer", allow_pickle=False) as arrays:
        expected = np.concatenate([episode.actions for episode in buffer.episodes()])
        np.testing.assert_array_equal(arrays["0/actions"], expected)


def test_changing_goals_are_restored_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    buffer, episodes = counting_buffer(), []
    for number in range(30):
        episode = counting_episode(number, 20)
        changes = rng.integers(3, size=21) == 0
        values = rng.choice([0.0, -0.0, np.nan, 1.0, np.nextafter(1, 2)], size=(21, 2))
        episode.observations["desired_goal"][:] = values[np.maximum.accumulate(np.arange(21) * changes)]
        episodes.append(episode)
    buffer.add_episodes(episodes)
    twin = reloaded(buffer, tmp_path / "buffer")
    assert_same_episodes(buffer.episodes(), episodes)
    assert_same_episodes(twin.episodes(), episodes)
    assert_same_batches(buffer, twin, [300])


@pytest.mark.parametrize(("function", "form"), [(reward_of_rows, "list"), (reward_of_columns, "columns")])
def test_infos_are_restored_in_their_format(tmp_path, function, form):
    buffer = counting_buffer(
        compute_reward=function, info_keys=["cost", "force"], info_format=form, buffer_size=20
    )
    for number, length in enumerate([9, 5, 8]):
        buffer.add_episode(episode_with_costs(number, length))
    twin = reloaded(
        buffer, tmp_path / "buffer", compute_reward=function, compute_terminated=compute_terminated
    )
    assert_same_batches(buffer, twin)
    assert_same_episodes(buffer.episodes(), twin.episodes())
    for each in (buffer, twin):
        each.add_episode(episode_with_costs(4, 11))
    assert_same_batches(buffer, twin)


def test_an_open_episode_is_restored_with_its_infos(tmp_path):
    options = {"compute_reward": reward_of_columns, "compute_terminated": compute_terminated}
    buffer = counting_buffer(info_keys=["cost", "force"], info_format="columns", **options)
    episode = episode_with_costs(2, 5)
    for t, transition in enumerate(transitions(episode)):
        buffer.add(*transition[:6], {key: column[t] for key, column in episode.infos.items()})
        buffer = reloaded(buffer, tmp_path / "buffer", **options)
    [found] = buffer.episodes()
    np.testing.assert_array_equal(found.infos["force"], episode.infos["force"], strict=True)
