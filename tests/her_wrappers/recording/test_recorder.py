"""EpisodeRecorder: no transition lost or invented, and the environment as it was."""

from __future__ import annotations

import pickle
import re

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from hypothesis import given
from hypothesis import strategies as st

from her_envs import Counting, PointReach, TaskEnv
from her_wrappers import Episode, EpisodeRecorder, SinkError
from tests.support.bundled import VARIANTS, ids, make


class Numbered(gym.Env):
    """Every state names its episode and its step; arrays and dicts are reused, actions are destroyed."""

    observation_space = spaces.Dict(count=spaces.Box(0, np.inf, (2,), np.float64), flag=spaces.Discrete(2))
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, lengths=(3, 1, 5), *, terminates=True):
        self.lengths, self.terminates = lengths, terminates
        self.count, self.info, self.episode = np.zeros(2), {}, -1

    def _observe(self):
        self.info["twice"] = 2 * self.count
        return {"count": self.count, "flag": int(self.count[1]) % 2}

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        self.count[:] = self.episode, 0
        return self._observe(), self.info

    def step(self, action):
        reward = float(action[0])
        action[...] = np.nan
        self.count[1] += 1
        end = self.count[1] == self.lengths[self.episode % len(self.lengths)]
        return self._observe(), reward, end and self.terminates, end and not self.terminates, self.info


def play(env, steps):
    """Step with actions that count the steps; reset when an episode ends."""
    env.reset()
    for i in range(steps):
        _, _, terminated, truncated, _ = env.step(np.float32([i, -i]))
        if terminated or truncated:
            env.reset()


@given(
    lengths=st.lists(st.integers(1, 150), min_size=1, max_size=5),
    terminates=st.booleans(),
    steps=st.integers(0, 400),
)
def test_episodes_are_what_really_happened(lengths, terminates, steps):
    episodes = []
    env = EpisodeRecorder(Numbered(lengths, terminates=terminates), episodes.append, info_keys=["twice"])
    play(env, steps)
    env.close()

    assert sum(map(len, episodes)) == steps
    taken = 0
    for number, episode in enumerate(episodes):
        length = len(episode)
        complete = length == lengths[number % len(lengths)]
        assert complete or episode is episodes[-1]
        counts = [[number, t] for t in range(length + 1)]
        assert episode.observations["count"].tolist() == counts
        assert episode.observations["flag"].tolist() == [t % 2 for t in range(length + 1)]
        assert episode.rewards.tolist() == list(range(taken, taken + length))
        assert episode.actions[:, 1].tolist() == [-x for x in range(taken, taken + length)]
        assert (episode.infos["twice"] == 2 * np.array(counts[1:])).all()
        assert episode.reset_info["twice"].tolist() == [2 * number, 0]
        assert episode.terminated == (complete and terminates)
        assert episode.truncated == (not complete or not terminates)
        taken += length


@pytest.mark.parametrize(("env_id", "options"), VARIANTS, ids=ids)
def test_what_the_environment_returns_passes_through_unchanged(env_id, options):
    plain, recorded = make(env_id, **options), EpisodeRecorder(make(env_id, **options))
    plain.action_space.seed(0)
    first, second = plain.reset(seed=3), recorded.reset(seed=3)
    for _ in range(100):
        np.testing.assert_equal(second, first)
        action = plain.action_space.sample()
        first, second = plain.step(action), recorded.step(action)
        if first[2] or first[3]:
            np.testing.assert_equal(second, first)
            first, second = plain.reset(), recorded.reset()


def test_the_very_objects_pass_through():
    env = Numbered()
    recorder = EpisodeRecorder(env)
    observation, info = recorder.reset()
    assert observation["count"] is env.count
    assert info is env.info
    assert recorder.step(np.zeros(2, np.float32))[4] is env.info


def test_the_recorder_is_no_part_of_the_spec():
    env = gym.make("her_envs/Counting-v0")
    recorder = EpisodeRecorder(env, [].append)
    assert recorder.spec == env.spec
    again = gym.make(recorder.spec)
    assert "EpisodeRecorder" not in str(again)


@pytest.mark.parametrize("above", [True, False])
def test_it_stands_above_and_below_other_wrappers(above):
    episodes = []
    env = TaskEnv(PointReach(), max_steps=100)
    env = EpisodeRecorder(env, episodes.append) if not above else env
    env = gym.wrappers.RecordEpisodeStatistics(gym.wrappers.TimeLimit(env, 7))
    env = EpisodeRecorder(env, episodes.append, info_keys=["is_success"]) if above else env
    env.reset(seed=0)
    for i in range(20):
        *_, truncated, _ = env.step([0, 0])
        assert truncated == (i % 7 == 6)
        if truncated:
            env.reset()
    env.close()
    assert [len(episode) for episode in episodes] == [7, 7, 6]
    assert all(episode.truncated and not episode.terminated for episode in episodes)


def test_flat_observations_are_recorded_as_they_are():
    episodes = []
    env = EpisodeRecorder(gym.wrappers.FlattenObservation(TaskEnv(PointReach())), episodes.append)
    play(env, 50)
    assert episodes[0].observations.shape == (51, 6)


def test_an_interrupted_episode_is_handed_over_as_truncated():
    episodes = []
    env = EpisodeRecorder(Numbered([9]), episodes.append)
    env.reset()
    env.reset()
    assert episodes == [], "an episode without a step is none"
    env.step(np.zeros(2, np.float32))
    env.reset()
    env.step(np.zeros(2, np.float32))
    env.step(np.zeros(2, np.float32))
    env.close()
    env.close()
    assert [(len(e), e.terminated, e.truncated) for e in episodes] == [(1, False, True), (2, False, True)]


def test_endless_tasks_are_cut_into_episodes_that_follow_on_each_other():
    episodes = []
    env = EpisodeRecorder(Numbered([10]), episodes.append, max_episode_steps=4, info_keys=["twice"])
    play(env, 20)
    assert [len(episode) for episode in episodes] == [4, 4, 2] * 2
    assert [episode.truncated for episode in episodes] == [True, True, False] * 2
    assert [episode.observations["count"][0, 1] for episode in episodes] == [0, 4, 8] * 2
    np.testing.assert_array_equal(episodes[0].observations["count"][-1], episodes[1].observations["count"][0])


def test_an_episode_has_memory_of_its_own_and_can_be_pickled():
    episodes = []
    env = EpisodeRecorder(Numbered([3]), episodes.append, episodes.append)
    play(env, 6)
    kept = episodes[0].observations["count"].copy()
    assert episodes[0] is episodes[1]
    play(env, 3)
    np.testing.assert_array_equal(episodes[0].observations["count"], kept)
    assert not np.shares_memory(episodes[0].rewards, episodes[2].rewards)
    copied = pickle.loads(pickle.dumps(episodes[0]))
    np.testing.assert_array_equal(copied.observations["count"], kept)


def test_a_sink_that_raises_keeps_nobody_from_anything():
    served = []

    def broken(episode):
        raise OSError("disk full")

    env = EpisodeRecorder(Numbered([2]), broken, served.append)
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(
        SinkError, match=r"on an episode of 2 steps .*broken raised OSError: disk full"
    ) as caught:
        env.step(np.zeros(2, np.float32))
    assert caught.value.episode is served[0]
    observation, _, terminated, _, _ = caught.value.result
    assert terminated
    assert observation["count"] is env.unwrapped.count
    assert isinstance(caught.value.__cause__, OSError)
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(SinkError):
        env.close()
    assert [len(episode) for episode in served] == [2, 1]


def test_step_needs_a_reset_before_the_first_and_after_the_last():
    env = EpisodeRecorder(Numbered([1]))
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(np.zeros(2, np.float32))
    play(env, 1)
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(np.zeros(2, np.float32))


class Faulty(Numbered):
    """Does something wrong at step 2."""

    def __init__(self, change):
        super().__init__([9])
        self.change = change

    def step(self, action):
        result = list(super().step(action))
        if self.count[1] == 2:
            self.change(result)
        return tuple(result)


def change(position, value):
    def apply(result):
        result[position] = value

    return apply


BAD_STEPS = [
    (
        change(0, {"count": np.zeros(3), "flag": 0}),
        "observation/count at step 2 must have shape (2,), got (3,)",
    ),
    (change(0, {"count": np.zeros(2)}), "observation/flag is missing at step 2"),
    (
        change(0, {"count": np.zeros(2), "flag": 0.5}),
        "observation/flag at step 2 must have dtype int64, got float64 with values that it cannot hold; "
        "return int64 or declare float64 in the space",
    ),
    (change(1, np.zeros(1)), "reward must be one number, got array([0.]) at step 1"),
    (change(4, {"thrice": 1}), "info has no 'twice' at step 1; it has ['thrice']"),
]


@pytest.mark.parametrize(("fault", "message"), BAD_STEPS)
def test_what_cannot_be_recorded_is_named_and_what_came_before_is_kept(fault, message):
    episodes = []
    env = EpisodeRecorder(Faulty(fault), episodes.append, info_keys=["twice"])
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        env.step(np.zeros(2, np.float32))
    assert [(len(episode), episode.truncated) for episode in episodes] == [(1, True)]
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(2, np.float32))
    env.reset()
    env.step(np.zeros(2, np.float32))


def test_a_bad_action_never_reaches_the_environment():
    env = EpisodeRecorder(Numbered([9]))
    env.reset()
    with pytest.raises(ValueError, match=re.escape("action at step 0 must have shape (2,), got (3,)")):
        env.step(np.zeros(3))
    assert env.unwrapped.count[1] == 0
    env.step(np.zeros(2))


def test_infos_of_changing_shape_are_refused():
    env = Numbered([2])
    recorder = EpisodeRecorder(env, info_keys=["size"])
    env.info["size"] = np.zeros(1)
    recorder.reset()
    recorder.step(np.zeros(2, np.float32))
    env.info["size"] = np.zeros(2)
    message = "info 'size' must keep its shape and kind within an episode, got numbers of shape (1,) and then"
    with pytest.raises(ValueError, match=re.escape(message)):
        recorder.step(np.zeros(2, np.float32))


class Rearranged(Numbered):
    """Returns its arrays as views that are not contiguous."""

    def _observe(self):
        observation = super()._observe()
        return observation | {"count": np.repeat(self.count, 2)[::2]}


def test_views_are_recorded_like_arrays():
    episodes = []
    play(EpisodeRecorder(Rearranged([3]), episodes.append), 3)
    assert episodes[0].observations["count"].tolist() == [[0, t] for t in range(4)]


class Growing(Numbered):
    """Its observations have another shape from its second episode on."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset()
        if self.episode == 1:
            self.observation_space = spaces.Dict(count=spaces.Box(0, np.inf, (3,)), flag=spaces.Discrete(2))
        return observation, info


def test_a_space_that_changes_at_reset_is_refused():
    episodes = []
    env = EpisodeRecorder(Growing([9]), episodes.append)
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(ValueError, match=r"the observation space changed from Dict.* to Dict.*new one for"):
        env.reset()
    assert [len(episode) for episode in episodes] == [1]
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(2, np.float32))


class LeavingError(Exception):
    """Some error of an environment."""


def leave(result):
    raise LeavingError


def old_api(result):
    result.pop()


FAULTS_OF_ANY_KIND = [
    (leave, LeavingError),
    (old_api, ValueError),
    (change(1, 1j), ValueError),
    (change(1, "1.5"), ValueError),
    (change(1, None), ValueError),
    (change(1, torch.ones(1, requires_grad=True)), ValueError),
    (change(0, {"count": [[0.0], [1.0, 2.0]], "flag": 0}), ValueError),
    (change(4, None), ValueError),
    (change(4, {"twice": None}), ValueError),
    (change(4, {"twice": {"a": 1}}), ValueError),
    (change(4, {"twice": [[1], [1, 2]]}), ValueError),
]


@pytest.mark.parametrize(("fault", "error"), FAULTS_OF_ANY_KIND)
def test_no_error_leaves_a_hole_in_an_episode(fault, error):
    """Once the environment has moved unseen, the next observation belongs to no recorded action."""
    episodes = []
    env = EpisodeRecorder(Faulty(fault), episodes.append, info_keys=["twice"])
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(error):
        env.step(np.zeros(2, np.float32))
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(2, np.float32))
    env.reset()
    env.step(np.zeros(2, np.float32))
    env.close()
    assert [episode.observations["count"][:, 1].tolist() for episode in episodes] == [[0, 1], [0, 1]]


def test_one_bad_info_leaves_the_others_in_step():
    episodes = []
    env = EpisodeRecorder(
        Faulty(change(4, {"twice": 1, "thrice": 2})), episodes.append, info_keys=["thrice", "twice"]
    )
    env.unwrapped.info["thrice"] = 3
    env.reset()
    env.step(np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="info 'twice' must keep its shape"):
        env.step(np.zeros(2, np.float32))
    assert {key: len(column) for key, column in episodes[0].infos.items()} == {"thrice": 1, "twice": 1}


def test_sink_errors_name_all_sinks_and_cross_processes():
    def broken(episode):
        raise OSError("disk full")

    def also_broken(episode):
        raise KeyError("gone")

    env = EpisodeRecorder(Numbered([1]), broken, also_broken)
    env.reset()
    with pytest.raises(
        SinkError, match=r"broken raised OSError: disk full; .*also_broken raised KeyError"
    ) as caught:
        env.step(np.zeros(2, np.float32))
    copied = pickle.loads(pickle.dumps(caught.value))
    assert str(copied) == str(caught.value)
    assert len(copied.episode) == 1


@pytest.mark.parametrize(
    ("make_it", "error", "message"),
    [
        (
            lambda: EpisodeRecorder(gym.make_vec("CartPole-v1", num_envs=2)),
            TypeError,
            "EpisodeRecorder records a single gymnasium Env, got CartPoleVectorEnv; "
            "use VectorEpisodeRecorder",
        ),
        (
            lambda: EpisodeRecorder(Numbered(), max_episode_steps=2.5),
            ValueError,
            "max_episode_steps must be a whole number >= 1, got 2.5",
        ),
        (
            lambda: EpisodeRecorder(Numbered(), info_keys="is_success"),
            TypeError,
            "info_keys must be a list of strings, got the string 'is_success'; write ['is_success']",
        ),
        (
            lambda: EpisodeRecorder(Numbered(), info_keys=[1]),
            TypeError,
            "info_keys must be a list of strings, got [1]",
        ),
        (
            lambda: EpisodeRecorder(Numbered(), 5),
            TypeError,
            "a sink must be callable with an Episode or have add_episodes, got 5",
        ),
        (
            lambda: EpisodeRecorder(Numbered(), max_episode_steps=0),
            ValueError,
            "max_episode_steps must be a whole number >= 1, got 0",
        ),
    ],
)
def test_bad_arguments_are_refused_at_once(make_it, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        make_it()


BAD_EPISODES = [
    ({"rewards": np.zeros(0)}, "rewards must have shape (T,) with T >= 1, got (0,)"),
    ({"rewards": np.zeros((2, 1))}, "rewards must have shape (T,) with T >= 1, got (2, 1)"),
    ({"actions": np.zeros(3)}, "actions must have 2 rows to go with the rewards, got shape (3,)"),
    (
        {"observations": {"a": np.zeros(2)}},
        "observations/a must have 3 rows to go with the rewards, got shape (2,)",
    ),
    ({"rewards": np.array(["1", "2"])}, "rewards must hold numbers, got dtype <U1"),
    ({"infos": {"a": np.zeros(())}}, "infos/a must have 2 rows to go with the rewards, got shape ()"),
]


@pytest.mark.parametrize(("change", "message"), BAD_EPISODES)
def test_an_episode_that_does_not_add_up_cannot_be_made(change, message):
    parts = {"observations": np.zeros((3, 1)), "actions": np.zeros(2), "rewards": np.zeros(2)}
    Episode(**parts, terminated=True, truncated=False)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Episode(**parts | change, terminated=True, truncated=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": [0.0, 0.0]}, "rewards must be a NumPy array, got list; use np.asarray"),
        ({"rewards": None}, "rewards must be a NumPy array, got NoneType; use np.asarray"),
        ({"actions": [0, 0]}, "actions must be a NumPy array, got list; use np.asarray"),
        ({"observations": {"a": ([0, 0, 0],)}}, "observations/a/0 must be a NumPy array, got list"),
        ({"infos": {"a": [1, 2]}}, "infos/a must be a NumPy array, got list; use np.asarray"),
        ({"infos": {"a": {"b": np.zeros(2)}}}, "infos/a must be a NumPy array, got dict"),
        ({"infos": {3: np.zeros(2)}}, "infos must have keys that are strings, got 3"),
        ({"infos": None}, "infos must be a dict of arrays, got NoneType"),
        ({"reset_info": {"a": None}}, "reset_info/a must be a NumPy array, got NoneType"),
        ({"reset_info": {"a": {"b": np.zeros(2)}}}, "reset_info/a must be a NumPy array, got dict"),
        ({"reset_info": {3: np.zeros(2)}}, "reset_info must have keys that are strings, got 3"),
        ({"reset_info": [1]}, "reset_info must be a dict of arrays, got list"),
    ],
)
def test_an_episode_is_made_of_arrays(change, message):
    parts = {"observations": np.zeros((3, 1)), "actions": np.zeros(2), "rewards": np.zeros(2)}
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        Episode(**parts | change, terminated=True, truncated=False)


@pytest.mark.parametrize("flag", ["no", 1, np.array([True, False]), None])
def test_the_flags_of_an_episode_are_bools(flag):
    with pytest.raises(TypeError, match="truncated must be one bool, of the last step, got"):
        Episode(np.zeros((3, 1)), np.zeros(2), np.zeros(2), terminated=False, truncated=flag)


def test_counting_episodes_count():
    episodes = []
    env = EpisodeRecorder(TaskEnv(Counting(length=5)), episodes.append, info_keys=["is_success"])
    env.reset(seed=0)
    for _ in range(40):
        if env.step(0)[2]:
            env.reset()
    for episode in episodes:
        np.testing.assert_array_equal(episode.observations["achieved_goal"][:, 1], range(len(episode) + 1))
        assert episode.infos["is_success"].tolist() == [False] * (len(episode) - 1) + [True]
        assert episode.reset_info["is_success"] == False  # noqa: E712 - a NumPy bool
