"""Adding transitions, of one environment and of several, and adding episodes."""

import copy
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import her_envs  # noqa: F401 - registers the environments
from her_wrappers import Episode, EpisodeArchive, Episodes, HindsightReplayBuffer, VectorEpisodeRecorder
from her_wrappers.data.trees import map_tree
from tests.support.buffers import filled, plain_buffer, rows, transitions
from tests.support.counting import ACTIONS, SPACE, counting_buffer, counting_episode
from tests.support.equality import assert_same_episodes

# --- one transition -------------------------------------------------------------------------------


def as_tensors(tree):
    """Return a tree of tensors; floats require gradients."""
    tensors = map_tree(lambda leaf: torch.as_tensor(np.array(leaf)), tree)
    return map_tree(lambda each: each.requires_grad_() if each.is_floating_point() else each, tensors)


def test_a_transition_may_have_tensors_and_flags_of_one_element():
    """Also of a dtype that NumPy does not have."""
    buffer, episode = plain_buffer(50), counting_episode(1, 4, terminated=True, actions=np.full((4, 1), 0.5))
    for obs, action, *step, terminated, truncated, _ in transitions(episode):
        flags = (as_tensors([flag]) for flag in (terminated, truncated))
        buffer.add(as_tensors(obs), torch.as_tensor(action).bfloat16(), *map(as_tensors, step), *flags)
    assert_same_episodes(buffer.episodes(), [episode])


# --- several environments -------------------------------------------------------------------------

NUM_ENVS = 3


def counting_rows(first=0, length=4):
    return list(rows(*[counting_episode(first + i, length) for i in range(NUM_ENVS)]))


@pytest.mark.parametrize("mode", AutoresetMode)
def test_rows_of_a_vector_environment_are_the_episodes_that_a_recorder_adds(mode):
    envs = gym.make_vec(
        "her_envs/PointReach-v0", num_envs=4, max_steps=7, vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode}, terminate_on_success=True,
    )  # fmt: skip
    recorded, added = (HindsightReplayBuffer.for_env(envs, info_keys=["is_success"], seed=0) for _ in "ab")
    recorder = VectorEpisodeRecorder(envs, recorded.add_episodes, info_keys=["is_success"])
    recorder.action_space.seed(0)
    obs, _ = recorder.reset(seed=0)
    ended = np.zeros(4, bool)
    for _ in range(40):
        if mode is AutoresetMode.DISABLED and ended.any():
            obs, _ = recorder.reset(options={"reset_mask": ended})
        action = recorder.action_space.sample()
        next_obs, reward, terminated, truncated, infos = recorder.step(action)
        skip = {"skip": ended} if mode is AutoresetMode.NEXT_STEP else {}
        step = map(as_tensors, (obs, action, reward, next_obs, terminated, truncated))
        added.add(*step, infos, **skip)
        obs, ended = copy.deepcopy(next_obs), terminated | truncated
    recorder.close()
    added.truncate_open_episode()
    assert recorded.num_episodes >= 20
    assert_same_episodes(recorded.episodes(), added.episodes())


def with_wrong_row(step, position, value):
    """Return a step with a wrong value of environment 1."""
    wrong = copy.deepcopy(list(step))
    rows = wrong[position]["achieved_goal"] if isinstance(wrong[position], dict) else wrong[position]
    rows[1] = value
    return wrong


WRONG_ROWS = [
    lambda step: [{key: each[1:] for key, each in step[0].items()}, *step[1:]],
    lambda step: [*step[:2], 1.0, *step[3:]],
    lambda step: with_wrong_row(step, 2, np.nan),
    lambda step: [*step[:5], np.zeros(NUM_ENVS)],
    lambda step: [*step, [{"cost": 1}, {}, {"cost": 1}]],
    lambda step: [*step, {"cost": np.full(NUM_ENVS, None)}],
]


@pytest.mark.parametrize("wrong", WRONG_ROWS)
def test_after_wrong_rows_all_episodes_continue(wrong):
    buffer = counting_buffer(info_keys=["cost"])
    for t, step in enumerate(counting_rows()):
        infos, given = {"cost": np.full(NUM_ENVS, t)}, wrong(step)
        with pytest.raises((TypeError, ValueError), match=r".{20}"):
            buffer.add(*given, *[infos] * (len(given) == 6))
        buffer.add(*step, infos)
    expected = [counting_episode(number, 4, infos={"cost": np.arange(4)}) for number in range(NUM_ENVS)]
    assert_same_episodes(buffer.episodes(), expected)


def test_an_observation_that_does_not_continue_names_its_environment():
    buffer, (first, second, *_) = counting_buffer(), counting_rows()
    buffer.add(*first)
    wrong = [
        (with_wrong_row(second, 0, [1.0, 9.0]), {}, "environment 1 .* observation/achieved_goal"),
        (second, {"skip": np.array([False, False, True])}, "skip must be False for environment 2"),
        (second, {"skip": [True]}, "skip"),
        (next(transitions(counting_episode(9, 4))), {}, "truncate_open_episode"),
        (next(rows(counting_episode(7, 4), counting_episode(8, 4))), {}, "truncate_open_episode"),
    ]
    for step, options, words in wrong:
        with pytest.raises((TypeError, ValueError), match=words):
            buffer.add(*step, **options)
    buffer.add(*second)
    buffer.truncate_open_episode()
    assert [len(episode) for episode in buffer.episodes()] == [2] * NUM_ENVS
    buffer.add(*next(rows(counting_episode(7, 1), counting_episode(8, 1))))
    buffer.add(*next(transitions(counting_episode(9, 4))))
    with pytest.raises(ValueError, match="truncate_open_episode"):
        buffer.add(*first)
    assert buffer.num_episodes == NUM_ENVS + 2


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
    assert warning.filename == __file__


def test_episodes_that_the_buffer_rejects_are_dropped_and_adding_continues():
    is_broken = False

    def reward(achieved, desired, info):
        if is_broken:
            raise ZeroDivisionError
        return np.full(len(achieved), -1.0)

    buffer, (*steps, last) = counting_buffer(compute_reward=reward), counting_rows()
    for step in steps:
        buffer.add(*step)
    is_broken = True
    with pytest.raises(ZeroDivisionError):
        buffer.add(*last)
    is_broken = False
    for step in counting_rows(5):
        buffer.add(*step)
    assert [episode.actions[0, 0] for episode in buffer.episodes()] == [5, 6, 7]


# --- episodes -------------------------------------------------------------------------------------


def test_the_episodes_of_an_archive_and_of_columns_are_added(tmp_path):
    episodes = [counting_episode(number, length) for number, length in enumerate((4, 1, 7, 3))]
    with EpisodeArchive(tmp_path, shard_steps=5) as archive:
        archive.add_episodes(Episodes.of(episodes))
    for method in ("add_episodes", "extend"):
        for source in (EpisodeArchive(tmp_path), Episodes.of(episodes)):
            buffer = counting_buffer(buffer_size=12)
            getattr(buffer, method)(source)
            assert_same_episodes(buffer.episodes(), episodes[1:])


def test_extend_keeps_the_episodes_before_a_bad_one():
    buffer = filled()
    with pytest.raises(ValueError, match=r"episode 1: .*nan at step 0"):
        buffer.extend([counting_episode(7, 2), counting_episode(8, 1, rewards=np.array([np.nan]))])
    assert (len(buffer), buffer.num_episodes) == (14, 4)
    buffer.add_episodes([])
    assert len(buffer) == 14


@pytest.mark.parametrize(
    "rewards",
    [
        np.array([np.nextafter(2.0**128 - 2.0**103, 0), -0.0, 1e-300]),  # rounds to the largest float32
        np.array([3, 2**64 - 1, 0], np.uint64),
    ],
)
def test_rewards_are_rounded_to_float32(rewards):
    buffer = plain_buffer(6)
    buffer.add_episode(counting_episode(0, 3, rewards=rewards))
    for t, transition in enumerate(transitions(counting_episode(0, 3))):
        buffer.add(*transition[:2], rewards[t], *transition[3:])
    for episode in buffer.episodes():
        assert episode.rewards.astype(np.float32).tobytes() == rewards.astype(np.float32).tobytes()


def test_episodes_of_different_dtypes_or_with_more_keys_are_converted_exactly():
    """float64 rounds the integer 2^53 + 1, so integers must not pass through it."""
    exact = 2**53 + 1
    space = spaces.Dict({key: spaces.Box(-(2**62), 2**62, (1,), np.int64) for key in SPACE})
    buffer = HindsightReplayBuffer(space, ACTIONS, buffer_size=20, n_sampled_goal=0)
    episodes = []
    for dtype, extra in ((np.int64, {}), (np.float64, {"camera": np.zeros((3, 9))}), (np.int64, {})):
        seen = dict.fromkeys(SPACE, np.full((3, 1), exact - (dtype is np.float64), dtype)) | extra
        episodes.append(Episode(seen, np.zeros((2, 1)), np.zeros(2), terminated=False, truncated=True))
    buffer.add_episodes(episodes)
    found = [int(episode.observations["achieved_goal"][0, 0]) for episode in buffer.episodes()]
    assert found == [exact, exact - 1, exact]
