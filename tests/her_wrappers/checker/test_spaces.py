"""GE005 names the property of a space that a value does not have."""

import numpy as np
import pytest
from gymnasium import spaces

from her_wrappers import check_goal_env
from her_wrappers.checker.rules.spaces import _outside
from tests.support.specimens.reach import SQUARE, Reach
from tests.support.specimens.unusual_goals import GoalsInPairs


@pytest.mark.parametrize(
    ("space", "value", "message", "repair"),
    [
        (SQUARE, [0.0, 0.0], "of type list is not a float32 array", None),
        (SQUARE, np.zeros(3, np.float32), "shape (3,) is not the shape (2,)", ""),
        (SQUARE, np.zeros(2), "dtype float64 does not fit the dtype float32", None),
        (SQUARE, np.float32([0, 2]), "element [1] is 2.0, outside of the bounds [-1.0, 1.0]", ""),
        (spaces.MultiBinary(2), np.array([2, 0], np.int8), "is not an element of MultiBinary", ""),
        (spaces.Discrete(3), 5, "5 of type int is not an element of Discrete(3)", ""),
        (spaces.Dict(hand=SQUARE), [1, 2], "the value is [1, 2] instead of a dict", ""),
    ],
)
def test_a_value_outside_its_space_is_reported_with_its_path(space, value, message, repair):
    [(path, violation)] = _outside(spaces.Dict(goal=space), {"goal": value}, ())
    assert path == ("goal",)
    assert message in violation.message
    assert violation.repair == repair
    assert not list(_outside(space, space.sample(), ()))


def test_goals_that_change_their_shape_lie_outside_their_space():
    class Shrinks(Reach):
        def observe(self):
            part = slice(None) if self.elapsed < 3 else slice(1)
            return {key: value[part] for key, value in super().observe().items()}

    report = check_goal_env(Shrinks, max_steps=60)
    assert "GE005" in report.codes
    assert any("their goals differ in shape" in gap.reason for gap in report.not_exercised)


def test_goal_spaces_of_tuples_are_compared_leaf_by_leaf():
    class OneOfOtherDtype(GoalsInPairs):
        def make_space(self):
            line = spaces.Box(-1, 1, (1,), np.float64)
            return spaces.Dict(super().make_space().spaces | {"desired_goal": spaces.Tuple([line, line])})

        def observe(self):
            observation = super().observe()
            goal = tuple(part.astype(np.float64) for part in observation["desired_goal"])
            return observation | {"desired_goal": goal}

    assert check_goal_env(OneOfOtherDtype, max_steps=60).codes == ["GE004"]
