"""``her show-relabeling``: files, error messages, rewards and pictures."""

import io
import sys

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

from her_envs import BitFlipping, PointReach, TaskEnv
from her_envs.canvas import AGENT, FAINT, REACHED
from her_wrappers.commands.pictures import write_pictures
from her_wrappers.commands.show_relabeling import draw_other, draw_page, draw_task, find_miss
from her_wrappers.replay.goal_selection import STRATEGIES
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


MISTAKES = [
    (["her_envs/PointReach-v0", "--out", "a.mp4"], "--out must end in .gif or .png, got a.mp4"),
    (["her_envs/PointReach-v0", "--policy", "clever"], "--policy must be wander, random or module:function"),
    (["her_envs/PointReach-v0", "--goal-selection-strategy", "past"], "'past' for argument"),
]
UNUSABLE = [
    (["CartPole-v1"], "observation space must be a Dict"),
    (["her_envs/PointReach-v0", *SMALL, "--out", "/dev/null/a.gif"], "cannot write /dev/null/a.gif"),
    (["her_envs/Counting-v0", "--episodes", "4"], "all 4 episodes reached their goals; use another --seed"),
    (["HerInfo-v0", *SMALL], "compute_reward reads info 'cost'"),
    (["HerImageGoals-v0", *SMALL], "the space of 'achieved_goal' must have one axis"),
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


MAKERS = {
    "reach": lambda: TaskEnv(PointReach()),
    "dense reach": lambda: TaskEnv(PointReach(), reward_type="dense"),
    "images of bits": lambda: TaskEnv(BitFlipping(observation="image")),
    "integers of bits": lambda: TaskEnv(BitFlipping(observation="integer")),
    "push": lambda: gym.make("her_envs/PointPush-v0"),
    "other": lambda: Other(render_mode="rgb_array"),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_rewards_are_those_of_the_relabeled_goals(make, strategy):
    env = make()
    hindsight = find_miss(env, "wander", range(3), strategy)
    before, after = hindsight.sides
    achieved = hindsight.episode.observations["achieved_goal"]
    for t, reward in enumerate(after.rewards):
        expected = env.unwrapped.compute_reward(achieved[t + 1], achieved[hindsight.goal_state], {})
        assert reward == np.float32(expected)
    assert not before.reached.any()
    assert after.reached[hindsight.goal_state - 1]


def test_is_success_of_an_environment_counts_as_reached():
    class Flag(Silent):
        """An environment with a success flag at every second step, independent of the reward."""

        def inform(self, observation):
            return {"is_success": self.elapsed % 2 == 0}

    with pytest.raises(ValueError, match="all 3 episodes reached their goals"):
        find_miss(Flag(), "random", range(3), "final")


@pytest.mark.parametrize(
    ("task", "place"), [(PointReach(), "observation"), (BitFlipping(observation="image"), "bits")]
)
def test_a_bundled_task_is_drawn_with_both_goals(task, place):
    env = TaskEnv(task, render_mode="rgb_array", render_size=96)
    hindsight = find_miss(env, "wander", range(3), "final")
    states = hindsight.frames
    own = states[0]["goal"][0]
    new = task.reached_goal(states[hindsight.goal_state])[0]
    for is_relabeled, goal in ((False, own), (True, new)):
        start = states[0][next(key for key in states[0] if key != "goal")][0]
        env.reset(options={"state": start, "goal": goal})
        np.testing.assert_array_equal(
            draw_task(env, hindsight, 0, 96, is_relabeled=is_relabeled), env.render()
        )
        for action in hindsight.episode.actions:
            env.step(action)
        last = draw_task(env, hindsight, len(hindsight.episode), 96, is_relabeled=is_relabeled)
        np.testing.assert_array_equal(last, env.render())


def test_another_environment_is_shown_as_rendered_next_to_a_chart():
    env = Other(render_mode="rgb_array")
    hindsight = find_miss(env, "wander", range(3), "final")
    for t in (0, 3, 20):
        picture = draw_other(env, hindsight, t, 100, is_relabeled=False)
        assert picture.shape == (100, 100, 3)
        assert (picture[50] == t).all()
    assert draw_other(env, hindsight, 20, 100, is_relabeled=True).shape == (100, 100, 3)


@pytest.mark.parametrize("reward_type", ["sparse", "dense"])
def test_cells_and_texts_show_reached_goals_and_rewards(reward_type):
    env = TaskEnv(PointReach(), reward_type=reward_type)
    hindsight = find_miss(env, "wander", range(3), "final")
    page = draw_page("reach", hindsight, env, 40, 320)
    assert page.shape == (452, 640, 3)
    for number, side in enumerate(hindsight.sides):
        cells = [tuple(page[365, round(number * 320 + 16 + (step + 0.5) * 288 / 50)]) for step in range(50)]
        assert cells == [REACHED if reached else AGENT for reached in side.reached[:40]] + [FAINT] * 10
    before, after = hindsight.sides
    if reward_type == "dense":
        assert before.outcome(9) == f"not reached: return {before.rewards[:9].sum():.3g}"
    else:
        first, count = np.flatnonzero(after.reached)[0] + 1, after.reached.sum()
        assert after.outcome(50) == f"reached at step {first}: {count} of 50 steps rewarded"
        assert before.outcome(50) == "not reached: 0 of 50 steps rewarded"


def test_an_episode_that_would_end_at_its_new_goal_is_counted_up_to_there():
    env = TaskEnv(PointReach(), terminate_on_success=True)
    after = find_miss(env, "wander", range(20), "final").sides[1]
    first, length = np.flatnonzero(after.reached)[0] + 1, len(after.rewards)
    assert after.end == first < length
    assert after.outcome(length) == f"reached at step {first} and ends there: 1 of {first} steps rewarded"
    assert after.outcome(first - 1) == f"not reached: 0 of {first - 1} steps rewarded"


def test_a_color_that_only_the_last_picture_has_is_kept(tmp_path):
    rng = np.random.default_rng(0)
    pictures = list(rng.integers(0, 90, (51, 20, 20, 3), np.uint8))
    pictures[-1][:5, :5] = REACHED
    write_pictures(tmp_path / "reached.gif", pictures, 100)
    gif = opened(tmp_path / "reached.gif")
    gif.seek(50)
    assert np.abs(np.subtract(gif.convert("RGB").getpixel((2, 2)), REACHED)).max() < 12
