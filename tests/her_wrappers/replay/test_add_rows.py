"""Transitions of several environments in one call of `add`."""

from __future__ import annotations

import copy
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

import her_envs  # noqa: F401 - registers the environments
from her_wrappers import CorruptFileError, HindsightReplayBuffer, VectorEpisodeRecorder
from her_wrappers.files.reading import ArrayFile
from her_wrappers.files.writing import write_arrays
from tests.support.buffers import FUNCTIONS, plain_buffer, stack_transitions, transitions
from tests.support.counting import SPACE, counting_buffer, counting_episode
from tests.support.equality import assert_same_batches, assert_same_episodes

NUM_ENVS = 3


def rows(*episodes):
    """Yield the steps of N episodes of equal length, stacked along a leading axis, as arguments of `add`."""
    return map(stack_transitions, zip(*map(transitions, episodes), strict=True))


def counting_rows(first=0, length=4):
    return rows(*[counting_episode(first + i, length) for i in range(NUM_ENVS)])


def as_arrays(tree):
    return tree


def as_tensors(tree):
    """Return a tree of tensors; floats require gradients."""
    if isinstance(tree, dict):
        return {key: as_tensors(each) for key, each in tree.items()}
    tensor = torch.as_tensor(np.array(tree))
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


@pytest.mark.parametrize("convert", [as_arrays, as_tensors])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_rows_of_a_vector_environment_are_the_episodes_that_a_recorder_adds(mode, convert):
    envs = gym.make_vec(
        "her_envs/PointReach-v0", num_envs=4, max_steps=7, vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode}, terminate_on_success=True,
    )  # fmt: skip
    recorded, added = (HindsightReplayBuffer.for_env(envs, info_keys=["is_success"], seed=0) for _ in "ab")
    recorder = VectorEpisodeRecorder(envs, recorded, info_keys=["is_success"])
    recorder.action_space.seed(0)
    obs, _ = recorder.reset(seed=0)
    ended = np.zeros(4, bool)
    for _ in range(40):
        if mode is AutoresetMode.DISABLED and ended.any():
            obs, _ = recorder.reset(options={"reset_mask": ended})
        action = recorder.action_space.sample()
        next_obs, reward, terminated, truncated, infos = recorder.step(action)
        skip = {"skip": ended} if mode is AutoresetMode.NEXT_STEP else {}
        step = [convert(each) for each in (obs, action, reward, next_obs, terminated, truncated)]
        added.add(*step, infos, **skip)
        obs, ended = copy.deepcopy(next_obs), terminated | truncated
    recorder.close()
    added.truncate_open_episode()
    assert recorded.num_episodes >= 20
    assert_same_episodes(recorded.episodes(), added.episodes())
    assert_same_batches(recorded, added)


def test_infos_may_be_a_list_of_dicts_with_terminal_observations():
    """Stable-Baselines3's environments return these; their next_obs begins the next episode."""
    buffer = counting_buffer(info_keys=["cost"])
    for t, (obs, action, reward, next_obs, terminated, truncated) in enumerate(counting_rows()):
        infos = [{"cost": 10 * i + t, "other": object()} for i in range(NUM_ENVS)]
        if truncated.all():
            for i, info in enumerate(infos):
                info["terminal_observation"] = {key: next_obs[key][i] for key in SPACE}
        shown = {key: np.full((NUM_ENVS, 2), 77.0) for key in SPACE} if truncated.all() else next_obs
        buffer.add(obs, action, reward, shown, terminated, truncated, infos)
    for number, episode in enumerate(buffer.episodes()):
        np.testing.assert_array_equal(episode.infos["cost"], 10 * number + np.arange(4))
        expected = counting_episode(number, 4).observations["observation"]
        np.testing.assert_array_equal(episode.observations["observation"], expected)
    assert buffer.num_episodes == NUM_ENVS


def test_each_environment_has_an_episode_of_its_own():
    buffer, expected = counting_buffer(), counting_buffer()
    lengths = [2, 5, 3]
    steps = [list(transitions(counting_episode(i, 5))) for i in range(NUM_ENVS)]
    for t in range(5):
        *transition, _, _ = stack_transitions([each[t] for each in steps])
        ended = np.array([t + 1 == length for length in lengths])
        buffer.add(
            *transition,
            np.zeros(NUM_ENVS, bool),
            ended,
            skip=np.array([t >= length for length in lengths]),
        )
    for number in (0, 2, 1):
        expected.add_episode(shorter(counting_episode(number, 5), lengths[number]))
    assert_same_episodes(buffer.episodes(), expected.episodes())


def shorter(episode, length):
    observations = {key: values[: length + 1] for key, values in episode.observations.items()}
    actions, rewards = episode.actions[:length], episode.rewards[:length]
    return counting_episode(0, length, observations=observations, actions=actions, rewards=rewards)


def with_wrong_row(step, position, value):
    """Return a step with a wrong value of environment 1."""
    wrong = copy.deepcopy(list(step))
    if isinstance(wrong[position], dict):
        wrong[position]["achieved_goal"][1] = value
    else:
        wrong[position] = wrong[position].astype(type(value))
        wrong[position][1] = value
    return wrong


WRONG = {
    "a row less": lambda step: [{key: each[1:] for key, each in step[0].items()}, *step[1:]],
    "actions without rows": lambda step: [step[0], step[1][0], *step[2:]],
    "an action that is text": lambda step: [step[0], np.full((NUM_ENVS, 1), "a"), *step[2:]],
    "one reward": lambda step: [*step[:2], 1.0, *step[3:]],
    "a reward that is NaN": lambda step: with_wrong_row(step, 2, np.nan),
    "a reward too large for float32": lambda step: with_wrong_row(step, 2, 1e39),
    "next observations of one environment": lambda step: [
        *step[:3], {key: each[0] for key, each in step[3].items()}, *step[4:]
    ],
    "a missing key": lambda step: [*step[:3], {"observation": step[3]["observation"]}, *step[4:]],
    "one flag": lambda step: [*step[:4], False, step[5]],
    "flags that are numbers": lambda step: [*step[:5], np.zeros(NUM_ENVS)],
    "infos of another number of environments": lambda step: [*step, [{}]],
    "an info that is missing": lambda step: [*step, [{"cost": 1}, {}, {"cost": 1}]],
    "infos that are objects": lambda step: [*step, {"cost": np.full(NUM_ENVS, None)}],
    "infos without rows": lambda step: [*step, {"cost": 0.0}],
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("bad_step", [0, 1, 3])
def test_a_wrong_value_of_one_environment_adds_nothing_for_any(wrong, bad_step):
    buffer = counting_buffer(info_keys=["cost"])
    for t, step in enumerate(counting_rows()):
        infos = {"cost": np.full(NUM_ENVS, t)}
        if t == bad_step:
            given = WRONG[wrong](step)
            with pytest.raises((TypeError, ValueError), match=r".{20}"):
                buffer.add(*given, *[infos] * (len(given) == 6))
        buffer.add(*step, infos)
    assert [len(episode) for episode in buffer.episodes()] == [4] * NUM_ENVS
    for number, episode in enumerate(buffer.episodes()):
        expected = counting_episode(number, 4).observations["observation"]
        np.testing.assert_array_equal(episode.observations["observation"], expected)


def test_an_observation_that_does_not_continue_an_episode_is_an_error():
    buffer, (first, second, *_) = counting_buffer(), counting_rows()
    buffer.add(*first)
    with pytest.raises(
        ValueError,
        match=r"observation/achieved_goal is \[1\. 9\.\], was \[1\. 1\.\] at step 1 of environment 1; pass",
    ):
        buffer.add(*with_wrong_row(second, 0, np.array([1.0, 9.0])))
    buffer.add(*second)
    buffer.truncate_open_episode()
    assert [len(episode) for episode in buffer.episodes()] == [2] * NUM_ENVS


def test_the_number_of_environments_may_change_between_episodes_only():
    buffer, steps = counting_buffer(), list(counting_rows())
    fewer = next(iter(rows(counting_episode(7, 4), counting_episode(8, 4))))
    for number, step in enumerate(steps):
        buffer.add(*step)
        if number < 3:
            with pytest.raises(ValueError, match="the 3 environments whose episodes are open, got 2 rows"):
                buffer.add(*fewer)
    buffer.add(*fewer)
    buffer.truncate_open_episode()
    assert [len(episode) for episode in buffer.episodes()] == [4, 4, 4, 1, 1]


def test_no_environment_is_an_error():
    step = [{key: each[:0] for key, each in each.items()} if isinstance(each, dict) else each[:0]
            for each in next(iter(counting_rows()))]  # fmt: skip
    with pytest.raises(ValueError, match="obs must have a row for each environment, got none"):
        counting_buffer().add(*step)


def test_transitions_with_and_without_leading_axis_are_of_different_environments():
    buffer = counting_buffer()
    for step, single in zip(counting_rows(), transitions(counting_episode(9, 4)), strict=True):
        buffer.add(*step)
        buffer.add(*single)
    assert sorted(episode.actions[0, 0] for episode in buffer.episodes()) == [0, 1, 2, 9]


def test_an_open_episode_of_many_does_not_outgrow_the_buffer():
    buffer, steps = counting_buffer(buffer_size=3), list(counting_rows())
    for step in steps[:3]:
        buffer.add(*step)
    with pytest.raises(
        ValueError, match="the open episode has that length; raise buffer_size, pass truncated"
    ):
        buffer.add(*steps[3])
    buffer.truncate_open_episode()
    assert len(buffer) == 3


def test_a_row_may_be_skipped_between_episodes_only():
    buffer, (first, second, *_) = counting_buffer(), counting_rows()
    buffer.add(*first)
    with pytest.raises(ValueError, match="got True for environment 2, whose episode is open"):
        buffer.add(*second, skip=np.array([False, False, True]))
    with pytest.raises(TypeError, match=r"skip must be \(3,\) bools, got \[True\]"):
        buffer.add(*second, skip=[True])
    with pytest.raises(ValueError, match="skip must be None for a transition of a single environment"):
        buffer.add(*next(iter(transitions(counting_episode(0, 3)))), skip=True)


def test_a_reset_row_that_is_not_skipped_gives_one_warning():
    envs = gym.make_vec("her_envs/PointReach-v0", num_envs=2, max_steps=3, vectorization_mode="sync")
    buffer = HindsightReplayBuffer.for_env(envs)
    obs, _ = envs.reset(seed=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(12):
            step = envs.step(np.zeros((2, 2), np.float32))
            buffer.add(obs, np.zeros((2, 2), np.float32), step[1], step[0], *step[2:])
            obs = copy.deepcopy(step[0])
    [warning] = [each for each in caught if "begins in the last state" in str(each.message)]
    assert "of environment 0 begins in the last state of its previous episode" in str(warning.message)
    assert warning.filename == __file__


def test_rejected_episodes_are_dropped_and_adding_continues():
    is_broken = False

    def reward(achieved, desired, info):
        if is_broken:
            raise ZeroDivisionError
        return np.full(len(achieved), -1.0)

    buffer = counting_buffer(compute_reward=reward, device=None)
    *steps, last = counting_rows()
    for step in steps:
        buffer.add(*step)
    is_broken = True
    with pytest.raises(ZeroDivisionError):
        buffer.add(*last)
    is_broken = False
    assert len(buffer) == 0
    for step in counting_rows(5):
        buffer.add(*step)
    assert [episode.actions[0, 0] for episode in buffer.episodes()] == [5, 6, 7]


def half_added():
    """Return a buffer with open episodes of 3, 0 and 1 steps, and a function that adds their step t."""
    buffer = counting_buffer(info_keys=["cost"])
    steps = [list(transitions(counting_episode(i, 6))) for i in range(NUM_ENVS)]
    begins = np.array([0, 9, 2])

    def add(buffer, t):
        chosen = [each[max(0, t - begin)] for each, begin in zip(steps, begins, strict=True)]
        *transition, _, _ = stack_transitions(chosen)
        buffer.add(
            *transition,
            np.zeros(NUM_ENVS, bool),
            np.full(NUM_ENVS, t == 4),
            {"cost": np.arange(NUM_ENVS) + t},
            skip=t < begins,
        )

    for t in range(3):
        add(buffer, t)
    return buffer, add


def test_open_episodes_of_many_are_saved(tmp_path):
    buffer, add = half_added()
    buffer.save(tmp_path / "buffer")
    loaded = HindsightReplayBuffer.load(tmp_path / "buffer", **FUNCTIONS)
    copied = copy.deepcopy(buffer)
    for each in (buffer, loaded, copied):
        add(each, 3)
        add(each, 4)
        assert [len(episode) for episode in each.episodes()] == [5, 3]
    assert_same_episodes(buffer.episodes(), loaded.episodes())
    assert_same_episodes(buffer.episodes(), copied.episodes())


@pytest.mark.parametrize(
    "lengths", [[3, 0, 2], [3], [1, 3, 0], "303", [3, 0, -1], [3.5, 0, 1], [[3, 0, 1]], 5]
)
def test_wrong_lengths_of_open_episodes_in_a_file_are_an_error(tmp_path, lengths):
    path = tmp_path / "buffer"
    half_added()[0].save(path)
    with ArrayFile(path, kind="replay buffer", version=2) as file:
        header, arrays = file.header, file.read_all()
    assert header["open_lengths"] == [3, 0, 1]
    write_arrays(path, arrays, header | {"open_lengths": lengths}, kind="replay buffer", version=2)
    with pytest.raises(CorruptFileError, match="is damaged: its content is not a replay buffer"):
        HindsightReplayBuffer.load(path, **FUNCTIONS)


@pytest.mark.parametrize("convert", [as_arrays, as_tensors])
def test_a_single_transition_may_have_tensors_and_flags_of_one_element(convert):
    buffer, expected = plain_buffer(50), plain_buffer(50)
    for number in range(2):
        episode = counting_episode(number, 4, terminated=number == 1)
        expected.add_episode(episode)
        for obs, action, reward, next_obs, terminated, truncated, _ in transitions(episode):
            flags = (convert(np.array([flag])) for flag in (terminated, truncated))
            buffer.add(convert(obs), convert(action), convert(reward), convert(next_obs), *flags)
    assert_same_episodes(buffer.episodes(), expected.episodes())


def test_a_tensor_that_numpy_has_no_dtype_for_is_added_exactly():
    buffer = plain_buffer(50)
    obs, _, reward, next_obs, *flags, _ = next(iter(transitions(counting_episode(0, 1))))
    buffer.add(obs, torch.tensor([0.5], dtype=torch.bfloat16), reward, next_obs, *flags)
    assert buffer.sample(1).actions == 0.5
