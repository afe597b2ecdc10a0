"""The example that draws a relabeled episode: its rewards, and its picture."""

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

from examples.show_relabeling import both_sides, draw_page, find_failure, main
from her_envs.canvas import AGENT, FAINT, REACHED


@pytest.mark.parametrize("name", ["PointReach", "PointPush", "BitFlipping"])
def test_each_step_reaches_the_new_goal_as_its_reward_says(name):
    env = gym.make(f"her_envs/{name}-v0")
    _, episode, states = find_failure(env, range(3))
    before, after = both_sides(env, episode, states)
    achieved = episode.observations["achieved_goal"]
    assert not before.reached.any()
    assert after.reached.tolist() == [
        env.unwrapped.compute_reward(goal, achieved[-1], {}) == 0 for goal in achieved[1:]
    ]


def test_episodes_that_reach_their_goals_cannot_be_shown():
    with pytest.raises(ValueError, match="seed"):
        find_failure(gym.make("her_envs/Counting-v0"), range(4))


def test_a_cell_for_each_step_shows_whether_it_reaches_the_goal():
    env = gym.make("her_envs/PointReach-v0")
    _, episode, states = find_failure(env, range(3))
    sides = both_sides(env, episode, states)
    page = draw_page(env.unwrapped.task, "reach", sides, 40, 320)
    for number, side in enumerate(sides):
        cells = [tuple(page[365, round(number * 320 + 16 + (step + 0.5) * 288 / 50)]) for step in range(50)]
        assert cells == [REACHED if reached else AGENT for reached in side.reached[:40]] + [FAINT] * 10


def test_the_gif_has_a_picture_of_each_state_and_is_equal_for_equal_seeds(tmp_path, capsys):
    for name in ("first.gif", "second.gif"):
        main(size=64, episodes=3, out=tmp_path / name)
    assert "In hindsight: goal of step 50; reached at step" in capsys.readouterr().out
    assert (tmp_path / "first.gif").read_bytes() == (tmp_path / "second.gif").read_bytes()
    with Image.open(tmp_path / "first.gif") as gif:
        assert (gif.n_frames, gif.info["loop"]) == (51, 0)
        gif.seek(50)
        colors = {np.abs(np.subtract(REACHED, color)).max() for _, color in gif.convert("RGB").getcolors()}
        assert min(colors) < 12, "also colors of a single picture are kept"
