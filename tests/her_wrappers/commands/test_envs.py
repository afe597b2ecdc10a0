"""``her envs``: the list of bundled environments and their options."""

import inspect
import re

import gymnasium as gym
import pytest

from her_envs.registration import ENTRY_POINTS
from tests.support.commands import her


def test_all_ids_are_listed_with_their_spaces_and_lengths():
    output = her("envs").output
    for env_id in ENTRY_POINTS:
        (line,) = [line for line in output.splitlines() if env_id in line]
        env = gym.make(env_id).unwrapped
        assert f" {env.max_steps} " in line
    for space in ("Discrete 10", "MultiBinary 10", "Box 1x36x36", "Box 4 goal Box 2"):
        assert space in output


def test_the_list_fits_a_terminal_of_80_columns():
    output = her("envs", columns=80).output
    assert "…" not in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize("env_id", ENTRY_POINTS)
def test_one_environment_is_shown_with_all_options(env_id):
    result = her("envs", env_id)
    assert result.exit_code == 0
    for fact in ("State", "Action", "Start and goal", "Success", "Episode"):
        assert re.search(rf"^{fact}  +\S", result.output, re.MULTILINE), fact
    assert "`" not in result.output
    options = {*inspect.signature(type(gym.make(env_id).unwrapped.task)).parameters}
    for name in options | {"max_steps", "reward_type", "render_mode", "num_envs", "autoreset_mode"}:
        assert f" {name} " in result.output


def test_an_unknown_id_is_wrong_usage():
    result = her("envs", "her_envs/PointMaze")
    assert result.exit_code == 2
    assert "choose from her_envs/BitFlipping-v0" in result.stderr
