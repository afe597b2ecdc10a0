"""A check ends with a report for all values that an environment can return."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from her_wrappers import GoalEnvChecker, check_goal_env
from tests.support.specimens.correct_goals import GoalsInPairs
from tests.support.specimens.reach import Reach

RAGGED = [[1], [1, 2]]
BOXED = np.array([None, None], dtype=object)
BOXED[:] = [[1], [np.zeros(2)]]

ODD = {
    "none": None,
    "word": "x",
    "number": 1.0,
    "infinite": np.inf,
    "short": np.zeros(1),
    "long": np.zeros(5),
    "column": np.zeros((3, 1)),
    "complex": np.array([1j, 2, 3]),
    "words": np.array(["a", "b", "c"]),
    "ragged": RAGGED,
    "boxed": BOXED,
    "dict": {"a": np.zeros(2)},
    "object": object(),
    "empty": [],
}

STEPS = 60


class ReplacesValue(Reach):
    """An environment that replaces a part of the returned values from the fourth step on."""

    def __init__(self, part, value):
        super().__init__()
        self.part, self.value = part, value

    def step(self, action):
        names = ("observation", "reward", "terminated", "truncated", "info")
        returned = dict(zip(names, super().step(action), strict=True))
        if self.elapsed > 3:
            put(returned, self.part, self.value)
        return tuple(returned.values())


class VectorReplacesValue(SyncVectorEnv):
    """A vector environment that replaces a part of the returned values from the fourth step on."""

    def __init__(self, part, value, mode):
        super().__init__([Reach] * 3, autoreset_mode=mode)
        self.part, self.value, self.count = part, value, 0

    def step(self, actions):
        names = ("observation", "reward", "terminated", "truncated", "info")
        returned = dict(zip(names, super().step(actions), strict=True))
        self.count += 1
        if self.count > 3:
            put(returned, self.part, self.value)
        return tuple(returned.values())


def put(tree, path, value):
    for key in path[:-1]:
        tree[key] = dict(tree[key])
        tree = tree[key]
    tree[path[-1]] = value


def codes_of(part, value):
    return set(check_goal_env(ReplacesValue(part, value), max_steps=STEPS).codes)


PARTS = [
    ("observation",),
    ("observation", "observation"),
    ("observation", "achieved_goal"),
    ("reward",),
    ("terminated",),
    ("info",),
    ("info", "is_success"),
]


@pytest.mark.parametrize("part", PARTS, ids="/".join)
@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_no_value_stops_a_check(part, value):
    assert check_goal_env(ReplacesValue(part, value), max_steps=STEPS).steps > 0


@pytest.mark.parametrize("part", [*PARTS, ("info", "final_obs"), ("info", "_is_success")], ids="/".join)
@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_no_value_stops_a_check_of_a_vector_environment(part, value):
    report = check_goal_env(VectorReplacesValue(part, value, AutoresetMode.SAME_STEP), max_steps=STEPS)
    if part in {("terminated",), ("reward",)} and np.shape(BOXED if value is RAGGED else value) != (3,):
        assert "GE603" in report.codes


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
@pytest.mark.parametrize("part", [part for part in PARTS if part != ("terminated",)], ids="/".join)
def test_no_value_stops_goal_env_checker(part, value):
    env = GoalEnvChecker(ReplacesValue(part, value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env.reset(seed=0)
        for _ in range(8):
            env.step(np.zeros(2, np.float32))
    assert env.report().steps == 8


def test_goals_that_change_their_shape_lie_outside_their_space():
    class Shrinks(Reach):
        def observe(self):
            part = slice(None) if self.elapsed < 3 else slice(1)
            return {key: value[part] for key, value in super().observe().items()}

    report = check_goal_env(Shrinks, max_steps=STEPS)
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

    assert check_goal_env(OneOfOtherDtype, max_steps=STEPS).codes == ["GE004"]


@pytest.mark.parametrize("value", [np.zeros(2, bool), np.array([True, False, True]), RAGGED, []])
def test_a_terminated_flag_that_is_not_a_single_bool_is_reported(value):
    report = check_goal_env(ReplacesValue(("terminated",), value), max_steps=STEPS)
    (finding,) = report.of_severity("error")
    assert (finding.code, finding.place) == ("GE000", "episode 0, step 3")


@pytest.mark.parametrize("value", [object(), threading.Lock(), BOXED, lambda: 0, [object()]])
def test_infos_that_are_objects_give_no_false_finding(value):
    """Some objects do not equal their copies, and some cannot be copied."""
    assert not codes_of(("info", "handle"), value) & {"GE000", "GE109", "GE301"}


def test_a_change_in_an_info_array_of_objects_is_found():
    class Appends(Reach):
        history = np.array([None], dtype=object)

        def inform(self, observation):
            self.history[0] = [*(self.history[0] or ()), self.elapsed]
            return {**super().inform(observation), "history": self.history}

    assert "GE301" in check_goal_env(Appends, max_steps=STEPS).codes


@pytest.mark.parametrize("value", [7, "easy", np.float32(2), {"loss": 0.5}, object()])
def test_infos_of_a_whole_vector_environment_give_no_finding(value):
    """The infos have one value for all environments together, such as a log or a number of steps."""
    report = check_goal_env(
        VectorReplacesValue(("info", "log"), value, AutoresetMode.NEXT_STEP), max_steps=STEPS
    )
    assert not report.of_severity("error", "warning"), report.text()


def test_infos_that_are_not_a_dict_end_the_check_of_a_vector_environment():
    report = check_goal_env(VectorReplacesValue(("info",), None, AutoresetMode.NEXT_STEP), max_steps=STEPS)
    (finding,) = report.of_severity("error")
    assert finding.got == "TypeError: expected a dict as infos, got NoneType"
