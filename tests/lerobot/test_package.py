"""The package lerobot reads datasets of `to_lerobot`, and `from_lerobot` reads datasets of the package."""

import numpy as np
import pytest
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from her_wrappers import Episode
from her_wrappers.integrations.lerobot import from_lerobot, to_lerobot

pytestmark = pytest.mark.filterwarnings("default")  # of lerobot and torchvision

PICTURE = np.linspace(0, 200, 64 * 48).reshape(64, 48)


def episode(length, seed):
    rng = np.random.default_rng(seed)
    brightness = np.linspace(0.5, 1, length + 1)[:, None, None, None]
    observations = {
        "observation": rng.random((length + 1, 5)),
        "achieved_goal": rng.random((length + 1, 3)),
        "desired_goal": rng.random((length + 1, 3)),
        "camera": (brightness * np.stack([PICTURE] * 3, axis=2)).astype(np.uint8),
        "odd": rng.integers(0, 256, (length + 1, 21, 30, 3), np.uint8),
        "grid": rng.random((length + 1, 2, 4)),
        "count": rng.integers(0, 9, length + 1),
    }
    infos = {"is_success": rng.random(length) < 0.5, "word": np.array(["a", "bc"] * length)[:length]}
    return Episode(observations, rng.random((length, 2)), rng.random(length), True, False, infos)


def test_lerobot_reads_every_frame(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    episodes = [episode(length, seed) for seed, length in enumerate((5, 1, 7))]
    to_lerobot(episodes, tmp_path / "data", fps=25, task="Push the cube")
    dataset = LeRobotDataset("me/push", root=tmp_path / "data", video_backend="pyav")
    assert (len(dataset), dataset.num_episodes, dataset.fps) == (13, 3, 25)
    steps = [(number, t) for number, each in enumerate(episodes) for t in range(len(each))]
    for (number, t), frame in zip(steps, map(dataset.__getitem__, range(13)), strict=True):
        expected = episodes[number]
        states = {key: rows[t] for key, rows in expected.observations.items()}
        for feature, value in {
            "observation.state": states["observation"],
            "observation.achieved_goal": states["achieved_goal"],
            "observation.desired_goal": states["desired_goal"],
            "observation.grid": states["grid"],
            "observation.count": states["count"],
            "action": expected.actions[t],
            "next.reward": expected.rewards[t],
            "next.done": t == len(expected) - 1,
            "next.success": expected.infos["is_success"][t],
            "next.truncated": False,
            "episode_index": number,
        }.items():
            np.testing.assert_allclose(frame[feature].numpy(), value, rtol=1e-6, err_msg=feature)
        for key, tolerance in (("odd", 0.1), ("camera", 8)):
            picture = 255 * frame[f"observation.images.{key}"].numpy().transpose(1, 2, 0)
            assert np.abs(picture - states[key]).max() < tolerance
        assert (frame["task"], frame["info.word"]) == ("Push the cube", expected.infos["word"][t])
    states = np.concatenate([each.observations["observation"][:-1] for each in episodes])
    np.testing.assert_allclose(dataset.meta.stats["observation.state"]["std"], states.std(0), rtol=1e-6)
    np.testing.assert_allclose(
        dataset.meta.stats["observation.state"]["q90"], np.quantile(states, 0.9, axis=0)
    )
    shapes = {name: values.shape for name, values in dataset.meta.stats["observation.images.camera"].items()}
    quantiles = {f"q{percent}": (3, 1, 1) for percent in ("01", 10, 50, 90, 99)}
    assert shapes == dict.fromkeys(("min", "max", "mean", "std"), (3, 1, 1)) | {"count": (1,)} | quantiles


FEATURES = {
    "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "observation.images.top": {
        "dtype": "video",
        "shape": (64, 64, 3),
        "names": ["height", "width", "channels"],
    },
    "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
    "next.success": {"dtype": "bool", "shape": (1,), "names": None},
}


@pytest.mark.parametrize("codec", ["h264", "libsvtav1"])
def test_datasets_of_lerobot_are_read(codec, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    dataset = LeRobotDataset.create("me/push", 10, root=tmp_path / "data", features=FEATURES, vcodec=codec)
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
    with pytest.warns(UserWarning, match="has no states after the last actions"):
        found = list(
            from_lerobot(tmp_path / "data", achieved_goal=lambda observations: observations["observation"])
        )
    assert [len(each) for each in found] == [5, 6, 7]
    for number, each in enumerate(found):
        times = np.arange(len(each) + 1)
        assert each.observations["observation"].tolist() == [[number, t] for t in times]
        assert each.observations["desired_goal"].tolist() == [[number, times[-1]]] * len(times)
        brightness = each.observations["images.top"].mean(axis=(1, 2, 3))
        np.testing.assert_allclose(brightness, 20 * number + 10 * times, atol=3)
        assert each.actions[:, 1].tolist() == each.rewards.tolist() == times[:-1].tolist()
        assert each.infos["is_success"].tolist() == [t == 5 for t in times[:-1]]
