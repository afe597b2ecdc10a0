"""Options of `load` that replace the saved ones, and invalid options."""

from __future__ import annotations

import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers import HindsightReplayBuffer, InUseError, Mixture
from her_wrappers.files.atomic import replacement
from tests.support.buffers import FUNCTIONS, own_strategy, reloaded, wrapped
from tests.support.counting import (
    SPACE,
    compute_terminated,
)
from tests.support.equality import assert_same_batches, assert_same_episodes


def test_a_smaller_buffer_keeps_the_newest_episodes(tmp_path):
    buffer = wrapped()
    lengths = [len(episode) for episode in buffer.episodes()]
    for _ in range(4):
        buffer.sample(16)
    twin = reloaded(buffer, tmp_path / "buffer", **FUNCTIONS, buffer_size=26)
    kept = list(buffer.episodes())[-4:]
    assert sum(map(len, kept)) <= 26 < sum(lengths[-5:])
    assert_same_episodes(twin.episodes(), kept)
    twin.verify()
    newest = int(buffer.sample(2000).index.max())
    assert set(twin.sample(2000).index) == set(range(newest + 1 - len(twin), newest + 1))
    again = reloaded(twin, tmp_path / "buffer")
    assert again.buffer_size == 26


def test_an_episode_that_does_not_fit_the_smaller_buffer_is_named(tmp_path):
    with pytest.raises(
        ValueError,
        match="must fit the buffer of 9 transitions, got 25 steps; raise buffer_size",
    ):
        reloaded(wrapped(), tmp_path / "buffer", **FUNCTIONS, buffer_size=9)


def test_another_seed_begins_anew(tmp_path):
    buffer = wrapped()
    twins = [reloaded(buffer, tmp_path / "buffer", **FUNCTIONS, seed=seed) for seed in (7, 7, 8)]
    assert_same_batches(*twins[:2])
    assert not np.array_equal(twins[1].sample(50).index, twins[2].sample(50).index)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"goal_selection_strategy": "final"}, {"final", "original"}),
        ({"her_ratio": 1}, {"future"}),
        ({"goal_selection_strategy": Mixture({"random": 0.5, "original": 0.5})}, {"random", "original"}),
        (
            {"goal_selection_strategy": Mixture({"desired": 0.5, "final": 0.5})},
            {"final", "desired", "original"},
        ),
        ({"goal_selection_strategy": "episode", "n_sampled_goal": 0}, {"original"}),
    ],
)
def test_other_shares_and_strategies_may_be_chosen(tmp_path, options, names):
    buffer = wrapped(n_sampled_goal=4)
    buffer.sample(50)
    assert set(reloaded(buffer, tmp_path / "buffer", **FUNCTIONS, **options).sample(50).strategy) == names


@pytest.mark.parametrize(
    ("saved", "options", "message"),
    [
        (
            {"goal_selection_strategy": own_strategy},
            {},
            "goal_selection_strategy of the saved buffer is or has the user's function 'own_strategy', which "
            "is not in the file; pass goal_selection_strategy= to load",
        ),
        (
            {"goal_selection_strategy": Mixture({"future": 0.5, own_strategy: 0.5})},
            {},
            "goal_selection_strategy of the saved buffer is or has the user's function 'own_strategy', which "
            "is not in the file; pass goal_selection_strategy= to load",
        ),
        (
            {"termination": compute_terminated},
            {},
            "termination of the saved buffer is or has the user's function 'compute_terminated', which is "
            "not in the file; pass termination= to load",
        ),
        (
            {},
            {"info_keys": ["cost"]},
            "info_keys must be those of the saved buffer, [], whose infos are in the file, got ['cost']; "
            "leave them out",
        ),
        ({}, {"buffer_size": 0}, "buffer_size must be a whole number >= 1, got 0"),
        (
            {},
            {"n_sampled_goal": 1, "her_ratio": 0.5},
            "the relabeled share must be given once, got n_sampled_goal and her_ratio",
        ),
    ],
)
def test_invalid_options_give_a_clear_error(tmp_path, saved, options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        reloaded(wrapped(**saved), tmp_path / "buffer", **FUNCTIONS, **options)


def test_an_unknown_option_is_an_error(tmp_path):
    with pytest.raises(TypeError, match="unexpected keyword argument 'buffersize'"):
        reloaded(wrapped(), tmp_path / "buffer", **FUNCTIONS, buffersize=10)


@pytest.mark.parametrize("info_keys", ["cost", 5, None])
def test_info_keys_that_are_not_a_list_of_strings_are_an_error(tmp_path, info_keys):
    with pytest.raises(TypeError, match="info_keys must be a list of strings, got "):
        reloaded(wrapped(), tmp_path / "buffer", **FUNCTIONS, info_keys=info_keys)


def test_the_error_for_an_environment_with_other_spaces_names_the_leaf(tmp_path):
    buffer = wrapped()
    buffer.save(tmp_path / "buffer")
    with pytest.raises(
        ValueError,
        match=r"env must have the spaces of the buffer in .*: observation/achieved_goal is Box\(-inf",
    ):
        HindsightReplayBuffer.load(tmp_path / "buffer", gym.make("her_envs:her_envs/PointReach-v0"))
    with pytest.raises(TypeError, match="expected a gymnasium Env or VectorEnv, got str"):
        HindsightReplayBuffer.load(tmp_path / "buffer", "her_envs/PointReach-v0")


def test_a_space_that_cannot_be_saved_is_an_error_and_the_old_file_stays(tmp_path):
    wrapped().save(tmp_path / "buffer")
    before = (tmp_path / "buffer").read_bytes()
    buffer = HindsightReplayBuffer(SPACE, spaces.Space((1,), np.float64), n_sampled_goal=0)
    with pytest.raises(TypeError, match="expected a space that JSON can describe, got <"):
        buffer.save(tmp_path / "buffer")
    assert (tmp_path / "buffer").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["buffer"]


def test_a_path_that_cannot_be_written_is_an_error_and_the_buffer_stays_usable(tmp_path):
    buffer = wrapped()
    with pytest.raises(FileNotFoundError):
        buffer.save(tmp_path / "nowhere" / "buffer")
    with pytest.raises(IsADirectoryError, match="expected the path of a file, got the folder"):
        buffer.save(tmp_path)
    with (
        replacement(tmp_path / "buffer"),
        pytest.raises(InUseError, match="is being written by another process or thread"),
    ):
        buffer.save(tmp_path / "buffer")
    assert_same_batches(buffer, reloaded(buffer, tmp_path / "buffer"))
