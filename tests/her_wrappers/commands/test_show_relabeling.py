"""``her show-relabeling``: files and error messages."""

from __future__ import annotations

import io
import sys

import gymnasium as gym
import pytest
from PIL import Image

from tests.support.commands import her
from tests.support.other_envs import ImageGoals, NeedsInfo, Other, Silent

SMALL = ["--size", "64", "--episodes", "3"]


def run(*arguments):
    return her("show-relabeling", *arguments)


def opened(file):
    return Image.open(io.BytesIO(file.read_bytes()))


@pytest.fixture(autouse=True)
def _other_environments():
    others = {
        "HerOther-v0": Other,
        "HerSilent-v0": Silent,
        "HerImageGoals-v0": ImageGoals,
        "HerInfo-v0": NeedsInfo,
    }
    for name, entry_point in others.items():
        gym.register(name, entry_point)
    yield
    for name in others:
        del gym.registry[name]


def test_a_gif_has_one_picture_per_state_and_repeats(tmp_path):
    result = run("her_envs/PointReach-v0", *SMALL, "--out", tmp_path / "new" / "reach.gif")
    assert result.exit_code == 0, result.output
    assert "As it was: goal missed; not reached: 0 of 50 steps rewarded" in result.output
    assert "In hindsight: goal of step 50; reached at step" in result.output
    file = tmp_path / "new" / "reach.gif"
    gif = opened(file)
    assert gif.n_frames == 51
    assert gif.size == (128, 100)
    assert gif.info["loop"] == 0
    durations = []
    for number in range(gif.n_frames):
        gif.seek(number)
        durations.append(gif.info["duration"])
    assert durations == [*[100] * 50, 3000]


@pytest.mark.parametrize("name", ["a.gif", "a.png"])
def test_equal_seeds_give_equal_files(name, tmp_path):
    def content(seed):
        file = tmp_path / str(seed) / name
        arguments = ["her_envs/PointReach-v0", "-o", "max_steps=9", *SMALL, "--seed", seed]
        arguments += ["--goal-selection-strategy", "future"]
        assert run(*arguments, "--out", file).exit_code == 0
        return file.read_bytes()

    assert content(0) == content(0)
    assert content(0) != content(9)


@pytest.mark.parametrize(
    "env_id",
    [
        *("her_envs/BitFlipping-v0", "her_envs/BitFlippingContinuous-v0", "her_envs/BitFlippingImage-v0"),
        *("her_envs/PointMaze-v0", "her_envs/PointPush-v0", "HerOther-v0", "HerSilent-v0"),
    ],
)
def test_every_environment_with_a_failed_episode_has_a_picture(env_id, tmp_path):
    file = tmp_path / "all.png"
    result = run(env_id, *SMALL, "--policy", "random", "--goal-selection-strategy", "future", "--out", file)
    assert result.exit_code == 0, result.output
    assert opened(file).size == (128, 100)


def test_a_policy_of_the_user_acts(tmp_path, monkeypatch):
    (tmp_path / "her_policy_for_relabeling.py").write_text("def up(observation):\n    return [0, 1]\n")
    monkeypatch.chdir(tmp_path)
    result = run("her_envs/PointReach-v0", *SMALL, "--policy", "her_policy_for_relabeling:up")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "relabeling.gif").exists()


MISTAKES = [
    (["no/Such-v0"], "cannot make no/Such-v0"),
    (["her_envs/PointReach-v0", "--out", "a.mp4"], "--out must end in .gif or .png, got a.mp4"),
    (
        ["her_envs/PointReach-v0", "--policy", "clever"],
        "--policy must be wander, random or module:function",
    ),
    (["her_envs/PointReach-v0", "-o", "layout=u"], "unexpected keyword argument 'layout'"),
    (
        ["her_envs/PointReach-v0", "--goal-selection-strategy", "past"],
        "'past' for argument",
    ),
]
UNUSABLE = [
    (["CartPole-v1"], "observation space must be a Dict"),
    (["her_envs/PointReach-v0", *SMALL, "--out", "/dev/null/a.gif"], "cannot write /dev/null/a.gif"),
    (
        ["her_envs/Counting-v0", "--episodes", "4"],
        "all 4 episodes reached their goals; use another --seed",
    ),
    (
        ["HerInfo-v0", *SMALL],
        "KeyError: 'cost'; raised in ",
    ),
    (
        ["HerImageGoals-v0", *SMALL],
        "a chart needs goals that are vectors, from a space of shape (G,), got Box(0",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_wrong_arguments_end_with_exit_code_two(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert not list(tmp_path.iterdir()), "nothing is written"


@pytest.mark.parametrize(("arguments", "message"), UNUSABLE)
def test_an_environment_that_cannot_be_shown_gives_one_sentence(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 3
    assert message in result.output
    assert not list(tmp_path.iterdir()), "nothing is written"


@pytest.mark.parametrize("missing", ["pygame", "PIL"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(missing, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, missing, None)
    result = run("her_envs/PointReach-v0", *SMALL)
    assert result.exit_code == 3
    assert 'pip install "her-toolkit[render]"' in result.output
