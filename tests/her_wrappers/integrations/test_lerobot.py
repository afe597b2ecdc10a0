"""LeRobot: episodes come back exactly, images up to the codec of videos; other data lose their last step."""

import json
import re
import shutil

import gymnasium as gym
import numpy as np
import pytest

from her_envs.registration import ENTRY_POINTS
from her_wrappers import CorruptFileError, Episode, EpisodeArchive, EpisodeRecorder, HindsightReplayBuffer
from her_wrappers.integrations.recordings import open_episodes
from tests.support import archived_episodes
from tests.support.archived_episodes import assert_same_episodes
from tests.support.damage import damaged

pytest.importorskip("pyarrow")
av = pytest.importorskip("av")
lerobot = pytest.importorskip("her_wrappers.integrations.lerobot")

from her_wrappers.integrations.lerobot import from_lerobot, to_lerobot  # noqa: E402 - needs pyarrow


def random_episode(length, seed=0, **changes):
    """Return an episode of nested spaces, with a 2 x 2 image; all have the same reset infos."""
    return archived_episodes.random_episode(length, seed, **{"reset_info": {"start": np.ones(2)}} | changes)


def camera_episode(length, seed=0, shape=(32, 48, 3)):
    """Return an episode whose image is a smooth picture that moves."""
    rng = np.random.default_rng((length, seed))
    down, right = (50 + 50 * np.sin(2 * np.pi * np.arange(size) / size) for size in shape[:2])
    picture = np.add.outer(down, right) / 2
    pictures = np.stack([np.roll(picture, 2 * t + 7 * seed, axis=1) for t in range(length + 1)])
    goals = rng.random((length + 1, 2, 3))
    observations = {
        "observation": rng.random((length + 1, 5)),
        "achieved_goal": goals[:, 0],
        "desired_goal": goals[:, 1],
        "camera": np.stack([pictures, 2 * pictures, 255 - pictures], axis=3).astype(np.uint8),
    }
    infos = {"is_success": rng.random(length) < 0.5, "word": np.array(["zwölf", "a"] * length)[:length]}
    return Episode(observations, rng.random((length, 2)), rng.random(length), True, False, infos)


@pytest.mark.parametrize("env_id", ENTRY_POINTS)
def test_episodes_of_every_bundled_environment_come_back(env_id, tmp_path):
    episodes = []
    env = EpisodeRecorder(gym.make(env_id), episodes.append, info_keys=["is_success"])
    env.action_space.seed(0)
    for seed in range(2):
        env.reset(seed=seed)
        while not any(env.step(env.action_space.sample())[2:4]):
            pass
    to_lerobot(episodes, tmp_path / "data", use_videos=False)
    assert_same_episodes(from_lerobot(tmp_path / "data"), episodes)


def test_nested_observations_infos_flags_and_reset_infos_come_back(tmp_path):
    flags = [(True, True), (True, False), (False, True), (False, False)]
    episodes = [
        random_episode(length, terminated=terminated, truncated=truncated)
        for length, (terminated, truncated) in zip((3, 1, 5, 2), flags, strict=True)
    ]
    episodes[2].reset_info.clear()
    episodes[3].reset_info["other"] = np.array("text")
    to_lerobot(episodes, tmp_path, use_videos=False)
    assert_same_episodes(from_lerobot(tmp_path), episodes)


def test_images_in_videos_come_back_up_to_the_codec(tmp_path):
    episodes = [camera_episode(length, seed) for seed, length in enumerate((5, 1, 7))]
    to_lerobot(episodes, tmp_path, fps=25)
    assert list(tmp_path.glob("videos/observation.images.camera/chunk-000/file-000.mp4"))
    for found, episode in zip(from_lerobot(tmp_path), episodes, strict=True):
        pictures, expected = found.observations.pop("camera"), episode.observations.pop("camera")
        assert np.abs(pictures.astype(int) - expected).max() < 25
        assert np.abs(pictures.astype(int) - expected).mean() < 3
        np.testing.assert_array_equal(pictures[-1], expected[-1], "the last state is stored exactly")
        assert_same_episodes([found], [episode])


def test_images_of_odd_size_are_stored_exactly(tmp_path):
    episodes = [camera_episode(4, shape=(21, 30, 3))]
    to_lerobot(episodes, tmp_path)
    assert_same_episodes(from_lerobot(tmp_path), episodes)


def test_datasets_of_many_episodes_have_several_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(lerobot, "CHUNK_FILES", 2)
    episodes = [camera_episode(3, seed) for seed in range(3)]
    to_lerobot(episodes, tmp_path)
    for pattern in ("data/chunk-00*/*.parquet", "videos/*/chunk-00*/*.mp4"):
        names = [str(path.relative_to(path.parents[1])) for path in sorted(tmp_path.glob(pattern))]
        assert [name.partition(".")[0] for name in names] == [
            "chunk-000/file-000", "chunk-000/file-001", "chunk-001/file-000"
        ]  # fmt: skip
    found = list(from_lerobot(tmp_path))
    np.testing.assert_array_equal(found[2].rewards, episodes[2].rewards)
    expected = episodes[2].observations["camera"].astype(int)
    assert np.abs(found[2].observations["camera"] - expected).max() < 25


def test_a_frame_has_goals_reward_done_and_success(tmp_path):
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

    episode = camera_episode(3)
    to_lerobot([episode, camera_episode(2)], tmp_path, task="Push the cube", fps=5)
    frames = pq.read_table(tmp_path / "data").to_pylist()
    assert [frame["next.done"] for frame in frames] == [False, False, True, False, True]
    assert [frame["next.success"] for frame in frames[:3]] == episode.infos["is_success"].tolist()
    assert [frame["next.reward"] for frame in frames[:3]] == episode.rewards.tolist()
    assert frames[1]["observation.desired_goal"] == episode.observations["desired_goal"][1].tolist()
    assert (frames[4]["timestamp"], frames[4]["index"]) == (pytest.approx(0.2), 4)
    statistics = json.loads((tmp_path / "meta/stats.json").read_text())
    actions = np.concatenate([episode.actions, camera_episode(2).actions])
    expected = {"mean": actions.mean(0), "std": actions.std(0), "max": actions.max(0)}
    expected |= {f"q{percent:02d}": np.quantile(actions, percent / 100, axis=0) for percent in (1, 50, 99)}
    for name, values in expected.items():
        np.testing.assert_allclose(statistics["action"][name], values, rtol=1e-9)
    picture = statistics["observation.images.camera"]
    pixels = np.concatenate([
        episode.observations["camera"][:-1],
        camera_episode(2).observations["camera"][:-1],
    ])
    np.testing.assert_allclose(np.ravel(picture["mean"]), pixels.mean((0, 1, 2)) / 255, atol=0.02)


def as_other_dataset(folder, length=4, **changes):
    """Write a dataset as another program does: without our file."""
    to_lerobot([camera_episode(length), camera_episode(length, 1)], folder, use_videos=False)
    shutil.rmtree(folder / "meta/her_toolkit")


def test_other_datasets_lose_the_last_action_and_say_so(tmp_path):
    as_other_dataset(tmp_path)
    with pytest.warns(UserWarning, match="its action and reward are left out, and all episodes"):
        found, _ = from_lerobot(tmp_path)
    episode = camera_episode(4)
    assert (len(found), found.terminated, found.truncated) == (3, False, True)
    for key, rows in episode.observations.items():
        key = "images.camera" if key == "camera" else key  # noqa: PLW2901 - the name of the feature
        np.testing.assert_array_equal(found.observations[key], rows[:4])
    np.testing.assert_array_equal(found.actions, episode.actions[:3])
    np.testing.assert_array_equal(found.infos["is_success"], episode.infos["is_success"][:3])


@pytest.mark.filterwarnings("ignore:.*has no states after the last actions")
def test_goals_and_rewards_of_other_datasets_can_be_computed(tmp_path):
    as_other_dataset(tmp_path)

    def compute_reward(achieved, desired, info):
        return -np.linalg.norm(achieved - desired, axis=1) * len(info) / 3

    found, _ = from_lerobot(
        tmp_path, achieved_goal=lambda states: states["observation"][:, :2], compute_reward=compute_reward
    )
    goals = camera_episode(4).observations["observation"][:4, :2]
    np.testing.assert_array_equal(found.observations["achieved_goal"], goals)
    np.testing.assert_array_equal(found.observations["desired_goal"], goals[[3, 3, 3, 3]])
    np.testing.assert_allclose(found.rewards, -np.linalg.norm(goals[1:] - goals[3], axis=1))


def test_buffers_archives_and_options_of_runs_take_a_dataset(tmp_path):
    env = gym.make("her_envs/PointReach-v0")
    episodes = [archived_episodes.random_episode(length, env=env, reset_info={}) for length in (3, 4)]
    with EpisodeArchive(tmp_path / "archive", env=env) as archive:
        archive.add_episodes(episodes)
    to_lerobot(archive, tmp_path / "data")
    buffer = HindsightReplayBuffer.for_env(env, n_sampled_goal=0)  # rewards of these episodes are random
    buffer.extend(from_lerobot(tmp_path / "data"))
    assert (len(buffer), buffer.num_episodes) == (7, 2)
    assert_same_episodes(open_episodes(str(tmp_path / "data")), episodes)


BAD = {
    "exactly one string per step, but infos/a has dtype |S1": {"infos": {"a": np.array([b"a"] * 3)}},
    "its observations, actions and infos must have the same keys as in episode 0": {"infos": {}},
    "infos/a must have dtype int64, got float64": {"infos": {"a": np.full(3, 0.5)}},
    "would both be stored as 'info.a.b'": {"infos": {"a.b": np.zeros(3), "a/b": np.zeros(3)}},
}


@pytest.mark.parametrize("message", BAD)
def test_episodes_that_cannot_be_stored_leave_no_files(message, tmp_path):
    good = random_episode(3, infos={"a": np.zeros(3, int)})
    bad = random_episode(3, **{"infos": good.infos} | BAD[message])
    is_first = "|S1" in message or "stored as" in message
    with pytest.raises(ValueError, match=rf"episode \d cannot be stored: .*{re.escape(message)}"):
        to_lerobot([bad] if is_first else [good, bad], tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_wrong_arguments_are_errors(tmp_path):
    with pytest.raises(TypeError, match=r"got Episode; write \[episode\]$"):
        to_lerobot(random_episode(3), tmp_path / "data")
    with pytest.raises(TypeError, match="each element of episodes must be an Episode, got dict at"):
        to_lerobot([{}], tmp_path / "data")
    with pytest.raises(ValueError, match="episodes must contain at least one episode, got none"):
        to_lerobot([], tmp_path / "data")
    (tmp_path / "mine").write_text("")
    with pytest.raises(ValueError, match=r"folder must be new or empty, but .* is not empty"):
        to_lerobot([random_episode(3)], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_missing_files_and_other_versions_are_one_sentence(tmp_path):
    with pytest.raises(
        CorruptFileError, match=r"info\.json is missing or damaged: No such file or directory$"
    ):
        next(from_lerobot(tmp_path / "none"))
    to_lerobot([random_episode(3)], tmp_path)
    info = json.loads((tmp_path / "meta/info.json").read_text())
    (tmp_path / "meta/info.json").write_text(json.dumps(info | {"codebase_version": "v2.1"}))
    with pytest.raises(CorruptFileError, match=r"the dataset must have format v3, got v2\.1"):
        next(from_lerobot(tmp_path))


@pytest.mark.parametrize(
    "name",
    ["meta/info.json", "meta/her_toolkit/chunk-000/file-000.npz", "data/chunk-000/file-000.parquet",
     "meta/episodes/chunk-000/file-000.parquet", "videos/observation.images.camera/chunk-000/file-000.mp4"],
)  # fmt: skip
def test_damaged_files_are_errors_that_name_the_file(name, tmp_path):
    to_lerobot([camera_episode(4)], tmp_path)
    content = (tmp_path / name).read_bytes()
    errors = 0
    for variant in [*damaged(content, 20), content[:100]]:
        (tmp_path / name).write_bytes(variant)
        try:
            list(from_lerobot(tmp_path))
        except ValueError as error:
            errors += str(tmp_path) in str(error) or str(error).startswith("episode 0: ")
    assert errors
