"""Minari: episodes come back exactly, or writing raises one clear error."""

import re
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from her_envs.registration import ENTRY_POINTS
from her_wrappers import EpisodeArchive, EpisodeRecorder, HindsightReplayBuffer
from her_wrappers.integrations.minari import from_minari, to_minari
from tests.support import archived_episodes
from tests.support.archived_episodes import assert_same_episodes

minari = pytest.importorskip("minari")

METADATA = {
    "author": "a", "author_email": "a@b.c", "code_permalink": "https://a.b", "algorithm_name": "random",
    "description": "none", "eval_env": "CartPole-v1",
}  # fmt: skip


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    """Make Minari store datasets in a temporary folder."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def random_episode(length, env, **changes):
    """Return a random episode without reset infos, since Minari stores no infos of resets only."""
    return archived_episodes.random_episode(length, env=env, **{"reset_info": {}} | changes)


def through_minari(episodes, env):
    """Write episodes and read them again."""
    to_minari(episodes, "some/thing-v0", env, **METADATA)
    return list(from_minari("some/thing-v0"))


class Registered(gym.Env):
    """An environment with a spec, so that Minari does not warn."""

    spec = gym.spec("CartPole-v1")

    def __init__(self, observation_space, action_space=spaces.Discrete(2)):  # noqa: B008 - never changed
        self.observation_space, self.action_space = observation_space, action_space


@pytest.mark.parametrize("env_id", ENTRY_POINTS)
def test_episodes_of_every_bundled_environment_come_back(env_id):
    env = gym.make(env_id)
    episodes = recorded(env, 2)
    assert_same_episodes(through_minari(episodes, env), episodes)


NESTED = spaces.Dict({
    "pictures": spaces.Tuple([spaces.Box(0, 255, (40, 40, 3), np.uint8), spaces.Box(0, 1, (2, 2), bool)]),
    "joints": spaces.Dict({"a": spaces.MultiDiscrete([3, 4]), "b": spaces.Box(-1, 1, (), np.float64)}),
    "count": spaces.Discrete(5, start=-2),
})


def test_nested_spaces_and_images_come_back_exactly():
    """By default Minari stores images as JPEG, which changes them."""
    env = Registered(NESTED, spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.MultiBinary(3)]))
    episodes = [random_episode(length, env=env) for length in (1, 4, 2)]
    noise = np.random.default_rng(0).integers(0, 256, (3, 40, 40, 3), np.uint8)
    episodes[2].observations["pictures"][0][:] = noise
    assert_same_episodes(through_minari(episodes, env), episodes)


INFOS = {
    "with and without reset": ({"a": np.arange(3), "b": np.arange(3.0)}, {"b": np.array(7.0)}),
    "strings": ({"word": np.array(["a", "bcd", "zwölf"])}, {"word": np.array("start")}),
    "bytes": ({"word": np.array([b"a", b"bcd", b"e"])}, {}),
    "flags": ({"ok": np.array([True, False, True])}, {"ok": np.array(False)}),
    "shapes": ({"pose": np.ones((3, 2, 2), np.float32)}, {"pose": np.zeros((2, 2), np.float32)}),
    "slashes": ({"place/x": np.arange(3), "place/y/z": np.arange(3)}, {"place/x": np.array(-1)}),
    "none": ({}, {}),
}


@pytest.mark.parametrize("name", INFOS)
def test_infos_come_back(name):
    infos, reset_info = INFOS[name]
    env = Registered(spaces.Box(-1, 1, (4,)))
    episode = random_episode(3, env=env, infos=infos, reset_info=reset_info)
    assert_same_episodes(through_minari([episode], env), [episode])


def test_datasets_of_minaris_collector_are_read(tmp_path):
    """Minari writes the dataset: nested infos of all states, and a seed."""
    env = gym.make("her_envs/PointReach-v0", max_steps=3)
    buffer = minari.data_collector.EpisodeBuffer(
        id=0,
        seed=5,
        options={"a": 1},
        observations={
            key: [env.observation_space.sample()[key] for _ in range(3)] for key in env.observation_space
        },
        actions=[env.action_space.sample() for _ in range(2)],
        rewards=[-1, 0.0],
        terminations=[False, True],
        truncations=[False, False],
        infos={"is_success": [False, False, True], "where": {"x": [1.0, 2.0, 3.0]}},
    )
    dataset = minari.create_dataset_from_buffers("some/other-v0", [buffer], env, **METADATA)
    (episode,) = from_minari(dataset)
    assert (len(episode), episode.terminated, episode.truncated) == (2, True, False)
    assert episode.infos["where/x"].tolist() == [2, 3]
    assert episode.reset_info == {"is_success": False, "where/x": 1}
    with EpisodeArchive(tmp_path / "archive", env=env) as archive:
        archive.add_episodes(from_minari(dataset))
    assert_same_episodes(archive, [episode])


def test_an_archive_is_written_episode_by_episode(tmp_path):
    env = gym.make("her_envs/PointReach-v0")
    episodes = [random_episode(length, env=env) for length in (3, 5, 2)]
    with EpisodeArchive(tmp_path / "archive", env=env, shard_steps=4) as archive:
        archive.add_episodes(episodes)
    dataset = to_minari(archive, "some/thing-v0", "her_envs/PointReach-v0", **METADATA)
    assert (dataset.total_episodes, dataset.total_steps) == (3, 10)
    assert dataset.recover_environment().spec.id == "her_envs/PointReach-v0"
    assert_same_episodes(from_minari(dataset), episodes)


BOX = Registered(spaces.Box(-1, 1, (4,)))
REFUSED = {
    "episode 1 has the key 'map' in reset_info but not": {"reset_info": {"map": np.zeros(2)}, "infos": {}},
    "reset_info/a of episode 1 must have shape (), got (2,)": {
        "reset_info": {"a": np.zeros(2)},
        "infos": {"a": np.zeros(3)},
    },
    "reset_info/a of episode 1 must have dtype int64, got float64": {
        "reset_info": {"a": np.array(0.5)},
        "infos": {"a": np.zeros(3, int)},
    },
}


@pytest.mark.parametrize("message", REFUSED)
def test_values_that_minari_cannot_store_are_errors_and_leave_no_dataset(message):
    good = random_episode(3, env=BOX)
    with pytest.raises(ValueError, match=re.escape(message)):
        to_minari([good, random_episode(3, env=BOX, **REFUSED[message])], "some/thing-v0", BOX, **METADATA)
    assert minari.list_local_datasets() == {}
    assert_same_episodes(through_minari([good], BOX), [good])


@pytest.mark.parametrize("dataset_id", ["reach", "../../x-v0", None])
def test_a_malformed_id_is_an_error_before_anything_is_written(tmp_path, dataset_id):
    with pytest.raises(ValueError, match=f"dataset_id must have the form .*, got {dataset_id!r}"):
        to_minari([random_episode(3, env=BOX)], dataset_id, BOX, **METADATA)
    assert not list(tmp_path.iterdir())


def test_a_dataset_that_exists_is_not_replaced():
    episode = random_episode(3, env=BOX)
    to_minari([episode], "some/thing-v0", BOX, **METADATA)
    with pytest.raises(ValueError, match="already exists"):
        to_minari([random_episode(2, env=BOX)], "some/thing-v0", BOX, **METADATA)
    assert_same_episodes(from_minari("some/thing-v0"), [episode])


def test_keys_with_slashes_are_errors():
    env = Registered(spaces.Dict({"a/b": spaces.Discrete(2)}))
    with pytest.raises(ValueError, match=r"keys in the observation_space .* got the key 'a/b'"):
        to_minari([], "some/thing-v0", env, **METADATA)


def test_a_buffer_takes_a_dataset_as_it_is():
    env = gym.make("her_envs/PointReach-v0")
    episodes = recorded(env, 3)
    dataset = to_minari(episodes, "some/thing-v0", env, **METADATA)
    buffer = HindsightReplayBuffer.for_env(env, seed=0)
    buffer.extend(dataset)
    assert (len(buffer), buffer.num_episodes) == (3 * 50, 3)
    buffer.extend(dataset.filter_episodes(lambda episode: episode.id == 1))
    assert buffer.num_episodes == 4


def recorded(env, count):
    """Return ``count`` recorded episodes of random actions."""
    episodes = []
    recorder = EpisodeRecorder(env, episodes.append, info_keys=["is_success"])
    env.action_space.seed(0)
    for number in range(count):
        recorder.reset(seed=number)
        while not any(recorder.step(env.action_space.sample())[2:4]):
            pass
    return episodes


def test_without_minari_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=re.escape('run: pip install "her-toolkit[minari]"')):
        to_minari([], "some/thing-v0", BOX)
