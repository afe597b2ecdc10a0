"""``her envs``: the list of bundled environments and their options."""

import inspect

import gymnasium as gym
import pytest

from her_envs.registration import ENTRY_POINTS
from tests.support.commands import her, succeeds


def test_all_ids_are_listed_with_their_spaces_and_lengths():
    output = her("envs").output
    for env_id in ENTRY_POINTS:
        (line,) = [line for line in output.splitlines() if env_id in line]
        assert f" {gym.make(env_id).unwrapped.max_steps} " in line
    for space in ("Discrete 10", "MultiBinary 10", "Box 1x36x36", "Box 4 goal Box 2"):
        assert space in output
    narrow = her("envs", columns=80).output
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80


@pytest.mark.parametrize("env_id", ENTRY_POINTS)
def test_one_environment_is_shown_with_all_options(env_id):
    output = succeeds("envs", env_id)
    assert "\nStart and goal: " in output
    options = {*inspect.signature(type(gym.make(env_id).unwrapped.task)).parameters}
    for name in options | {"max_steps", "reward_type", "render_mode", "num_envs", "autoreset_mode"}:
        assert f"\n    {name}: " in output
