"""Goal environments outside her_envs, for the commands that accept any environment."""

import numpy as np
from gymnasium import spaces

from tests.support.specimens.reach import NeverTerminates


class Other(NeverTerminates):
    """A goal environment outside her_envs that can render."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as gym.Env declares it
    radius = 0.1

    def __init__(self, render_mode=None):
        super().__init__()
        self.render_mode = render_mode

    def render(self):
        return np.full((30, 40, 3), self.elapsed, np.uint8)


class Silent(Other):
    """`Other` without rendering."""

    metadata = {"render_modes": []}  # noqa: RUF012 - as gym.Env declares it


class NeedsInfo(Silent):
    """`Silent` with a reward that reads the info."""

    def inform(self, observation):
        return super().inform(observation) | {"cost": 0.0}

    def compute_reward(self, achieved_goal, desired_goal, info):
        infos = [info] if isinstance(info, dict) else info
        return super().compute_reward(achieved_goal, desired_goal, info) - sum(each["cost"] for each in infos)


class Long(Silent):
    """`Silent` with long episodes."""

    horizon = 90


class Endless(Silent):
    """`Silent` whose episodes never end."""

    horizon = 10**9


class Forgetful(Endless):
    """`Endless`, with an attribute of a time limit that it does not keep."""

    max_steps = 30


class EndsOnlyAtGoals(Endless):
    """An environment whose episodes end at goals only, which are never reached."""

    def terminated(self, observation, info):
        return info["is_success"]

    def is_success(self, achieved_goal, desired_goal):
        return super().is_success(achieved_goal, desired_goal) & False


class HalfBoundedActions(Silent):
    """`Silent` with actions of which one component has no upper bound."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(np.array([-1, -1], np.float32), np.array([1, np.inf], np.float32))
