"""Rare combinations: nested goals, inference mode, reversed arrays, a second save and load."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from her_wrappers import CorruptFileError, Episode, HindsightReplayBuffer
from her_wrappers.trees import as_leaf

BOX = spaces.Box(-np.inf, np.inf, (2,), np.float32)
SPACE = spaces.Dict(observation=BOX, achieved_goal=BOX, desired_goal=BOX)
ACTION = spaces.Discrete(2)


def reward(achieved, desired, info):
    return 1.0 * (achieved == desired).all(-1) - 1


def terminated(achieved, desired, info):
    return (achieved == desired).all(-1)


def an_episode(length=5, **changes):
    values = np.arange(2.0 * (length + 1), dtype=np.float32).reshape(-1, 2)
    observations = {"observation": values, "achieved_goal": values, "desired_goal": np.zeros_like(values) - 1}
    actions = np.zeros(length, np.int64)
    return Episode(observations | changes, actions, np.full(length, -1.0), terminated=False, truncated=True)


def make(**options):
    return HindsightReplayBuffer(SPACE, ACTION, **{"buffer_size": 50, "compute_reward": reward} | options)


def test_a_nested_goal_may_have_the_shape_of_the_observation():
    goal = spaces.Dict(p=BOX)
    space = spaces.Dict(observation=BOX, achieved_goal=goal, desired_goal=goal)
    values = np.arange(12, dtype=np.float32).reshape(-1, 2)
    observations = {"observation": values, "achieved_goal": {"p": values}, "desired_goal": {"p": values}}
    buffer = HindsightReplayBuffer(
        space, ACTION, buffer_size=50, compute_reward=lambda a, d, info: reward(a["p"], d["p"], info)
    )
    zeros = np.zeros(5)
    buffer.add_episode(Episode(observations, zeros.astype(int), zeros, terminated=False, truncated=True))
    batch = buffer.sample(64)
    np.testing.assert_array_equal(batch.observations["observation"], batch.observations["achieved_goal"]["p"])


def test_an_open_episode_longer_than_the_loaded_buffer_is_an_error_but_no_damage(tmp_path):
    buffer, observations = make(), an_episode(30).observations
    rows = [{key: values[t] for key, values in observations.items()} for t in range(31)]
    for t in range(30):
        buffer.add(rows[t], 0, -1.0, rows[t + 1], False, False)
    buffer.save(tmp_path / "buffer")
    with pytest.raises(ValueError, match="must fit the buffer of 20 transitions, got 30 steps") as error:
        HindsightReplayBuffer.load(tmp_path / "buffer", compute_reward=reward, buffer_size=20)
    assert not isinstance(error.value, CorruptFileError)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"goal_selection_strategy": lambda t, length, rng: length}, "pass goal_selection_strategy="),
        ({"termination": terminated}, "pass termination="),
        ({"compute_terminated": terminated}, "needs compute_terminated"),
    ],
)
def test_functions_stay_missing_if_a_buffer_without_functions_is_saved(tmp_path, option, message):
    buffer = make(**option)
    buffer.add_episode(an_episode())
    buffer.save(tmp_path / "first")
    HindsightReplayBuffer.load(tmp_path / "first").save(tmp_path / "second")
    for name in ("first", "second"):
        with pytest.raises(ValueError, match=message):
            HindsightReplayBuffer.load(tmp_path / name, compute_reward=reward)
        loaded = HindsightReplayBuffer.load(tmp_path / name, compute_reward=reward, **option)
        assert loaded.sample(64).relabeled.any()


def test_an_observation_that_differs_from_the_goal_may_come_in_inference_mode():
    buffer = make(device="cpu", tensor_functions=True)
    buffer.add_episode(an_episode())
    with torch.inference_mode():
        buffer.add_episode(an_episode(observation=np.zeros((6, 2), np.float32)))
    buffer.add_episode(an_episode())
    assert len(buffer) == 15


@pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
def test_reversed_arrays_and_long_rewards_are_stored_on_a_device(dtype):
    buffer = make(
        buffer_size=8,
        device="cpu",
        tensor_functions=True,
    )
    episode = an_episode()
    buffer.add_episode(episode)
    reversed_ = {key: values[::-1] for key, values in episode.observations.items()}
    rewards = np.full(5, -1.0).astype(dtype)
    buffer.add_episode(Episode(reversed_, episode.actions, rewards, terminated=False, truncated=True))
    (stored,) = buffer.episodes()
    np.testing.assert_array_equal(stored.observations["observation"], reversed_["observation"])


def test_a_batch_may_have_more_attributes():
    buffer = make()
    buffer.add_episode(an_episode())
    batch = buffer.sample(4)
    batch.extra = 1
    np.testing.assert_array_equal(batch.to_torch().goal_index, batch.goal_index)


@pytest.mark.parametrize(("value", "dtype"), [(np.int8(-1), np.uint8), (np.uint64(2**63), np.int64)])
def test_a_cast_that_changes_the_sign_is_an_error(value, dtype):
    with pytest.raises(ValueError, match="value"):
        as_leaf("x", np.array([value]), (1,), np.dtype(dtype))
