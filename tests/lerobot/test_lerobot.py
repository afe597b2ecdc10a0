"""LeRobot: episodes come back exactly, images up to the codec of videos; other data lose their last step."""

import json
import re
import shutil

import gymnasium as gym
import numpy as np
import pyarrow.parquet as pq
import pytest
from lerobot.datasets.lerobot_dataset import LeRobotDataset

import her_envs  # noqa: F401 - registers ids
from her_wrappers import CorruptFileError, Episode, EpisodeRecorder, HindsightReplayBuffer
from her_wrappers.diagnosis import diagnose
from her_wrappers.integrations import lerobot
from her_wrappers.integrations.lerobot import from_lerobot, to_lerobot
from her_wrappers.integrations.recordings import open_episodes
from tests.support import archived_episodes
from tests.support.archived_episodes import assert_same_episodes
from tests.support.damage import damaged
from tests.support.diagnosis import EPISODES
from tests.support.pages import EXAMPLE, ROOT

pytestmark = [
    pytest.mark.filterwarnings("default"),  # of lerobot and torchvision
    pytest.mark.filterwarnings("ignore:.*does not contain the observations after"),
]
DATA, LIST = "data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet"


def random_episode(length, seed=0, **changes):
    """Return an episode of nested spaces, with a 2 x 2 image; all have the same reset infos."""
    return archived_episodes.random_episode(length, seed, **{"reset_info": {"start": np.ones(2)}} | changes)


def camera_episode(length, seed=0, shape=(32, 48, 3)):
    """Return an episode whose image is a smooth picture that moves."""
    rng = np.random.default_rng((length, seed))
    down, right = (50 + 50 * np.sin(2 * np.pi * np.arange(size) / size) for size in shape[:2])
    picture = np.add.outer(down, right) / 2
    pictures = np.stack([np.roll(picture, 2 * t + 7 * seed, axis=1) for t in range(length + 1)])
    observations = {
        "observation": rng.random((length + 1, 5)),
        "achieved_goal": rng.random((length + 1, 3)),
        "desired_goal": rng.random((length + 1, 3)),
        "camera": np.stack([pictures, 2 * pictures, 255 - pictures], axis=3).astype(np.uint8),
        "gray_image": rng.random((length + 1, 2, 4)).astype(np.float32),
        "count": rng.integers(0, 9, length + 1),
    }
    infos = {"is_success": rng.random(length) < 0.5, "word": np.array(["zwölf", "a"] * length)[:length]}
    return Episode(observations, rng.random((length, 2)), rng.random(length), True, False, infos)


def read(folder, **options):
    return list(from_lerobot(folder, **options))


@pytest.mark.parametrize("name", ["BitFlipping", "BitFlippingImage", "PointPush"])
def test_episodes_of_bits_pictures_and_points_come_back(name, tmp_path):
    episodes = []
    env = EpisodeRecorder(gym.make(f"her_envs/{name}-v0"), episodes.append, info_keys=["is_success"])
    env.action_space.seed(0)
    for seed in range(2):
        env.reset(seed=seed)
        for _ in range(3):
            env.step(env.action_space.sample())
    env.close()
    to_lerobot(episodes, tmp_path / "data", use_videos=False)
    assert_same_episodes(from_lerobot(tmp_path / "data"), episodes)


def test_nested_observations_infos_flags_and_reset_infos_come_back_from_one_file(tmp_path):
    flags = [(True, True), (True, False), (False, True), (False, False)]
    episodes = [
        random_episode(length, terminated=terminated, truncated=truncated)
        for length, (terminated, truncated) in zip((3, 1, 5, 2), flags, strict=True)
    ]
    episodes[1].rewards[:] = -np.inf
    episodes[2].infos["place/x"][0] = np.nan
    episodes[2].reset_info.clear()
    episodes[3].reset_info["other"] = np.array("text")
    to_lerobot(episodes, tmp_path, use_videos=False)
    assert_same_episodes(from_lerobot(tmp_path), episodes)
    assert_same_episodes(from_lerobot(tmp_path, episodes=[3, 1]), [episodes[1], episodes[3]])
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.glob("data/*/*")] == [DATA]


@pytest.mark.parametrize("shape", [(32, 48, 3), (21, 30, 3)])
def test_images_come_back_exactly_or_up_to_the_codec(shape, tmp_path, monkeypatch):
    monkeypatch.setattr(lerobot, "BLOCK", 3)
    episodes = [camera_episode(length, seed, shape) for seed, length in enumerate((5, 2, 6))]
    to_lerobot(episodes, tmp_path, fps=25)
    is_video = shape[0] == 32
    assert len(list(tmp_path.glob("videos/observation.images.camera/*/*.mp4"))) == is_video
    for found, episode in zip(from_lerobot(tmp_path), episodes, strict=True):
        pictures, expected = found.observations.pop("camera"), episode.observations.pop("camera")
        error = np.abs(pictures.astype(int) - expected)
        assert (error.max() < 80 and error.mean() < 8) if is_video else not error.any()
        np.testing.assert_array_equal(pictures[-1], expected[-1], "the last state is stored exactly")
        assert_same_episodes([found], [episode])


def test_lerobot_reads_every_frame(tmp_path):
    episodes = [camera_episode(length, seed) for seed, length in enumerate((5, 2, 6))]
    to_lerobot(episodes, tmp_path, fps=25, task="Push the cube")
    dataset = LeRobotDataset("me/push", root=tmp_path, video_backend="pyav")
    assert (len(dataset), dataset.num_episodes, dataset.fps) == (13, 3, 25)
    steps = [(number, t) for number, each in enumerate(episodes) for t in range(len(each))]
    for (number, t), frame in zip(steps, map(dataset.__getitem__, range(13)), strict=True):
        expected = episodes[number]
        states = {key: rows[t] for key, rows in expected.observations.items()}
        for feature, value in {
            "observation.state": states["observation"],
            "observation.desired_goal": states["desired_goal"],
            "observation.gray_img": states["gray_image"],
            "action": expected.actions[t],
            "next.reward": expected.rewards[t],
            "next.done": t == len(expected) - 1,
            "next.success": expected.infos["is_success"][t],
            "next.truncated": False,
        }.items():
            np.testing.assert_allclose(frame[feature].numpy(), value, rtol=1e-6, err_msg=feature)
        picture = 255 * frame["observation.images.camera"].numpy().transpose(1, 2, 0)
        assert np.abs(picture - states["camera"]).max() < 40
        assert (frame["task"], frame["info.word"]) == ("Push the cube", expected.infos["word"][t])


def test_datasets_of_lerobot_are_read(tmp_path):
    """With LeRobot's default codec, AV1."""
    features = {
        "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
        "observation.images.top": {
            "dtype": "video", "shape": (64, 64, 3), "names": ["height", "width", "channels"]
        },
        "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
        "next.success": {"dtype": "bool", "shape": (1,), "names": None},
    }  # fmt: skip
    dataset = LeRobotDataset.create("me/push", 10, root=tmp_path / "data", features=features)
    for number in range(3):
        for t in range(6 + number):
            dataset.add_frame({
                "observation.state": np.float32([number, t]),
                "observation.images.top": np.full((64, 64, 3), 20 * number + 10 * t, np.uint8),
                "action": np.float32([1, t]),
                "next.reward": np.float32([t]),
                "next.success": np.array([t == 5]),
                "task": "Push the cube",
            })
        dataset.save_episode()
    dataset.finalize()
    found = read(tmp_path / "data", achieved_goal=lambda observations: observations["observation"])
    assert [len(each) for each in found] == [5, 6, 7]
    for number, each in enumerate(found):
        times = np.arange(len(each) + 1)
        assert each.observations["observation"].tolist() == [[number, t] for t in times]
        assert each.observations["desired_goal"].tolist() == [[number, times[-1]]] * len(times)
        brightness = each.observations["top"].mean(axis=(1, 2, 3))
        np.testing.assert_allclose(brightness, 20 * number + 10 * times, atol=3)
        assert each.actions[:, 1].tolist() == each.rewards.tolist() == times[:-1].tolist()
        assert each.infos["is_success"].tolist() == [t == 5 for t in times[:-1]]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A dataset of four episodes of 4 steps with videos, which tests must not change."""
    folder = tmp_path_factory.mktemp("written")
    to_lerobot([camera_episode(4, seed) for seed in range(4)], folder)
    return folder


@pytest.fixture
def copy(written, tmp_path):
    return shutil.copytree(written, tmp_path / "copy")


@pytest.fixture
def other(copy):
    """The dataset as another program would write it: without our files."""
    shutil.rmtree(copy / "meta/her_toolkit")
    return copy


def edit(folder, change, name=DATA):
    """Replace the rows, numbers and timestamps of a table by ``change(table)``."""
    table = pq.read_table(folder / name)
    columns = {"episode_index", "frame_index", "timestamp"} & {*table.column_names}
    changed = change(table.select(columns).to_pandas())
    table = table.take(changed.index.to_numpy())
    for each in columns:
        table = table.set_column(table.column_names.index(each), each, [changed[each]])
    pq.write_table(table, folder / name)


def test_other_datasets_lose_the_last_action_and_say_so(other):
    with pytest.warns(UserWarning, match="episodes are truncated before them"):
        found = read(other)
    for seed, each in enumerate(found):
        episode = camera_episode(4, seed)
        episode.observations["gray_img"] = episode.observations.pop("gray_image")
        assert (len(each), each.terminated, each.truncated) == (3, False, True)
        assert each.observations.keys() == episode.observations.keys()
        for key, rows in each.observations.items():
            error = np.abs(np.squeeze(rows).astype(float) - episode.observations[key][:4])
            assert error.max() <= (40 if key == "camera" else 0)
        np.testing.assert_array_equal(each.actions, episode.actions[:3])
        np.testing.assert_array_equal(each.infos["is_success"], episode.infos["is_success"][:3])


def test_goals_and_rewards_of_other_datasets_can_be_computed(other):
    def compute_reward(achieved, desired, info):
        return -np.linalg.norm(achieved - desired, axis=1) * len(info) / 3

    found, *_ = from_lerobot(
        other, achieved_goal=lambda states: states["observation"][:, :2], compute_reward=compute_reward
    )
    goals = camera_episode(4).observations["observation"][:4, :2]
    np.testing.assert_array_equal(found.observations["achieved_goal"], goals)
    np.testing.assert_array_equal(found.observations["desired_goal"], goals[[3, 3, 3, 3]])
    np.testing.assert_allclose(found.rewards, -np.linalg.norm(goals[1:] - goals[3], axis=1))
    with pytest.raises(ValueError, match="broadcast") as error:
        list(from_lerobot(other, achieved_goal=lambda states: states["observation"] + np.ones(7)))
    assert not isinstance(error.value, CorruptFileError), "an error of the function, not of a file"


def without_episode_2(table):
    return table[table["episode_index"] != 2]


def test_episodes_that_were_removed_are_left_out(copy):
    whole = read(copy)
    edit(copy, without_episode_2, LIST)
    assert_same_episodes(from_lerobot(copy), [whole[0], whole[1], whole[3]])
    edit(copy, without_episode_2)  # the numbers and videos have gaps
    assert_same_episodes(from_lerobot(copy), [whole[0], whole[1], whole[3]])
    with pytest.raises(CorruptFileError, match="episode 2"):
        read(copy, episodes=[1, 2])


EDITS = {
    "missing at the end": lambda table: table[table.index != 7],
    "repeated": lambda table: table.iloc[[*range(len(table)), 5]],
    "another frame_index": lambda table: table.assign(frame_index=table["frame_index"] + (table.index == 7)),
    "another time": lambda table: table.assign(timestamp=table["timestamp"] + np.float32(table.index == 7)),
    "no frames": lambda table: table[table["episode_index"] != 1],
}


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_an_episode_with_wrong_frames_is_an_error_or_skipped(change, written, copy):
    whole = read(written)
    edit(copy, change)
    with pytest.raises(CorruptFileError, match=r"(?s)episode 1,.* (frames|missing)"):
        read(copy)
    with pytest.warns(UserWarning, match="1 of 4 episodes were skipped.*episode 1,"):
        assert_same_episodes(from_lerobot(copy, on_error="skip"), [whole[0], whole[2], whole[3]])


def test_frames_are_sorted_and_those_of_another_episode_are_an_error(written, copy):
    edit(copy, lambda table: table.sample(frac=1, random_state=0))
    assert_same_episodes(from_lerobot(copy), from_lerobot(written))
    edit(copy, lambda table: table.assign(episode_index=table["episode_index"] * 0))
    with pytest.raises(CorruptFileError, match=r"(?s)episode 0,.* frames must be 0 to"):
        read(copy)


def test_buffers_and_the_diagnosis_take_a_dataset(tmp_path):
    episodes = EPISODES["GD102"]()[:4]
    to_lerobot(episodes, tmp_path / "data")
    assert_same_episodes(open_episodes(str(tmp_path / "data")), episodes)
    assert diagnose(tmp_path / "data").target == str(tmp_path / "data")
    env = gym.make("her_envs/PointReach-v0")
    episodes = [archived_episodes.random_episode(length, env=env, reset_info={}) for length in (3, 4)]
    to_lerobot(episodes, tmp_path / "other")
    buffer = HindsightReplayBuffer.for_env(env, n_sampled_goal=0)  # rewards of these episodes are random
    buffer.extend(from_lerobot(tmp_path / "other"))
    assert (len(buffer), buffer.num_episodes) == (7, 2)


def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    section = (ROOT / "docs/archives.md").read_text().partition("## LeRobot")[2]
    names = {"archive": [random_episode(3), random_episode(2)]}
    exec(EXAMPLE.search(section)["code"], names)
    assert len(names["episodes"]) == 2


BAD = {
    "'info.a' of dtype": {"infos": {"a": np.array([b"a"] * 3)}},
    "Missing features: {'info.a'}": {"infos": {}},
    "'info.a' of dtype 'float64'": {"infos": {"a": np.full(3, 0.5)}},
    "the feature 'info.a.b'": {"infos": {"a.b": np.zeros(3), "a/b": np.zeros(3)}},
}


@pytest.mark.parametrize("message", BAD)
def test_episodes_that_cannot_be_stored_leave_no_files(message, tmp_path):
    good = random_episode(3, infos={"a": np.zeros(3, int)})
    bad = random_episode(3, **BAD[message])
    with pytest.raises(ValueError, match=rf"(?s)episode 1 cannot be stored: .*{re.escape(message)}"):
        to_lerobot([good, bad], tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_wrong_arguments_are_errors(tmp_path):
    with pytest.raises(TypeError, match=r"got Episode; write \[episode\]$"):
        to_lerobot(random_episode(3), tmp_path / "data")
    with pytest.raises(ValueError, match="at least one episode"):
        to_lerobot([], tmp_path / "data")
    (tmp_path / "mine").write_text("")
    with pytest.raises(ValueError, match="folder must be new or empty"):
        to_lerobot([random_episode(3)], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_missing_files_and_other_versions_are_errors(other):
    with pytest.raises(CorruptFileError, match="none cannot be read"):
        read(other / "none")
    info = json.loads((other / "meta/info.json").read_text())
    (other / "meta/info.json").write_text(json.dumps(info | {"codebase_version": "v2.1"}))
    with pytest.raises(CorruptFileError, match=r"must have format v3, got v2\.1"):
        read(other)


@pytest.mark.parametrize(
    "name",
    [LIST, "meta/her_toolkit/shard-000000.npz", "videos/observation.images.camera/chunk-000/file-000.mp4"],
)
def test_damaged_files_are_errors_that_name_the_dataset(name, copy):
    content = (copy / name).read_bytes()
    errors = 0
    for variant in [*damaged(content, 4), content[:100]]:
        (copy / name).write_bytes(variant)
        try:
            read(copy)
        except CorruptFileError as error:
            errors += str(copy) in str(error)
    assert errors
